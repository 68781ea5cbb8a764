r"""What is asked of all methods of one comparison: inputs, a mask, and the exact answer.

A task is a function that makes a :class:`Problem` of a given length. All inputs are independent
standard Gaussian numbers, the hardest case for methods that hope for structure.
"""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnref import masks
from attnref.masks import Mask
from attnref.multihead import MultiHeadAttention
from attnref.reference import scaled_dot_product_attention
from attnref.text import Refusal
from attnref.variants.moba import moba_choice

WINDOW = 256
BLOCK_SIZE = 128
LSH_ROUNDS = 4
CHOSEN_SIZE, CHOSEN_COUNT = 64, 4  # keys of a block, and blocks
LENGTHS = (2000, 100, 150, 80, 300, 120, 90, 60)
DRAFTS = 16  # nodes of a binary tree
PAGE_SIZE = 16
_CHECKED_ROWS = 128
_ROWS_AT_ONCE = 16  # of the float64 reference, which holds several matrices of this many rows


class BenchError(Refusal, ValueError):
    """A request that cannot be measured; its message is one line for the person who asked."""


@dataclass(frozen=True)
class Problem:
    """One task at one length.

    ``query`` is ``(1, heads, n, d)``, ``key`` and ``value`` are ``(1, key heads, m, d)``;
    ``mask`` says which pairs the exact answer takes, and ``lengths`` how long its sequences are,
    where there are several. With a ``layer``, all three are its input ``(1, n, D)``. ``given`` has
    what methods of this task take beside them, or in their place, by the names of the arguments;
    a method that takes ``attn_mask`` needs no ``is_causal`` beside it.
    """

    task: str
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Mask | None = None
    lengths: tuple[int, ...] | None = None
    layer: nn.MultiheadAttention | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    @property
    def is_causal(self) -> bool:
        return self.task == "causal"

    def with_gradients(self) -> "Problem":
        """The same numbers in leaves that ask for gradients."""
        query, key, value = map(_leaf, (self.query, self.key, self.value))
        given = {name: _leaf(one) for name, one in self.given.items()}
        return replace(self, query=query, key=key, value=value, given=given)


def _leaf(given: Any) -> Any:
    if not isinstance(given, Tensor) or not given.is_floating_point():
        return given
    return given.detach().clone().requires_grad_()


@dataclass(frozen=True)
class Shape:
    """What every task is made with; n is the number of keys, as long as the sequence is."""

    n: int
    heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device
    seed: int


def _gaussian(shape: Shape, generator: torch.Generator, heads: int, length: int) -> Tensor:
    # Drawn in float32, so that other dtypes measure the same numbers, rounded.
    size = (1, heads, length, shape.head_dim)
    return torch.randn(size, generator=generator, device=shape.device).to(shape.dtype)


def _self_attention(task: str, shape: Shape) -> Problem:
    generator = torch.Generator(shape.device).manual_seed(shape.seed)
    query, key, value = (_gaussian(shape, generator, shape.heads, shape.n) for _ in range(3))
    return Problem(task, query, key, value)  # each (1, heads, n, d)


def dense(shape: Shape) -> Problem:
    """Every query sees every key."""
    return _self_attention("dense", shape)


def causal(shape: Shape) -> Problem:
    """Every query sees the keys up to its own."""
    given = {"is_causal": True}
    return replace(_self_attention("causal", shape), mask=masks.causal(shape.n), given=given)


def window(shape: Shape) -> Problem:
    """Every query sees the last 256 keys up to its own."""
    mask = masks.sliding_window(shape.n, window=WINDOW, is_causal=True)
    given = {"window": WINDOW, "is_causal": True, "attn_mask": mask}
    return replace(_self_attention("window", shape), mask=mask, given=given)


def blocks(shape: Shape) -> Problem:
    """About one block of 128 × 128 in ten is seen: the diagonal, and others that are drawn."""
    side = -(-shape.n // BLOCK_SIZE)
    generator = torch.Generator(shape.device).manual_seed(shape.seed)
    lot = torch.rand((side, side), generator=generator, device=shape.device)
    lot.fill_diagonal_(-1.0)
    count = max(side, round(side * side / 10))
    layout = torch.zeros(side * side, dtype=torch.bool, device=shape.device)
    layout[lot.flatten().argsort()[:count]] = True
    layout = layout.view(side, side)
    mask = masks.block_layout(shape.n, layout=layout, block_size=BLOCK_SIZE)
    given = {"layout": layout, "block_size": BLOCK_SIZE, "attn_mask": mask}
    return replace(_self_attention("blocks", shape), mask=mask, given=given)


def chosen(shape: Shape) -> Problem:
    """Every query sees four blocks of 64 keys: its own, and those with the best means before it."""
    plain = _self_attention("chosen", shape)
    mask = moba_choice(
        plain.query, plain.key, block_size=CHOSEN_SIZE, num_blocks=CHOSEN_COUNT, is_causal=True
    )
    return replace(plain, mask=mask, given={"is_causal": True, "attn_mask": mask})


def packed(shape: Shape) -> Problem:
    """Eight sequences end to end, the first of which has two thirds of the tokens."""
    total = sum(LENGTHS)
    rest = [max(1, length * shape.n // total) for length in LENGTHS[1:]]
    if shape.n <= sum(rest):
        raise BenchError("n: expected at least 8 for task 'packed', got {n}. Raise --n.", n=shape.n)
    lengths = (shape.n - sum(rest), *rest)
    borders = torch.tensor((0, *lengths)).cumsum(0).to(shape.device)
    mask = masks.packed(lengths)
    given = {"cu_seqlens": borders, "attn_mask": mask}
    return replace(_self_attention("packed", shape), mask=mask, lengths=lengths, given=given)


def decode(shape: Shape) -> Problem:
    """One query per head against n keys in a cache, four query heads per key head."""
    generator = torch.Generator(shape.device).manual_seed(shape.seed)
    key_heads = shape.heads // 4 if shape.heads % 4 == 0 else shape.heads
    query = _gaussian(shape, generator, shape.heads, 1)  # (1, heads, 1, d)
    key = _gaussian(shape, generator, key_heads, shape.n)  # (1, heads / 4, n, d)
    value = _gaussian(shape, generator, key_heads, shape.n)  # (1, heads / 4, n, d)
    return Problem("decode", query, key, value)


def drafts(shape: Shape) -> Problem:
    """The 16 nodes of a binary tree, the last of n keys in a cache, in groups as in ``decode``."""
    if shape.n < DRAFTS:
        raise BenchError(
            "n: expected at least {least} for task 'drafts', got {n}. Raise --n.",
            least=DRAFTS,
            n=shape.n,
        )
    step = decode(shape)
    generator = torch.Generator(shape.device).manual_seed(shape.seed + 1)
    query = _gaussian(shape, generator, shape.heads, DRAFTS)  # (1, heads, 16, d)
    parents = [(node + 1) // 2 - 1 for node in range(DRAFTS)]
    mask = masks.tree(parents, past=shape.n - DRAFTS)
    return replace(step, task="drafts", query=query, mask=mask, given={"attn_mask": mask})


def latent(shape: Shape) -> Problem:
    """One query per head against n latents, each as wide as four heads."""
    generator = torch.Generator(shape.device).manual_seed(shape.seed)
    query = _gaussian(shape, generator, shape.heads, 1)  # (1, heads, 1, d)
    wide = replace(shape, head_dim=4 * shape.head_dim, dtype=torch.float32)
    latents = _gaussian(wide, generator, 1, shape.n)  # (1, 1, n, d_c)
    ups = [  # (heads, d, d_c), so that keys and values have variance 1 too
        wide.head_dim**-0.5 * _gaussian(wide, generator, shape.heads, shape.head_dim)[0]
        for _ in range(2)
    ]
    key, value = (latents @ up.mT for up in ups)  # (1, heads, n, d)
    named = {"latent": latents[:, 0], "key_up": ups[0], "value_up": ups[1]}
    given: dict[str, Any] = {name: one.to(shape.dtype) for name, one in named.items()}
    given |= {"query_rotary": None, "key_rotary": None}
    return Problem("latent", query, key.to(shape.dtype), value.to(shape.dtype), given=given)


def sink(shape: Shape) -> Problem:
    """Causal attention with a sink for each head, whose score is that of a row's sum, or so."""
    plain = causal(shape)
    scores = torch.linspace(-2, 2, shape.heads, device=shape.device) + math.log(shape.n)
    return replace(plain, task="sink", given={**plain.given, "sink": scores.to(shape.dtype)})


def delta(shape: Shape) -> Problem:
    """A state that decays by some per cent a token and is corrected, read by every query."""
    problem = _self_attention("delta", replace(shape, dtype=torch.float32))
    generator = torch.Generator(shape.device).manual_seed(shape.seed + 1)
    size = (1, shape.heads, shape.n)
    steps, rates = (torch.randn(size, generator=generator, device=shape.device) for _ in range(2))
    key = nn.functional.normalize(problem.key, dim=-1)
    query, key, value = (x.to(shape.dtype) for x in (problem.query, key, problem.value))
    given = {"log_decay": -0.05 * steps.exp(), "beta": rates.sigmoid()}
    return Problem("delta", query, key, value, given=given)


def recurrence(problem: Problem, dtype: torch.dtype) -> Tensor:
    """What is asked in the task delta, token by token, ``(1, heads, n, d)``."""
    query, key, value = (side.to(dtype) for side in (problem.query, problem.key, problem.value))
    decay, beta = problem["log_decay"].to(dtype).exp(), problem["beta"].to(dtype)
    query = query * query.shape[-1] ** -0.5
    state = key.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1])
    outputs = []
    for t in range(key.shape[-2]):
        q, k, v = (side[..., t, None, :] for side in (query, key, value))  # (1, heads, 1, d)
        state = decay[..., t, None, None] * state
        state = state + k.mT @ (beta[..., t, None, None] * (v - k @ state))
        outputs.append(q @ state)
    return torch.cat(outputs, -2)


def distance(shape: Shape) -> Problem:
    """Every query sees every key, with a bias for the distance that each head has learned."""
    plain = _self_attention("distance", shape)
    generator = torch.Generator(shape.device).manual_seed(shape.seed + 1)
    size = (shape.heads, 2 * shape.n - 1)
    bias = torch.randn(size, generator=generator, device=shape.device).to(shape.dtype)
    return replace(plain, given={"bias": bias})


def differential(shape: Shape) -> Problem:
    """Every query sees every key by the difference of two maps, in half as many wide heads."""
    wide = replace(shape, heads=max(1, shape.heads // 2), head_dim=2 * shape.head_dim)
    return replace(_self_attention("differential", wide), given={"lambd": 0.5})


def paged(shape: Shape) -> Problem:
    """One query per head and sequence: one of n tokens and seven of 3 to 15 per cent of them."""
    generator = torch.Generator(shape.device).manual_seed(shape.seed)
    lengths = tuple(max(1, length * shape.n // LENGTHS[0]) for length in LENGTHS)
    key_heads = shape.heads // 4 if shape.heads % 4 == 0 else shape.heads
    query, key, value = (
        torch.cat([_gaussian(shape, generator, heads, length) for _ in lengths])
        for heads, length in ((shape.heads, 1), (key_heads, shape.n), (key_heads, shape.n))
    )  # (8, heads, 1, d), (8, heads / 4, n, d) twice
    counts = [-(-length // PAGE_SIZE) for length in lengths]
    order = torch.randperm(sum(counts), generator=generator, device=shape.device)
    table = order.new_full((len(lengths), max(counts)), -1)
    pools = [
        side.new_zeros(len(order), PAGE_SIZE, key_heads, shape.head_dim) for side in (key, value)
    ]
    first = 0
    for row, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        table[row, :count] = order[first : first + count]
        first += count
        for pool, side in zip(pools, (key, value), strict=True):
            tokens = side.new_zeros(count * PAGE_SIZE, key_heads, shape.head_dim)
            tokens[:length] = side[row, :, :length].transpose(0, 1)
            pool[table[row, :count]] = tokens.view(count, PAGE_SIZE, *tokens.shape[1:])
    ends = torch.tensor(lengths, device=shape.device)
    given = {"key": pools[0], "value": pools[1], "block_table": table, "lengths": ends}
    mask = masks.padding(lengths, shape.n)
    return Problem("paged", query, key, value, mask, lengths, given=given)


def layer(shape: Shape) -> Problem:
    """A whole multi-head layer of width heads × head_dim, its projections included."""
    generator = torch.Generator(shape.device).manual_seed(shape.seed)
    width = shape.heads * shape.head_dim
    module = nn.MultiheadAttention(width, shape.heads, bias=False, batch_first=True, device="meta")
    module = module.to_empty(device=shape.device)
    for weight in module.parameters():
        nn.init.normal_(weight, std=width**-0.5, generator=generator)
    size = (1, shape.n, width)
    tokens = torch.randn(size, generator=generator, device=shape.device).to(shape.dtype)
    module = module.to(shape.dtype).eval()
    return Problem("layer", tokens, tokens, tokens, layer=module)  # each (1, n, D)


@dataclass(frozen=True)
class Task:
    """How to make its problems, lengths to try when none are asked for, and what to compare with.

    ``baseline`` names the method that its user would otherwise pick; ``masked`` says whether
    some methods hold an n × n mask.
    """

    make: Callable[[Shape], Problem]
    lengths: tuple[int, ...]
    baseline: str = "sdpa"
    masked: bool = False


TASKS = {
    "dense": Task(dense, (512, 1024, 2048, 4096, 8192)),
    "causal": Task(causal, (512, 1024, 2048, 4096, 8192)),
    "window": Task(window, (1024, 2048, 4096, 8192, 16384), masked=True),
    "blocks": Task(blocks, (1024, 2048, 4096, 8192), masked=True),
    "chosen": Task(chosen, (1024, 2048, 4096, 8192, 16384), baseline="sdpa-unrestricted"),
    "packed": Task(packed, (725, 1450, 2900)),
    "decode": Task(decode, (1024, 2048, 4096, 8192, 16384)),
    "drafts": Task(drafts, (1024, 2048, 4096, 8192, 16384), baseline="sdpa-steps"),
    "latent": Task(latent, (1024, 2048, 4096, 8192, 16384), baseline="sdpa-made"),
    "sink": Task(sink, (512, 1024, 2048, 4096, 8192), baseline="sdpa-key", masked=True),
    "delta": Task(delta, (512, 1024, 2048, 4096, 8192), baseline="recurrence"),
    "distance": Task(distance, (512, 1024, 2048, 4096), baseline="sdpa-table", masked=True),
    "differential": Task(differential, (512, 1024, 2048, 4096), baseline="sdpa-twice"),
    "paged": Task(paged, (1024, 2048, 4096, 8192, 16384), masked=True),
    "layer": Task(layer, (256, 512, 1024, 2048), baseline="torch-multihead"),
}


def checked_rows(n: int) -> slice:
    """The queries whose outputs are compared: 128 of them, or all if there are fewer.

    An odd distance: a number without a factor in common with 128, so that they fall on every
    place inside blocks of 128.
    """
    count = min(n, _CHECKED_ROWS)
    distance = max(1, (n - 1) // (_CHECKED_ROWS - 1) - 1 | 1)
    return slice(n - 1 - (count - 1) * distance if n else 0, n, distance)  # the last sees most


def exact_output(problem: Problem) -> Tensor:
    r"""The float64 reference at :func:`checked_rows`, ``(1, heads, rows, d)`` or ``(1, rows, D)``.

    Rows of attention do not depend on each other, so each of these is the exact answer to the
    inputs as they are, rounded to their dtype.
    """
    n = problem.query.shape[-2]
    if problem.layer is not None:
        module = MultiHeadAttention.from_torch(copy.deepcopy(problem.layer).double())
        tokens = problem.query.detach().double()
        with torch.no_grad():
            expected: Tensor = module(tokens[:, checked_rows(n)], tokens)
        return expected
    if problem.task == "delta":
        with torch.no_grad():
            return recurrence(problem, torch.float64)[..., checked_rows(n), :]
    key, value = problem.key.detach().double(), problem.value.detach().double()
    if problem.task == "latent":
        latents = problem["latent"].detach().double()[:, None]
        ups = problem["key_up"], problem["value_up"]
        key, value = (latents @ up.detach().double().mT for up in ups)
    chosen = range(n)[checked_rows(n)]
    pieces = []
    for start in range(0, len(chosen), _ROWS_AT_ONCE):
        part = chosen[start : start + _ROWS_AT_ONCE]
        rows = slice(part.start, part.stop, part.step)
        allowed = None
        if problem.mask is not None:
            allowed = problem.mask.block(rows, slice(None), problem.query.device)
        if problem.task == "distance":
            place = torch.arange(n, device=problem.query.device)
            allowed = problem["bias"].detach().double()[:, place - place[rows, None] + n - 1]
        query = problem.query.detach()[..., rows, :].double()
        if problem.task == "differential":
            first, second = (
                scaled_dot_product_attention(q, k, value)
                for q, k in zip(query.chunk(2, -1), key.chunk(2, -1), strict=True)
            )
            pieces.append(first - problem["lambd"] * second)
            continue
        sink = problem["sink"].detach().double() if problem.task == "sink" else None
        pieces.append(
            scaled_dot_product_attention(query, key, value, allowed, enable_gqa=True, sink=sink)
        )
    return torch.cat(pieces, dim=-2)  # (1, heads, rows, d)


def relative_error(output: Tensor, expected: Tensor) -> float:
    r"""``|O - O*| / |O*|`` over the checked rows, in float64."""
    rows = checked_rows(output.shape[-2])
    found = output.detach()[..., rows, :].double()
    return float((found - expected).norm() / expected.norm())
