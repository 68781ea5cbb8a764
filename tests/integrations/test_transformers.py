"""One call of a layer of Transformers on the definition."""

import importlib
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("transformers")

from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import bidirectional_mask_function

import attnref.integrations.transformers as ours

B, H, GROUPS, N, M, D_K, D_V = 2, 6, 2, 11, 13, 5, 7


def draw(randn, n=N):
    return randn(B, H, n, D_K), randn(B, H // GROUPS, M, D_K), randn(B, H // GROUPS, M, D_V)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("mask", [None, "bool", "float"])
@pytest.mark.parametrize(("n", "is_causal"), [(1, True), (N, True), (N, False)])
def test_a_layer_gets_the_answer_of_sdpa(n, is_causal, mask, bias, randn, device):
    """Values and gradients, for each meaning of ``is_causal``."""
    layer = SimpleNamespace(is_causal=is_causal, num_key_value_groups=GROUPS)
    inputs = [*draw(randn, n), *([randn(1, H, n, M)] if bias else [])]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    seen = torch.ones(1, 1, n, M, dtype=torch.bool, device=device).tril(2)
    added = randn(1, 1, n, M).masked_fill(~seen, torch.finfo(torch.float64).min)
    options = {"attention_mask": {None: None, "bool": seen, "float": added}[mask], "scaling": 0.7}
    options |= {"position_bias": inputs[3]} if bias else {}
    found, weights = ours.attnref_attention_forward(layer, *inputs[:3], **options)
    expected, _ = sdpa_attention_forward(layer, *inputs[:3], **options)
    assert found.is_contiguous()
    close = {"rtol": 1e-11, "atol": 1e-13}  # some hundred roundings of float64
    torch.testing.assert_close(found, expected, **close)
    averages = weights @ inputs[2].repeat_interleave(GROUPS, 1)
    torch.testing.assert_close(averages.transpose(1, 2), expected, **close)
    answers = (torch.autograd.grad(output.sum(), inputs) for output in (found, expected))
    torch.testing.assert_close(*answers, **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_it_errs_no_more_than_sdpa(dtype, randn):
    layer = SimpleNamespace(is_causal=True, num_key_value_groups=GROUPS)
    inputs = [tensor.to(dtype) for tensor in draw(randn)]
    exact, _ = sdpa_attention_forward(layer, *(tensor.double() for tensor in inputs), None)
    found, _ = ours.attnref_attention_forward(layer, *inputs)
    theirs, _ = sdpa_attention_forward(layer, *inputs, None)
    assert found.dtype == dtype
    assert (found - exact).abs().max() <= 1.5 * (theirs - exact).abs().max()
    # Under autocast, a norm or rotation leaves queries and keys in float32.
    mixed, _ = ours.attnref_attention_forward(layer, *(x.float() for x in inputs[:2]), inputs[2])
    assert (mixed - exact).abs().max() <= (found - exact).abs().max() + 1e-6


def test_sinks_may_be_those_of_the_layer(randn):
    sinks, inputs = randn(H), draw(randn)
    found = ours.attnref_attention_forward(SimpleNamespace(sinks=sinks), *inputs)
    passed = ours.attnref_attention_forward(SimpleNamespace(), *inputs, s_aux=sinks)
    torch.testing.assert_close(found, passed, rtol=0, atol=0)
    assert (found[1].sum(-1) < 1 - 1e-5).all()


def test_a_row_of_padding_gives_zeros(randn):
    """Transformers' own attention gives the average of all values there."""
    mask = randn(1, 1, N, M)
    mask[..., 0, :] += torch.finfo(torch.float64).min
    output, _ = ours.attnref_attention_forward(SimpleNamespace(), *draw(randn), mask)
    assert not output[:, 0].any()
    assert output[:, 1:].all()


def test_a_mask_is_made_even_if_it_hides_nothing():
    sizes = {"batch_size": 1, "q_length": N, "kv_length": M, "allow_is_bidirectional_skip": True}
    mask = ours.attnref_mask(config=None, mask_function=bidirectional_mask_function, **sizes)
    assert torch.equal(mask, torch.zeros(1, 1, N, M))


MASK = torch.ones(1, 1, N, M, dtype=torch.bool)
STARTS = {"cu_seq_lens_q": torch.tensor([0, 5, N]), "cu_seq_lens_k": torch.tensor([0, 5, M])}


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"cache": object()}, NotImplementedError, "cache: expected None, got object. The defin"),
        ({"block_indices": MASK}, NotImplementedError, "block_indices: expected None, got Tensor"),
        ({"sliding_window": 4}, ValueError, "an attention_mask with it for 13 keys, got 4 and no"),
        (STARTS, ValueError, "cu_seq_lens_q: expected an attention_mask .* apart, got none"),
        ({**STARTS, "attention_mask": MASK}, ValueError, "apart, got one that joins some"),
        ({"seq_idx": torch.arange(N)[None]}, ValueError, "seq_idx: expected an attention_mask"),
    ],
)
def test_what_it_cannot_honour_is_refused(options, kind, message, randn):
    inputs = [tensor.cpu() for tensor in draw(randn)]
    with pytest.raises(kind, match=message):
        ours.attnref_attention_forward(SimpleNamespace(), *inputs, **options)
    harmless = {"position_ids": 1, "use_cache": True, "head_mask": None, "sliding_window": M}
    ours.attnref_attention_forward(SimpleNamespace(), *inputs, **harmless)


def test_transformers_is_imported_by_this_module_alone(monkeypatch):
    code = "import sys, attnref, attnref.integrations; print('transformers' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout == "False\n"
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, ours.__name__)
    with pytest.raises(ImportError, match=r"expected the package of .*, got: import .* Run pip"):
        importlib.import_module(ours.__name__)
