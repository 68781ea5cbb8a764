"""What a method costs, by its name."""

import inspect
from collections.abc import Callable, Collection

from attnref.cost.biased_attention import distance_bias
from attnref.cost.chosen_attention import indexer, moba, native_sparse
from attnref.cost.differential_attention import differential
from attnref.cost.gated_delta_attention import gated_delta
from attnref.cost.latent_attention import latent
from attnref.cost.linear_attention import linear
from attnref.cost.operations import Cost
from attnref.cost.quantized_attention import quantized
from attnref.cost.sizes import Sizes
from attnref.cost.softmax_attention import (
    blockwise,
    blockwise_backward,
    fused,
    plain,
    plain_backward,
)

FORWARD: dict[str, Callable[..., Cost]] = {
    "plain": plain,
    "fused": fused,
    "blockwise": blockwise,
    "linear": linear,
    "latent": latent,
    "gated_delta": gated_delta,
    "differential": differential,
    "distance_bias": distance_bias,
    "quantized": quantized,
    "moba": moba,
    "indexer": indexer,
    "native_sparse": native_sparse,
}
BACKWARD: dict[str, Callable[..., Cost]] = {
    "plain": plain_backward,
    "blockwise": blockwise_backward,
}


def of(method: str, sizes: Sizes, *, backward: bool = False, **options: object) -> Cost:
    r"""What a method costs: operations, bytes moved and the peak of memory.

    | method | options | the program that is counted |
    |---|---|---|
    | ``plain`` | ``masked=False`` | the formula as it is written, all n × m scores in memory |
    | ``fused`` | ``pairs=None`` | softmax without waste: allowed pairs, each tensor moved once |
    | ``blockwise`` | ``block, window=(None, None), return_lse=False`` | softmax, tile by tile |
    | ``linear`` | | features of queries and keys, without scores |
    | ``latent`` | ``latent_dim, rotary_dim=0, absorb, pairs=None`` | keys and values from latents |
    | ``gated_delta`` | ``log_decay='head', beta=True, block_size=64`` | chunks, a state between |
    | ``differential`` | ``pairs=None`` | the difference of two attentions to the same values |
    | ``distance_bias`` | ``table=False, pairs=None`` | a number for its distance to each score |
    | ``quantized`` | ``bits, step_bits=32, group_size=None, pairs=None`` | few bits to a number |
    | ``moba`` | ``block_size, num_blocks`` | causal, to blocks that a gate prefers |
    | ``indexer`` | ``num_keys, index_heads, index_dim`` | causal, to tokens that are ranked first |
    | ``native_sparse`` | ``block_size, num_blocks, window`` | causal: summaries, blocks, a window |

    Each is counted by the function of its name in a module of ``attnref.cost``, whose docstring has
    the program line by line, its formula and its source. The options:

    - ``pairs``: allowed pairs of a head, of whatever mask; None means all n m.
    - ``masked``: whether there is a bool mask ``(n, m)``, one for all heads.
    - ``block``: queries and keys of a tile; ``window``: as in :func:`tiles`, and those without
      an allowed pair are skipped; ``return_lse``: the log-sum-exp of each row is written, too.
    - ``latent_dim``, ``rotary_dim``: numbers of a token's latent, and of the key that carries its
      position; ``absorb``: whether the matrices go to the query and to the output.
    - ``log_decay``: per ``'head'`` and token, per ``'component'`` too, or None; ``beta``: whether a
      rate corrects the state; ``block_size``: tokens per chunk, None for one after the other.
    - ``table``: whether the bias of all pairs is written down first.
    - ``bits``, ``step_bits``: of a stored number, and of the step that ``group_size`` of them
      share; None means all of a token.
    - ``num_blocks``: blocks of ``block_size`` keys that a query reads, its own included;
      ``num_keys``: keys that it keeps; ``window``, of ``native_sparse``: its last keys;
      ``index_heads``, ``index_dim``: of the indexer.

    Args:
        method: a name of the table.
        sizes: of query, key and value.
        backward: the gradients in place of the forward pass, from what that left in memory, which
            their peak includes; of ``plain`` and ``blockwise``, for which a step of training is
            the sum of both.
        options: as the table has them; one without a value there is required.

    Raises:
        ValueError: for a method that is not counted, or not backward, sizes that it does not
            take, or an option out of its range.
        TypeError: for an option that the method does not have, or one that is missing.

    Exact for each program, but for what its docstring leaves out.

    Examples:
        >>> sizes = Sizes(n=2048, m=2048, d_k=128, d_v=128)
        >>> plain, tiles = of("plain", sizes), of("blockwise", sizes, block=(128, 128))
        >>> plain.operations.matmul == tiles.operations.matmul, plain.peak_bytes // tiles.peak_bytes
        (True, 24)
    """
    if method not in FORWARD:
        raise ValueError(f"method: expected one of {', '.join(FORWARD)}, got {method!r}.")
    counted = BACKWARD if backward else FORWARD
    if method not in counted:
        raise ValueError(
            f"backward: expected False for {method}, got True. Gradients are counted of "
            f"{' and '.join(BACKWARD)}."
        )
    count = counted[method]
    _check_options(f"{method}, backward" if backward else method, count, options)
    return count(sizes, **options)


def _check_options(what: str, count: Callable[..., Cost], given: Collection[str]) -> None:
    known = options_of(count)
    for name in given:
        if name not in known:
            raise TypeError(
                f"{name}: expected an option of {what} ({format_options(known)}), got another one."
            )
    for name, one in known.items():
        if one.default is one.empty and name not in given:
            raise TypeError(
                f"{name}: expected a value for {what} ({format_options(known)}), got none."
            )


def options_of(count: Callable[..., Cost]) -> dict[str, inspect.Parameter]:
    """What a counting function takes beside the sizes."""
    _, *options = inspect.signature(count).parameters.values()
    return {one.name: one.replace(annotation=one.empty) for one in options}


def format_options(options: dict[str, inspect.Parameter]) -> str:
    """As a call has them: ``block, return_lse=False``."""
    return ", ".join(map(str, options.values())) or "none"
