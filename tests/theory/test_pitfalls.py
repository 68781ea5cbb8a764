"""What the pages on pitfalls quote and claim."""

import functools
import math
import re
import runpy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attnref
from attnref.bench.memory import peak_bytes
from attnref.conformance import Verdict, check
from attnref.conformance.subject import CheckError
from attnref.positions import rotary, sinusoidal
from attnref.variants.linear import linear_attention
from tests.book import pitfall_messages

DOCS = Path(__file__).parents[2] / "docs"
LANGUAGES = {"pt": "Verificação", "en": "Check"}
PAGES = ("masks", "numerics", "shapes", "positions-and-cache")


@functools.cache
def entries(language):
    """The text of each entry, by its address below pitfalls/."""
    found = {}
    for name in PAGES:
        text = (DOCS / language / f"pitfalls/{name}.md").read_text(encoding="utf-8")
        for section in text.split("\n## ")[1:]:
            heading, _, entry = section.partition("\n")
            anchor = heading.rpartition("{#")[2].rstrip("}")
            found[f"{name}/#{anchor}"] = entry
    return found


@pytest.mark.claim("messages-word-for-word")
def test_a_quoted_message_is_what_is_said():
    found = []
    for place, message, provoke in pitfall_messages.QUOTED:
        said = "nothing"
        try:
            provoke()
        except Exception as error:
            said = " ".join(str(error).split())
        if said != message:
            found.append(f"{place}: expected {message!r}, got {said!r}")
        for language in LANGUAGES:
            if message not in entries(language)[place]:
                found.append(f"{language}/pitfalls/{place} does not quote {message!r}")
    assert not found, "\n".join(found)


def test_every_message_of_pytorch_stands_in_the_table():
    """Whole, or as far as its first sentence."""
    for language in LANGUAGES:
        text = (DOCS / language / "pitfalls/index.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| (`+)(.*?)\1 \| \[.*?\]\((.*?)\.md(#.*?)\) \|$", text, re.M)
        listed = [(f"{page}/{anchor}", message) for _, message, page, anchor in rows]
        for place, message in listed:
            quoted = [m for where, m, _ in pitfall_messages.QUOTED if where == place]
            assert any(m.startswith(message) for m in quoted), (language, message)
        for place, message, _ in pitfall_messages.QUOTED:
            if not re.match(r"\w+: expected ", message):  # attnref's own name their fix
                assert any(p == place and message.startswith(m) for p, m in listed), message


def attend(
    query,
    key,
    value,
    attn_mask=None,
    is_causal=False,
    fill=-math.inf,
    softmax=lambda scores: torch.softmax(scores, -1),
    scale=None,
):
    """Attention as it is written by hand, with one step or another left to the caller."""
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        future = ~torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(future, fill)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, fill)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return softmax(scores) @ value


def with_mask(change, **options):
    """A function whose mask goes through ``change`` first."""

    def attention(query, key, value, attn_mask=None):
        mask = None if attn_mask is None else change(attn_mask, query)
        return attend(query, key, value, mask, **options)

    return attention


def inverted(mask, query):
    return ~mask if mask.dtype == torch.bool else mask


def first_sizes_dropped(mask, query):
    """(b, 1, 1, m) becomes (b, m), for one who thinks that it is enough."""
    return mask[:, 0, 0] if mask.dim() == 4 and mask.shape[1:3] == (1, 1) else mask


def either(query, key, value, attn_mask=None, is_causal=False):
    return attend(query, key, value, attn_mask, is_causal and attn_mask is None)


def windowed(first):
    def attention(query, key, value, window=None):
        n, m = query.shape[-2], key.shape[-2]
        seen = torch.ones(n, m, dtype=torch.bool)
        if window is not None:
            seen = seen.tril().triu(first - window)
        return attend(query, key, value, seen)

    return attention


def plain(**options):
    return lambda query, key, value: attend(query, key, value, **options)


def always_dropping(query, key, value, dropout_p=0.1):
    p = dropout_p or 0.1
    return attend(query, key, value, softmax=lambda scores: F.dropout(torch.softmax(scores, -1), p))


def dropping(query, key, value, dropout_p=0.0):
    return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_p)


def sharing(copy):
    def attention(query, key, value, enable_gqa=False):
        group = query.shape[1] // key.shape[1]
        return attend(query, copy(key, group), copy(value, group))

    return attention


def joined_by_view(query, key, value):
    """Joined without the transposition, and split again with it."""
    output = attend(query, key, value)
    b, h, n, d = output.shape
    return output.reshape(b, n, h * d).view(b, n, h, d).transpose(1, 2)


def untransposed(query, key, value):
    return torch.softmax(query @ key * query.shape[-1] ** -0.5, -1) @ value


def sequence_first(query, key, value):
    """Takes dimension 0 for that of the sequence."""
    return attend(*(x.transpose(0, -2) for x in (query, key, value))).transpose(0, -2)


def listing(query, key, value, is_causal=False):
    query, key = F.elu(query) + 1, F.elu(key) + 1
    return query @ (key.mT @ value)


def linear(query, key, value, is_causal=False):
    return linear_attention(query, key, value, is_causal=is_causal)


def unmended(mask, query):
    return mask


def counted_from(last):
    """A causal window, counted as if the queries were the last of the keys, or the first."""

    def attention(query, key, value, window=None):
        n, m = query.shape[-2], key.shape[-2]
        i, j = torch.arange(n)[:, None], torch.arange(m)
        seen = j <= i + m - n
        if window:
            seen = seen & (j > i + last * (m - n) - window)
        return attend(query, key, value, seen)

    return attention


def up_to_lengths(last):
    """The queries of a sample are the last of its keys, or the first."""

    def attention(query, key, value, key_lengths=None, is_causal=False):
        n, m = query.shape[-2], key.shape[-2]
        i, j = torch.arange(n)[:, None], torch.arange(m)
        key_lengths = torch.full(query.shape[:1], m) if key_lengths is None else key_lengths
        lengths = key_lengths[:, None, None, None]
        past = j <= i + last * (lengths - n)
        return attend(query, key, value, (j < lengths) & (past | (not is_causal)))

    return attention


def with_weights(obeyed):
    def attention(query, key, value, is_causal=False, output_attentions=False):
        return attend(query, key, value, is_causal=is_causal and (obeyed or not output_attentions))

    return attention


def with_sink(cut_late):
    def attention(query, key, value, sinks=None):
        m = key.shape[-2]
        if sinks is None:
            return attend(query, key, value)
        scores = query @ key.mT * query.shape[-1] ** -0.5
        scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:-1], 1)], -1)
        weights = scores.softmax(-1)[..., :m] if cut_late else scores[..., :m].softmax(-1)
        return weights @ value

    return attention


class OfModes(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, query, key, value):
        return attend(query, key, value, scale=self.factor if self.training else None)


FAIL, OURS = Verdict.WRONG, attnref.scaled_dot_product_attention
# Address below pitfalls/: the fault, its mended version, and what is said of the fault.
FAULTS = {
    "masks/#half-precision": (
        with_mask(unmended, fill=-1e9),
        with_mask(unmended),
        {"very_negative_scores": Verdict.UNSAFE},
    ),
    "masks/#empty-row": (
        with_mask(unmended),
        OURS,
        {"fully_masked": Verdict.UNSAFE, "fully_masked_gradient": Verdict.UNSAFE},
    ),
    "masks/#true": (with_mask(inverted), OURS, {"mask_polarity": FAIL}),
    "masks/#zero-one": (
        with_mask(lambda mask, query: (mask if mask.dtype == torch.bool else mask != 0) * 1.0),
        OURS,
        {"mask_polarity": FAIL, "float_mask": FAIL},
    ),
    "masks/#shape": (with_mask(first_sizes_dropped), OURS, {"mask_broadcast": Verdict.NOT_CLAIMED}),
    "masks/#causal-flag": (either, OURS, {"mask_with_causal": FAIL}),
    "masks/#window": (windowed(0), windowed(1), {"window_width": Verdict.CONVENTION}),
    "masks/#window-lost": (counted_from(0), counted_from(1), {"window_lengths": FAIL}),
    "masks/#switches": (with_weights(False), with_weights(True), {"switches": FAIL}),
    "numerics/#nan": (with_mask(unmended), OURS, {"fully_masked_gradient": Verdict.UNSAFE}),
    "numerics/#hidden-nan": (
        F.scaled_dot_product_attention,
        OURS,
        {"nan_behind_mask": Verdict.UNSAFE},
    ),
    "numerics/#axis": (
        plain(softmax=lambda scores: torch.softmax(scores, -2)),
        plain(),
        {"row_sums": FAIL},
    ),
    "numerics/#scale": (plain(scale=1.0), plain(), {"scale": FAIL}),
    "numerics/#sink": (with_sink(False), with_sink(True), {"sink_share": FAIL}),
    "numerics/#modes": (OfModes(1.0), OfModes(None), {"same_in_training": FAIL}),
    "numerics/#dropout": (always_dropping, dropping, {"determinism": FAIL, "dropout_off": FAIL}),
    "shapes/#grouped": (
        sharing(lambda x, group: x.repeat(1, group, 1, 1)),
        sharing(lambda x, group: x.repeat_interleave(group, 1)),
        {"grouped_queries": Verdict.CONVENTION},
    ),
    "shapes/#padding": (
        with_mask(lambda mask, query: None),
        with_mask(unmended),
        {"padding_amount": FAIL},
    ),
    "shapes/#heads": (joined_by_view, plain(), {"head_independence": FAIL}),
    "shapes/#transpose": (untransposed, plain(), {"shape": None}),
    "shapes/#batch-first": (sequence_first, plain(), {"batch_independence": FAIL}),
    "shapes/#linear": (listing, linear, {"row_sums": FAIL, "causality": FAIL}),
    "positions-and-cache/#alignment": (
        F.scaled_dot_product_attention,
        OURS,
        {"alignment": Verdict.CONVENTION},
    ),
    "positions-and-cache/#lengths": (
        up_to_lengths(0),
        up_to_lengths(1),
        {"lengths_of_keys": FAIL},
    ),
}


@pytest.mark.claim("a-property-finds-the-fault")
@pytest.mark.parametrize("place", FAULTS)
def test_the_properties_named_in_an_entry_find_its_fault(place):
    wrong, mended, verdicts = FAULTS[place]
    if None in verdicts.values():  # it answers no call at all, which is said first
        with pytest.raises(CheckError, match="failed in a call with query, key and value"):
            check(wrong, only=list(verdicts), limit=None)
    else:
        report = check(wrong, only=list(verdicts), limit=None)
        assert {result.property: result.verdict for result in report.results} == verdicts
    for result in check(mended, only=list(verdicts), limit=None).results:
        if result.property != "alignment":  # a convention, mended or not
            assert result.verdict is Verdict.PASS, result.diagnosis()


@pytest.mark.claim("a-property-finds-the-fault")
def test_these_are_the_properties_that_the_entries_name():
    for language, word in LANGUAGES.items():
        named = {}
        for place, entry in entries(language).items():
            line = re.search(rf"^\*\*{word}\.\*\* (.*)$", entry, re.M)
            if line:
                names = re.findall(r"`([a-z_]+)`", line[1])
                named[place] = set(names)
        assert named == {place: set(verdicts) for place, (_, _, verdicts) in FAULTS.items()}


@pytest.mark.claim("a-property-finds-the-fault")
def test_the_two_readings_of_a_window_are_told_apart():
    for function, words in ((windowed(0), "3 + 1 keys"), (windowed(1), "")):
        (result,) = check(function, only=["window_width"], limit=None).results
        assert words in result.diagnosis("en")
        assert (result.verdict is Verdict.CONVENTION) is bool(words)


@pytest.mark.claim("zero-one-added-hides-nothing")
def test_ones_and_zeros_added_multiply_the_odds_by_e(device, randn):
    query, key = randn(2, 7, 5)
    keep = torch.tensor([1, 1, 1, 0, 0, 0, 0], device=device)
    plain = attnref.attention_weights(query, key)
    value = torch.eye(7, dtype=torch.float64, device=device)
    added = F.scaled_dot_product_attention(query, key, value, attn_mask=keep.double().expand(7, 7))
    odds = (added[:, :3, None] / added[:, None, 3:]) / (plain[:, :3, None] / plain[:, None, 3:])
    # Six quotients and powers, each rounded once.
    torch.testing.assert_close(odds, torch.full_like(odds, torch.e), rtol=1e-13, atol=0)
    right = F.scaled_dot_product_attention(query, key, value, attn_mask=keep.bool().expand(7, 7))
    assert not right[:, 3:].any()


@pytest.mark.claim("layer-masks-are-interleaved")
def test_a_mask_a_sequence_is_repeated_for_its_heads_one_after_the_other(device, generator):
    """The weights of the layer show which sequence's mask each head was given."""
    b, h, n = 2, 3, 5
    layer = nn.MultiheadAttention(h * 7, h, batch_first=True, device=device)
    x = torch.randn(b, n, h * 7, device=device, generator=generator)
    hidden = torch.zeros(b, n, n, dtype=torch.bool, device=device)
    hidden[0, :, 4], hidden[1, :, 2] = True, True

    def weights(mask):
        return layer(x, x, x, attn_mask=mask, average_attn_weights=False)[1]  # (b, h, n, n)

    behind = hidden[:, None].expand(b, h, n, n)
    assert not weights(hidden.repeat_interleave(h, dim=0))[behind].any()
    wrong = weights(hidden.repeat(h, 1, 1))
    assert wrong[0, 1, :, 4].all()  # head 1 of sequence 0 got the mask of sequence 1
    assert not wrong[0, 1, :, 2].any()


@pytest.mark.claim("softmax-without-a-dimension")
@pytest.mark.filterwarnings("ignore:Implicit dimension")
def test_without_a_dimension_the_first_of_three_is_normalised(randn):
    scores = randn(3, 5, 7)
    wrong = F.softmax(scores)
    assert torch.equal(wrong, F.softmax(scores, dim=0))
    assert (wrong.sum(-1) - 1).abs().max() > 0.1


@pytest.mark.claim("scaled-once")
@pytest.mark.parametrize(
    "attend", [F.scaled_dot_product_attention, attnref.scaled_dot_product_attention]
)
def test_scaled_beforehand_and_told_so_is_the_default(attend, randn):
    query, key = randn(5, 11), randn(7, 11)
    value = randn(7, 3)
    divided = query / 11**0.5
    default = attend(query, key, value)
    # One more rounding of each of 11 terms of a score, and a convex combination of values.
    torch.testing.assert_close(attend(divided, key, value, scale=1.0), default, rtol=0, atol=1e-13)
    assert (attend(divided, key, value) - default).abs().max() > 0.01


@pytest.mark.claim("fused-kernel-conditions")
def test_without_its_conditions_the_call_holds_the_table():
    """On a processor; the reason is a warning where the kernel is demanded."""
    h, n, d = 4, 512, 32
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, h, n, d, generator=generator)
    attend, table = F.scaled_dot_product_attention, h * n * n * q.itemsize
    narrow = v[..., :7]
    filled = torch.cat([narrow, torch.zeros(1, h, n, d - 7)], -1)
    learned = torch.zeros(n, n, requires_grad=True)
    unfit = {
        "All fused kernels requires query, key and value to be 4 dimensional": (
            lambda: attend(q[0], k[0], v[0]),
            lambda: attend(*(x[0][None] for x in (q, k, v)))[0],
        ),
        "requires q,k,v to have the same last dimension": (
            lambda: attend(q, k, narrow),
            lambda: attend(q, k, filled)[..., :7],
        ),
        "do not support non-zero dropout": (lambda: attend(q, k, v, dropout_p=1e-9), None),
        "": (lambda: attend(q, k, v, learned), lambda: attend(q, k, v, learned.detach())),
    }
    for reason, (call, repaired) in unfit.items():
        repaired = repaired or (lambda: attend(q, k, v))
        assert peak_bytes(call, torch.device("cpu")) > table, reason
        assert peak_bytes(repaired, torch.device("cpu")) < table / 2, reason
        # Sums of at most 512 terms of order 1 in float32.
        torch.testing.assert_close(call(), repaired(), rtol=1e-4, atol=1e-5)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            repaired()
            with pytest.raises(RuntimeError, match="No available kernel"), pytest.warns() as said:
                call()
        assert any(reason in str(warning.message) for warning in said)
    several = torch.randn(3, 2, 5, h, 7, d, generator=generator)
    joined = attend(*(x.flatten(0, -4) for x in several)).view(several.shape[1:])
    torch.testing.assert_close(joined, attend(*several), rtol=1e-4, atol=1e-5)
    layer = nn.MultiheadAttention(h * d, h, batch_first=True)
    x = torch.randn(1, n, h * d, generator=generator)
    with_weights, without = (
        peak_bytes(lambda w=w: layer(x, x, x, need_weights=w), torch.device("cpu"))
        for w in (True, False)
    )
    assert with_weights > table > without


@pytest.mark.claim("left-padding-moves-positions")
@pytest.mark.parametrize("padding", [1, 4])
def test_words_keep_their_positions_behind_padding_if_words_are_counted(padding, device, generator):
    n, d = 5, 12
    numbers = {"dtype": torch.float64, "device": device}
    words = torch.randn(n, d, generator=generator, **numbers)
    padded = torch.cat([torch.zeros(padding, d, **numbers), words])
    keep = torch.arange(padding + n, device=device) >= padding
    table = sinusoidal(padding + n, d, **numbers)

    def attended(x, keep):
        mask = keep & torch.ones(len(x), len(x), dtype=torch.bool, device=device).tril()
        return OURS(x, x, x, mask)[-n:]

    alone = attended(words + table[:n], keep[-n:])
    assert (attended(padded + table, keep) - alone).abs().max() > 0.1
    counted = (keep.cumsum(-1) - 1).clamp(min=0)
    # The same sums of at most ten terms, in an order that the padding may change.
    torch.testing.assert_close(attended(padded + table[counted], keep), alone, rtol=0, atol=1e-13)
    turned = OURS(rotary(padded), rotary(padded), padded, keep.expand(padding + n, -1))[-n:]
    by_itself = OURS(rotary(words), rotary(words), words)
    # Rotations are rounded too: angles below ten, twelve terms a score.
    torch.testing.assert_close(turned, by_itself, rtol=0, atol=1e-12)


def test_the_function_given_to_the_checker_has_its_two_faults():
    mine = runpy.run_path(str(DOCS.parent / "snippets/pitfalls/index/check.py"))["mine"]
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 1, 1, 5, 8, generator=generator)
    shallow = F.scaled_dot_product_attention(query, key, value, scale=1 / 8)
    torch.testing.assert_close(mine(query, key, value), shallow)
    nothing = mine(query, key, value, torch.zeros(5, 5, dtype=torch.bool))
    torch.testing.assert_close(nothing, value.mean(-2, keepdim=True).expand_as(value))
