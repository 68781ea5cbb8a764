"""What the pages on the checker say of their functions, which are right or wrong."""

import runpy
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from attnref import check, check_steps, scaled_dot_product_attention

FOLDER = Path(__file__).parents[2] / "snippets" / "practice" / "checker"


def of(name):
    return runpy.run_path(str(FOLDER / f"{name}.py"))


def drawn(*shape):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)]


def test_the_one_in_numpy_is_attention():
    tensors = drawn(2, 3, 5, 4)
    output = of("arrays")["attention"](*(x.numpy() for x in tensors))
    assert_close(torch.from_numpy(output), scaled_dot_product_attention(*tensors))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("hidden", [None, torch.arange(5) == 2], ids=["whole", "hidden"])
def test_the_one_with_names_of_its_own_is_attention_in_its_axes(causal, hidden):
    tensors = drawn(2, 3, 5, 4)
    output = of("theirs")["attention"](*(x.transpose(1, 2) for x in tensors), hidden, causal)
    allowed = None if hidden is None else ~hidden
    if causal:
        past = torch.ones(5, 5, dtype=torch.bool).tril()
        allowed = past if allowed is None else past & allowed
    expected = scaled_dot_product_attention(*tensors, attn_mask=allowed)
    assert_close(output.transpose(1, 2), expected)


@pytest.mark.parametrize(("heads", "right"), [(1, True), (4, False)])
def test_the_layer_divides_by_the_root_of_its_whole_width(heads, right):
    width = 8
    layer = of("layer")["SelfAttention"](width, heads, block_size=6).double()
    (x, *_) = drawn(2, 5, width)
    three = layer.to_qkv(x).view(2, 5, 3, heads, width // heads).permute(2, 0, 3, 1, 4)

    def expected(scale):
        output = scaled_dot_product_attention(*three, is_causal=True, scale=scale)
        return layer.to_out(output.transpose(1, 2).flatten(2))

    assert_close(layer(x), expected(width**-0.5))
    assert torch.allclose(layer(x), expected(None)) == right


CORRECTED = {
    "window.py:attention": ("window_lengths", {"i - window": "i + m - n - window"}),
    "sink.py:attention": (
        "sink_share",
        {"scores[..., :m].softmax(dim=-1)": "scores.softmax(dim=-1)[..., :m]"},
    ),
    "delta.py:gated_delta": ("oracle", {"(key * state)": "(key * decay * state)"}),
    "paged.py:step": (
        "row_sums",
        {
            f"torch.cat(cache.{each}, -2)": f"torch.cat(cache.{each}, -2)[:, :, : cache.length]"
            for each in ("keys", "values")
        },
    ),
    "latent.py:LatentAttention": (
        "absorbed_scale",
        {"absorbed.shape[-1] ** 0.5": "query.shape[-1] ** 0.5"},
    ),
}


@pytest.mark.claim("corrected-line-holds")
@pytest.mark.parametrize("target", CORRECTED)
def test_what_was_found_in_the_wrong_line_is_gone_from_the_corrected_one(target, tmp_path):
    name, lines = CORRECTED[target]
    file, _, function = target.partition(":")
    text = (FOLDER.parent / "check-your-own" / file).read_text(encoding="utf-8")
    passed = []
    for corrections in ({}, lines):
        for wrong, right in corrections.items():
            assert text.count(wrong) == 1
            text = text.replace(wrong, right)
        (tmp_path / file).write_text(text, encoding="utf-8")
        own = runpy.run_path(str(tmp_path / file))
        asked = {"cache": own["Pages"]} if "Pages" in own else {}
        report = (check_steps if asked else check)(own[function], only=[name], limit=None, **asked)
        passed.append(report.passed(strict=True))
    assert passed == [False, True]
