r"""The gated delta family: a state of fixed size that fades, and is corrected where it is written.

    S_t = (I - β_t k_t k_tᵀ) Diag(a_t) S_(t-1) + β_t k_t v_tᵀ
    o_t = c S_tᵀ q_t

With one decay ``a_t`` per head or one per component, with the rate ``β_t`` or without
correction, this is RetNet, Mamba-2's scan, gated linear attention, DeltaNet, Gated DeltaNet and
Kimi delta attention. Token by token it is a loop; a chunk of tokens at a time, it is products of
matrices and one triangular system.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref import checks
from attnref._autocast import own_precision
from attnref._door import Call, check_neutral, check_tensors, enter
from attnref.record import Example, Method

__all__ = ["gated_delta_attention", "gated_delta_attention_step"]

_AT_ONCE = 4  # chunks: fewer are too small for fast products, more leave the cache

# What a chunk needs to know of its decays: the products with its keys, one matrix of
# (..., chunks, B keys, B rows) for each kind of rows; the rows as they meet the state before the
# chunk; the keys as they enter the one after it; and what that keeps of the one before.
Decayed = tuple[list[Tensor], list[Tensor], Tensor, Tensor | None]


def gated_delta_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    block_size: int = 64,
) -> Tensor:
    r"""Causal linear attention whose state decays, and is corrected where it is written.

        S_t = (I - β_t k_t k_tᵀ) Diag(a_t) S_(t-1) + β_t k_t v_tᵀ
        o_t = c S_tᵀ q_t
        a_t = e^(g_t)

    from ``S_0=0``; without ``beta``
    ``S_t = Diag(a_t) S_(t-1) + k_t v_tᵀ``. There is no normaliser: without decay
    and ``beta`` it is the numerator of :func:`attnref.linear_attention`.

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more.
        key: ``(..., n, d_k)``, same dtype and device. With ``beta``, of length 1 at most, or the
            state may grow: a step multiplies it by ``1-β|k|²`` along the key.
        value: ``(..., n, d_v)``, same dtype and device, same leading dimensions as ``key``.
        attn_mask: None, for PyTorch's order of arguments.
        dropout_p: 0.0, likewise.
        is_causal: False, likewise.
        scale: ``c``; None means 1/sqrt(d_k).
        enable_gqa: dimension -3 counts heads, and consecutive query heads share a key head.
        log_decay: ``g``, 0 or less, ``-inf`` to forget all: ``(..., n)``, a decay per head, or
            ``(..., n, d_k)``, a gate with a decay for each component of the key; any floating
            dtype of 16 bits or more. Sizes of 1 are repeated. None means that nothing decays.
        beta: ``(..., n)``, the share of what the state says of a key that is replaced; dtype and
            sizes of 1 as for ``log_decay``. None means that values are added, without correction.
        block_size: tokens per chunk, a power of two; it changes the time and not the result.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    A token with ``log_decay`` 0 and ``beta`` 0, whatever its key and value hold, leaves the state
    as it is; without ``beta``, one with ``log_decay`` 0, a key of zeros and a finite value: so
    padding is left out. A NaN or inf of another token stays in the state: its row and all later
    ones then hold NaN or inf, in one component if it is the value's, and earlier rows are as if it
    were not there.

    Exact up to rounding; half precision is computed in float32. No power of a positive number is
    taken if ``log_decay`` is not positive. Time, in products with chunks of B:
    ``2 n B (d_k + d_v) + 4 n d_k d_v`` operations, with ``beta`` ``n B (2 d_k + d_v) + 2 n d_k
    d_v`` more. Memory beside the result: ``O(B² + B d + d_k d_v)`` without gradients on a
    processor, for chunks are taken four at a time, to stay in its cache; else ``O(n (B + d_k +
    d_v) + n d_k d_v / B)``.

    Source: Sun et al. 2023, arXiv 2307.08621 (one decay); Dao and Gu 2024, arXiv 2405.21060 (a
    decay per token); Yang et al. 2023, arXiv 2312.06635 (a gate); Schlag et al. 2021, arXiv
    2102.11174, and Yang et al. 2024, arXiv 2406.06484 (the delta rule, and its chunks); Yang et
    al. 2024, arXiv 2412.06464 (decay and delta rule); Kimi Team 2025, arXiv 2510.26692 (gate and
    delta rule).

    Examples:
        >>> one = torch.ones(2, 1)
        >>> value = torch.tensor([[10.0], [20.0]])
        >>> gated_delta_attention(one, one, value, beta=torch.ones(2))
        tensor([[10.],
                [20.]])
        >>> gated_delta_attention(one, one, value, log_decay=torch.tensor([0.5, 0.5]).log())
        tensor([[10.],
                [25.]])
    """
    advice = "It is causal without, and log_decay 0 and beta 0 leave a token out."
    check_neutral(advice, attn_mask=attn_mask, is_causal=is_causal)
    call = enter(query, key, value, None, dropout_p, False, scale, enable_gqa)
    log_decay, beta = _check_inputs(call, log_decay, beta, block_size)
    with own_precision(query.device):
        query, key, value = call.tensors()
        if enable_gqa:
            groups = query.shape[-3] // call.key.shape[-3]
            log_decay, beta = (
                x if x is None else x.repeat_interleave(groups, -3) for x in (log_decay, beta)
            )
        key, value = _left_out(key, value, beta)
        state = key.new_zeros(*key.shape[:-2], key.shape[-1], value.shape[-1])
        output, _ = _chunks(query * call.scale, key, value, log_decay, beta, state, block_size)
        return output.to(call.query.dtype)


def gated_delta_attention_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor | None = None,
    *,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    scale: float | None = None,
    block_size: int = 64,
) -> tuple[Tensor, Tensor]:
    r"""The next tokens of gated delta attention, one or many, from the state of those before.

        S_t = (I - β_t k_t k_tᵀ) Diag(a_t) S_(t-1) + β_t k_t v_tᵀ
        o_t = c S_tᵀ q_t

    Args:
        query: ``(..., n, d_k)``, any floating dtype of 16 bits or more; n may be 1, as in decoding,
            or the length of a prompt.
        key: ``(..., n, d_k)``, same dtype and device.
        value: ``(..., n, d_v)``, same dtype and device, same leading dimensions as ``key``.
        state: ``(..., d_k, d_v)``, of the tokens before these, any floating dtype of 16 bits or
            more; None means that there are none. It is not changed.
        log_decay, beta, scale, block_size: as in :func:`gated_delta_attention`.

    Returns:
        ``(..., n, d_v)`` in the dtype of ``query``, and the state after these tokens, float32 for
        half precision.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    However a sequence is cut, the parts give what the whole gives, up to rounding. One token takes
    ``4 d_k d_v`` operations in products, with ``beta`` ``2 d_k d_v`` more, and memory for
    ``d_k d_v`` numbers, however long the past.

    Source: as for :func:`gated_delta_attention`.

    Examples:
        >>> token, rate = torch.ones(1, 1), torch.ones(1)
        >>> output, state = gated_delta_attention_step(token, token, 10 * token, beta=rate)
        >>> gated_delta_attention_step(token, token, 20 * token, state, beta=rate / 2)
        (tensor([[15.]]), tensor([[15.]]))
    """
    call = enter(query, key, value, scale=scale)
    log_decay, beta = _check_inputs(call, log_decay, beta, block_size)
    state = _checked_state(call, state)
    with own_precision(query.device):
        query, key, value = call.tensors()
        key, value = _left_out(key, value, beta)
        inputs = query * call.scale, key, value, log_decay, beta, state
        output, state = _token(*inputs) if key.shape[-2] == 1 else _chunks(*inputs, block_size)
        return output.to(call.query.dtype), state


def _left_out(key: Tensor, value: Tensor, beta: Tensor | None) -> tuple[Tensor, Tensor]:
    """Numbers for NaN and inf in tokens of rate 0, which nothing is read from."""
    if beta is None or not _may_hold_nan(key, value):
        return key, value
    skipped = beta == 0  # (..., n, 1)
    key, value = (torch.where(skipped, torch.nan_to_num(x, 0.0, 0.0, 0.0), x) for x in (key, value))
    return key, value


def _token(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor | None,
    beta: Tensor | None,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    """The recurrence as it is written."""
    if log_decay is not None:
        state = log_decay.mT.exp() * state  # (..., d_k, d_v)
    if beta is not None:
        value = beta * (value - key @ state)  # (..., 1, d_v)
    state = state + key.mT @ value
    return query @ state, state


def _chunks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor | None,
    beta: Tensor | None,
    state: Tensor,
    block_size: int,
) -> tuple[Tensor, Tensor]:
    n = query.shape[-2]
    size = min(block_size, 1 << max(n - 1, 0).bit_length())  # a power of two
    # Some chunks and their squares fit a processor's cache; a GPU is only filled by all of them.
    step = size * _AT_ONCE if query.device.type == "cpu" else max(n, 1)
    outputs = []
    for start in range(0, max(n, 1), step):
        length = min(step, n - start)
        missing = size * max(1, -(-length // size)) - length
        taken = slice(start, start + length), missing
        output, state = _round(
            _pad(query, *taken),
            _pad(key, *taken),
            _pad(value, *taken),
            None if log_decay is None else _pad(log_decay, *taken),
            None if beta is None else _pad(beta, *taken),
            state,
            size,
        )
        outputs.append(output)
    return torch.cat(outputs, -2)[..., :n, :], state


def _round(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor | None,
    beta: Tensor | None,
    state: Tensor,
    size: int,
) -> tuple[Tensor, Tensor]:
    """Some chunks: what does not depend on the state for all at once, the rest one by one."""
    rows = [query]
    if beta is not None:
        rows, value = [query, beta * key], beta * value
    if log_decay is None:
        products, rows, key, kept = _plain_products(rows, key, size)
    elif log_decay.shape[-1] == 1:
        products, rows, key, kept = _decayed_products(rows, key, log_decay, size)
    else:
        products, rows, key, kept = _gated_products(rows, key, log_decay, size)

    before, written = [], []
    for i, new in enumerate(_cut(value, size).unbind(-3)):  # (..., B, d_v)
        if beta is not None:
            # Row by row: what it should say, less what the state and the rows above already say.
            new = torch.linalg.solve_triangular(
                products[1][..., i, :, :].mT,
                new - rows[1][..., i, :, :] @ state,
                upper=False,
                unitriangular=True,
            )
        before.append(state)
        written.append(new)
        faded = state if kept is None else kept[..., i, :, :] * state
        state = faded + key[..., i, :, :].mT @ new  # (..., d_k, d_v)
    own = _lower_product(products[0].triu().mT, torch.stack(written, -3))  # (..., chunks, B, d_v)
    output = rows[0] @ torch.stack(before, -3) + own
    return output.flatten(-3, -2), state


def _lower_product(lower: Tensor, written: Tensor) -> Tensor:
    """The product with zeros above the diagonal, where 0 times NaN or inf counts as 0."""
    if not _may_hold_nan(written):
        return lower @ written
    finite = torch.nan_to_num(written, 0.0, 0.0, 0.0)
    reached = (finite != written).cumsum(-2) > 0  # by NaN or inf of the row or of one before
    return torch.where(reached, torch.nan, lower @ finite)


def _may_hold_nan(*tensors: Tensor) -> bool:
    """False where a look at the values is cheap, and finds neither NaN nor inf."""
    is_plain = not torch.compiler.is_compiling() and all(
        type(x) is Tensor and x.device.type == "cpu" for x in tensors
    )
    if not is_plain or torch._C._functorch.get_interpreter_stack():
        return True
    ends = (float(end) for x in tensors if x.numel() for end in x.detach().aminmax())
    return not all(-torch.inf < end < torch.inf for end in ends)


def _pad(tokens: Tensor, taken: slice, missing: int) -> Tensor:
    """Padded with tokens that leave the state as it is."""
    tokens = tokens[..., taken, :]
    return pad(tokens, (0, 0, 0, missing)) if missing else tokens


def _cut(tokens: Tensor, size: int) -> Tensor:
    return torch.unflatten(tokens, -2, (-1, size))  # (..., chunks, B, .)


def _plain_products(rows: list[Tensor], key: Tensor, size: int) -> Decayed:
    key, *rows = (_cut(x, size) for x in (key, *rows))  # (..., chunks, B, d_k) each
    return [key @ row.mT for row in rows], rows, key, None


def _decayed_products(rows: list[Tensor], key: Tensor, log_decay: Tensor, size: int) -> Decayed:
    """One decay for all components: a factor on the products."""
    key, *rows = (_cut(x, size) for x in (key, *rows))  # (..., chunks, B, d_k) each
    steps = _cut(log_decay, size).mT  # (..., chunks, 1, B)
    later = torch.ones(size, size, dtype=torch.bool, device=key.device).triu(1)
    # Row j holds g_{j+1} + ... + g_i: sums, for a difference of two would lose digits, or be NaN.
    spans = torch.where(later, steps, 0.0).cumsum(-1)  # (..., chunks, B, B)
    since = (steps[..., :1] + spans[..., :1, :]).mT.exp()  # (..., chunks, B, 1)
    factors = spans.exp()
    products = [(key @ row.mT) * factors for row in rows]
    return products, [row * since for row in rows], key * factors[..., -1:], since[..., -1:, :]


def _gated_products(rows: list[Tensor], key: Tensor, log_decay: Tensor, size: int) -> Decayed:
    """A decay for each component: blocks are joined two by two, and decay to their border."""
    products = [(row * key).sum(-1)[..., None, None] for row in rows]  # (..., blocks, 1, 1)
    sums = log_decay.unsqueeze(-2)  # (..., blocks, 1, d_k)
    decay = log_decay.exp()
    rows = [(row * decay).unsqueeze(-2) for row in rows]  # (..., blocks, 1, d_k)
    key = key.unsqueeze(-2)
    while key.shape[-2] < size:
        key, sums, *rows = (torch.unflatten(x, -3, (-1, 2)) for x in (key, sums, *rows))
        for i, row in enumerate(rows):
            across = key[..., 0, :, :] @ row[..., 1, :, :].mT
            first, second = torch.unflatten(products[i], -3, (-1, 2)).unbind(-3)
            left = pad(first, (0, 0, 0, across.shape[-1]))
            products[i] = torch.cat([left, torch.cat([across, second], -2)], -1)
        one, other = sums[..., :1, :, :], sums[..., 1:, :, :]
        # A row of the second block decays through the first, a key of the first through the second.
        through = torch.cat([torch.ones_like(one), one.exp()], -3)
        rows = [(row * through).flatten(-3, -2) for row in rows]
        key = (key * torch.cat([other.exp(), torch.ones_like(one)], -3)).flatten(-3, -2)
        sums = (one + other).squeeze(-3)
    return products, rows, key, sums.exp().mT


def _check_inputs(
    call: Call, log_decay: Tensor | None, beta: Tensor | None, block_size: int
) -> tuple[Tensor | None, Tensor | None]:
    """What :func:`enter` cannot know; decay and rate with a last dimension, in full size."""
    lead, n = call.key.shape[:-1], call.shape[-2]
    if call.shape[-1] != n:
        raise ValueError(
            f"key: expected {n} tokens, as query has, got {call.shape[-1]}. Each token reads and "
            "writes once; for tokens that follow others call gated_delta_attention_step."
        )
    advice = "It is the number of tokens taken at a time; any power of two gives the same result."
    block_size = checks.check_integer("block_size", block_size, 1, advice)
    if block_size & (block_size - 1):
        raise ValueError(
            f"block_size: expected a power of two, got {block_size}. Take "
            f"{1 << block_size.bit_length()}; any of them gives the same result."
        )
    if log_decay is not None:
        _check_number(call, "log_decay", log_decay)
        shape = tuple(log_decay.shape)
        if len(shape) == len(lead):
            log_decay = log_decay[..., None]
        width = 1 if shape[-1:] == (1,) or len(shape) == len(lead) else call.key.shape[-1]
        if checks.broadcast_shape(log_decay.shape, (*lead, width)) != (*lead, width):
            raise ValueError(
                f"log_decay: expected shape {tuple(lead)}, a decay per head and token, or "
                f"{tuple(call.key.shape)}, one for each component of the key too, got {shape}. "
                "Sizes of 1 are repeated."
            )
        log_decay = log_decay.to(call.dtype).expand(*lead, width)
    if beta is not None:
        _check_number(call, "beta", beta)
        if beta.dim() != len(lead) or checks.broadcast_shape(beta.shape, lead) != lead:
            raise ValueError(
                f"beta: expected shape {tuple(lead)}, a rate per head and token, got "
                f"{tuple(beta.shape)}. Sizes of 1 are repeated."
            )
        beta = beta.to(call.dtype).expand(lead)[..., None]
    return log_decay, beta


def _checked_state(call: Call, state: Tensor | None) -> Tensor:
    expected = (*call.key.shape[:-2], call.key.shape[-1], call.value.shape[-1])
    if state is None:
        return call.key.new_zeros(expected, dtype=call.dtype)
    _check_number(call, "state", state)
    if state.shape != expected:
        raise ValueError(
            f"state: expected shape {expected}, a matrix of d_k rows and d_v columns for each "
            f"head, got {tuple(state.shape)}. Pass what the step before has returned."
        )
    return state.to(call.dtype)


def _check_number(call: Call, name: str, tensor: Tensor) -> None:
    """A tensor on the device of the query, of whatever floating dtype."""
    check_tensors(**{name: tensor})
    check_tensors(query=call.query, **{name: tensor.to(call.query.dtype)})


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    block_size: int = 64,
) -> Tensor:
    """Token by token."""
    group = query.shape[-3] // key.shape[-3] if enable_gqa else 1
    if group > 1:
        key, value = (x.repeat_interleave(group, -3) for x in (key, value))
        log_decay, beta = (
            x if x is None else x.repeat_interleave(group, key.dim() - 3) for x in (log_decay, beta)
        )
    query = query * (query.shape[-1] ** -0.5 if scale is None else scale)
    decay = torch.ones_like(key[..., 0]) if log_decay is None else log_decay.exp()
    decay = decay if decay.ndim == key.ndim else decay[..., None]  # (..., n, 1 or d_k)
    state = key[..., :0, :].mT @ value[..., :0, :]  # (..., d_k, d_v)
    outputs = [query[..., :0, :] @ state]
    for t in range(key.shape[-2]):
        q, k, v, a = (x[..., t, None, :] for x in (query, key, value, decay))  # (..., 1, d)
        state = a.mT * state
        read = 0.0 if beta is None else k @ state
        rate = 1.0 if beta is None else beta[..., t, None, None]
        state = state + k.mT @ (rate * (v - read))
        outputs.append(q @ state)
    return torch.cat(outputs, -2)


def _rates(given: Example) -> dict[str, Any]:
    """Keys of length 1, decays of some per cent and rates between 0 and 1."""
    key = torch.nn.functional.normalize(given.key.to(torch.float32), dim=-1).to(given.key.dtype)
    size = given.key.shape[:-1]
    return {
        "key": key,
        "log_decay": -0.05 * given.randn(*size).exp(),
        "beta": given.randn(*size).sigmoid(),
    }


METHOD = Method(
    function=gated_delta_attention,
    page="variants/gated-delta",
    formula=_formula,
    neutral=("attn_mask", "is_causal", "dropout_p"),
    example=_rates,
    plain=None,
    family="recurrence",
    lengths="equal",
    peers=("fla-core", "transformers"),
    ways={"block_size": (1, 2, 4)},
    tasks=("delta",),
)
