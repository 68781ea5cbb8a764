"""A judge from outside: the test vectors of the ONNX operator ``Attention``.

Its authors computed them with a NumPy program of their own. The adapter below says in attnref's
words what the operator's inputs and attributes mean; the numbers are attnref's.
"""

import warnings
from functools import partial
from importlib import import_module

import numpy as np
import onnx
import torch
from onnx.backend.test.case import node as operators
from torch import Tensor

import attnref
from tests.variants.every import every


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    *,
    is_causal: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    q_num_heads: int = 0,
    kv_num_heads: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
    qk_matmul_output_mode: int = 0,
    softmax_precision: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The operator, opset 23 to 25: Y, present_key, present_value, qk_matmul_output.

    ``softmax_precision`` has no counterpart: it may ask for float64 from float32 inputs, which
    moves the result by less than the vectors' tolerance.
    """
    flat = query.dim() == 3
    if flat:  # (batch, length, heads * d) -> (batch, heads, length, d)
        query = query.unflatten(-1, (q_num_heads, -1)).transpose(1, 2)
        key = key.unflatten(-1, (kv_num_heads, -1)).transpose(1, 2)
        value = value.unflatten(-1, (kv_num_heads, -1)).transpose(1, 2)

    # The first query stands behind what the cache holds: one length for all, or one a sample.
    offset = 0
    if past_key is not None:
        offset = past_key.shape[-2]
        key, value = torch.cat([past_key, key], dim=-2), torch.cat([past_value, value], dim=-2)
    n, m = query.shape[-2], key.shape[-2]
    visible = torch.ones(n, m, dtype=torch.bool, device=query.device)
    if nonpad_kv_seqlen is not None:
        length = nonpad_kv_seqlen[:, None, None, None]  # (batch, 1, 1, 1)
        offset = length - n
        visible = visible & (torch.arange(m, device=query.device) < length)
    cached = past_key is not None or nonpad_kv_seqlen is not None

    behind = torch.arange(n, device=query.device)[:, None] + offset
    behind = behind - torch.arange(m, device=query.device)  # (n, m) or (batch, 1, n, m)
    if left_window_size >= 0:
        visible = visible & (behind <= left_window_size)
    if right_window_size >= 0:
        visible = visible & (behind >= -right_window_size)
    if is_causal and cached:
        visible = visible & (behind >= 0)

    mask = visible
    if attn_mask is not None:  # it may name fewer keys than there are: the others are forbidden
        forbidden = False if attn_mask.dtype == torch.bool else -torch.inf
        missing = m - attn_mask.shape[-1]
        mask = torch.nn.functional.pad(attn_mask, (0, missing), value=forbidden)
        mask = torch.where(visible, mask, forbidden)

    run = partial(attnref.attend, *(query, key, value), scale=scale, enable_gqa=True)
    softcap = softcap or None
    causal = bool(is_causal) and not cached
    output, weights, lse = run(attn_mask=mask, is_causal=causal, softcap=softcap)
    if qk_matmul_output_mode < 2:  # the scores before the mask, raw (0) or bounded (1)
        _, weights, lse = run(softcap=softcap if qk_matmul_output_mode else None)
    # A weight is exp(score - lse).
    products = weights if qk_matmul_output_mode == 3 else weights.log() + lse[..., None]
    if flat:
        output = output.transpose(1, 2).flatten(-2)  # (batch, n, heads * d_v)
    return output, key, value, products


def cases() -> list:
    """The operator's vectors; an ``_expanded`` twin says the same by other operators."""
    with warnings.catch_warnings():  # cases of other operators divide by zero on purpose
        warnings.simplefilter("ignore", RuntimeWarning)
        import_module("onnx.backend.test.case.node.attention")  # all operators' take 9 seconds
    found = operators._NodeTestCases  # where each case enters itself
    return [case for case in found if case.model.graph.node[0].op_type == "Attention"]


CASES = [case for case in cases() if "_expanded" not in case.name]


def tensor(array: np.ndarray, device: torch.device) -> Tensor:
    if array.dtype.name == "bfloat16":  # unknown to torch.from_numpy
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(array).to(device)


def test_no_vector_is_missing():
    assert len(CASES) >= 93  # as many as onnx 1.23 has


@every("name", [case.name for case in CASES])
def test_vector(name, device):
    (case,) = (case for case in CASES if case.name == name)
    (node,) = case.model.graph.node
    ((inputs, outputs),) = case.data_sets
    given, expected = iter(inputs), iter(outputs)  # an unused place has no name and no array
    arguments = [tensor(next(given), device) if name else None for name in node.input]
    options = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    found = attention(*arguments, **options)
    for output, ours in zip(node.output, found, strict=False):
        if output:
            theirs = tensor(next(expected), device)
            # The vectors' own tolerance; for bfloat16 that of ONNX's own runner, two steps.
            rtol = max(case.rtol, 2**-6) if theirs.dtype == torch.bfloat16 else case.rtol
            torch.testing.assert_close(ours, theirs, rtol=rtol, atol=case.atol)
    assert next(given, None) is None
    assert next(expected, None) is None
