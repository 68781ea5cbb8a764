"""What the pages on pitfalls quote and claim."""

import re
from pathlib import Path

import pitfall_messages
import pytest
import torch
from torch.nn import functional as F

import attnref

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.claim("messages-are-torchs")
@pytest.mark.parametrize(("place", "message", "provoke"), pitfall_messages.QUOTED)
def test_a_quoted_message_is_what_pytorch_says(place, message, provoke):
    with pytest.raises((RuntimeError, AssertionError, UserWarning)) as caught:
        provoke()
    assert " ".join(str(caught.value).split()) == message
    name, _, anchor = place.partition("/#")
    for language in ("pt", "en"):
        text = (DOCS / language / f"pitfalls/{name}.md").read_text(encoding="utf-8")
        entry = re.search(rf"{{#{anchor}}}\n(.*?)(?=\n## )", text, re.DOTALL)[1]
        assert message in entry, (language, place)


@pytest.mark.claim("zero-one-added-hides-nothing")
def test_ones_and_zeros_added_multiply_the_odds_by_e(device, generator):
    query, key = torch.randn(2, 7, 5, dtype=torch.float64, device=device, generator=generator)
    keep = torch.tensor([1, 1, 1, 0, 0, 0, 0], device=device)
    plain = attnref.attention_weights(query, key)
    value = torch.eye(7, dtype=torch.float64, device=device)
    added = F.scaled_dot_product_attention(query, key, value, attn_mask=keep.double().expand(7, 7))
    odds = (added[:, :3, None] / added[:, None, 3:]) / (plain[:, :3, None] / plain[:, None, 3:])
    # Six quotients and powers, each rounded once.
    torch.testing.assert_close(odds, torch.full_like(odds, torch.e), rtol=1e-13, atol=0)
    right = F.scaled_dot_product_attention(query, key, value, attn_mask=keep.bool().expand(7, 7))
    assert not right[:, 3:].any()


@pytest.mark.claim("softmax-without-a-dimension")
@pytest.mark.filterwarnings("ignore:Implicit dimension")
def test_without_a_dimension_the_first_of_three_is_normalised(device, generator):
    scores = torch.randn(3, 5, 7, dtype=torch.float64, device=device, generator=generator)
    wrong = F.softmax(scores)
    assert torch.equal(wrong, F.softmax(scores, dim=0))
    assert (wrong.sum(-1) - 1).abs().max() > 0.1


@pytest.mark.claim("scaled-once")
@pytest.mark.parametrize(
    "attend", [F.scaled_dot_product_attention, attnref.scaled_dot_product_attention]
)
def test_scaled_beforehand_and_told_so_is_the_default(attend, device, generator):
    numbers = {"dtype": torch.float64, "device": device, "generator": generator}
    query, key = torch.randn(5, 11, **numbers), torch.randn(7, 11, **numbers)
    value = torch.randn(7, 3, **numbers)
    divided = query / 11**0.5
    default = attend(query, key, value)
    # One more rounding of each of 11 terms of a score, and a convex combination of values.
    torch.testing.assert_close(attend(divided, key, value, scale=1.0), default, rtol=0, atol=1e-13)
    assert (attend(divided, key, value) - default).abs().max() > 0.01
