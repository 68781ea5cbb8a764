"""Learned sinks against the attention of gpt-oss as Transformers has it."""

from types import SimpleNamespace

import pytest
import torch

import attnref
from attnref import masks
from attnref.variants.blockwise import blockwise_attention
from attnref.variants.sliding_window import sliding_window_attention

pytest.importorskip("transformers")

from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

B, H, GROUPS, N, D_K, D_V, WINDOW = 2, 3, 2, 13, 5, 7, 4


@pytest.mark.claim("sink-is-gpt-osss")
@pytest.mark.parametrize("windowed", [False, True])
def test_values_and_gradients_are_those_of_gpt_oss(windowed, randn, device, added):
    query = randn(B, H * GROUPS, N, D_K).requires_grad_()
    key, value = randn(B, H, N, D_K).requires_grad_(), randn(B, H, N, D_V).requires_grad_()
    sinks = randn(H * GROUPS).requires_grad_()
    inputs = query, key, value, sinks
    allowed = masks.causal(N)
    if windowed:
        allowed = masks.sliding_window(N, window=WINDOW, is_causal=True)
    seen = allowed.dense(device)
    layer = SimpleNamespace(num_key_value_groups=GROUPS, sinks=sinks, training=False)
    mask = added(allowed)[None, None]
    output, weights = eager_attention_forward(layer, query, key, value, mask, D_K**-0.5)
    output = output.transpose(1, 2)  # they return (b, n, h, d_v)
    options = {"enable_gqa": True, "sink": sinks}
    functions = {
        "definition": lambda: attnref.scaled_dot_product_attention(
            query, key, value, seen, **options
        ),
        "blockwise": lambda: blockwise_attention(query, key, value, allowed, **options),
    }
    if windowed:
        functions["window"] = lambda: sliding_window_attention(
            query, key, value, window=WINDOW, is_causal=True, **options
        )
    close = {"rtol": 1e-11, "atol": 1e-13}  # some hundred roundings of float64
    ours = attnref.attention_weights(query, key, seen, **options)
    torch.testing.assert_close(ours, weights, **close)
    gradient = randn(*output.shape)
    expected = torch.autograd.grad(output, inputs, gradient)
    for function in functions.values():
        found = function()
        torch.testing.assert_close(found, output, **close)
        torch.testing.assert_close(torch.autograd.grad(found, inputs, gradient), expected, **close)
