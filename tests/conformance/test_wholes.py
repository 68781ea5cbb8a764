"""Layers whose query, key and value cannot be had apart: judged by what moves their outputs."""

import math

import pytest
import torch
from torch import nn

from attnref.conformance import PROPERTIES, Verdict, check, trial
from attnref.conformance.properties import (
    backward,
    causal,
    forbidden,
    hygiene,
    lengths,
    masks,
    symmetries,
    together,
    weights,
)
from attnref.conformance.subject import CheckError

# Heads cannot be told apart in it, nor can it be made longer alone.
ASKED = {name for name, rule in PROPERTIES.items() if rule.holds_of == "any"} - {
    *("head_independence", "memory_growth")
}
READY = (
    "a layer: judged as a whole, for it is a ready-made layer: name its class to have it judged "
    "behind its projections"
)


def judge(layer, **settings):
    return check(layer, limit=None, **settings)


class Block(nn.Module):
    """Attention that gates its output, and adds its input: more than attention."""

    causal = True

    def __init__(self, dim=24, heads=3):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.gate = nn.Parameter(torch.randn(dim, generator=generator))

    def seen(self, n, mask):
        seen = torch.ones(n, n, dtype=torch.bool)
        seen = seen.tril() if self.causal else seen
        return seen if mask is None else seen & mask

    def scores(self, q, k):
        return q @ k.mT / math.sqrt(q.shape[-1])

    def weights(self, scores, seen):
        return scores.masked_fill(~seen, -math.inf).softmax(-1)

    def forward(self, x, mask=None):
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1)
        )
        weights = self.weights(self.scores(q, k), self.seen(x.shape[1], mask))
        return x + self.gate.sigmoid() * self.proj((weights @ v).transpose(1, 2).flatten(2))


class Both(Block):
    causal = False


class OfKeys(Both):
    """Its mask hides keys, and rows without keys are zeros."""

    def forward(self, x, padding_mask=None):
        if padding_mask is None:
            return super().forward(x)
        x = x.masked_fill(padding_mask[..., None], 0.0)
        return super().forward(x, ~padding_mask[:, None, None])

    def weights(self, scores, seen):
        return super().weights(scores, seen).nan_to_num(0.0)


class OfBoth(Both):
    """Its mask hides keys, and what a hidden position makes of the rest is nobody's output."""

    def forward(self, x, mask=None):
        if mask is None:
            return super().forward(x)
        return super().forward(x, mask[:, None, :, None] & mask[:, None, None])

    def weights(self, scores, seen):
        return scores.masked_fill(~seen, -1e9).softmax(-1)


class Outputs:
    def __init__(self, last_hidden_state):
        self.last_hidden_state = last_hidden_state


class Model(Both):
    """As models return it; it says how wide it is, and how many heads it has."""

    hidden_size, num_heads = 24, 3

    def forward(self, x, cos, sin):
        assert cos.shape == sin.shape == (1, x.shape[1], 8)
        return Outputs(super().forward(x))


class Local(Both):
    def seen(self, n, mask):
        return super().seen(n, mask) & torch.ones(n, n, dtype=torch.bool).tril(1).triu(-1)


class Placed(Both):
    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.randn(64, 24))

    def forward(self, x):
        return super().forward(x + self.places[: x.shape[1]])


class Rough(Both):
    """It adds the mask, which it does not do without, in a softmax of float32; and a norm."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)

    def forward(self, x, attention_mask):
        return self.norm(super().forward(x, attention_mask) + x)

    def seen(self, n, mask):
        return mask

    def weights(self, scores, seen):
        return (scores + seen).softmax(-1, dtype=torch.float32).to(scores.dtype)


def lengths_first():
    return nn.MultiheadAttention(24, 3)


def stacked():
    layer = nn.TransformerEncoderLayer(24, 3, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


RIGHT = {
    "block": (Block, "; mask is attn_mask, True = may attend, (n, m); always causal"),
    "both": (Both, "; mask is attn_mask, True = may attend, (n, m)"),
    "of_keys": (OfKeys, "; padding_mask is attn_mask, True = forbidden, (b, m)"),
    "of_both": (OfBoth, "; mask is attn_mask, True = may attend, (b, m)"),
    "model": (Model, ""),
    "rough": (Rough, "; attention_mask is attn_mask, added to the scores, (n, m)"),
    "local": (Local, "; mask is attn_mask, True = may attend, (n, m)"),
    "placed": (Placed, ""),
    "lengths_first": (
        lengths_first,
        "; axes (n, b, width); key_padding_mask is attn_mask, True = forbidden, (b, m)",
    ),
    "stacked": (stacked, "; mask is attn_mask, True = forbidden, (n, m)"),
}


@pytest.mark.parametrize(("make", "read"), RIGHT.values(), ids=RIGHT)
def test_nothing_is_wrong_with_a_right_layer(make, read, seeds):
    for seed in seeds(1, 4):
        report = judge(make(), seed=seed)
        assert report.read_as() == READY + read
        assert report.passed(), f"seed {seed}\n{report.text()}"
        asked = [each for each in report.results if each.verdict is not Verdict.NOT_ASKED]
        assert {each.property for each in asked} == ASKED


@pytest.mark.audit
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_nothing_is_wrong_in_other_dtypes(dtype):
    assert judge(Block(), dtype=dtype).passed()
    assert judge(lengths_first(), dtype=dtype).passed()


class MixesBatch(Block):
    def forward(self, x, mask=None):
        return super().forward(x, mask) + x.mean(0)


class OneAhead(Block):
    def seen(self, n, mask):
        return torch.ones(n, n, dtype=torch.bool).tril(1)


class FirstRowForAll(Both):
    def seen(self, n, mask):
        return super().seen(n, mask if mask is None else mask[-1:])


class HidesNeighbours(Both):
    """What is hidden from a position hides itself, too."""

    def seen(self, n, mask):
        if mask is not None and not mask.all(0).any():  # of queries, not of keys alone
            mask = mask & mask.T
        return super().seen(n, mask)


class HidesMore(Both):
    def seen(self, n, mask):
        if mask is not None and not (mask == mask[:1]).all():
            mask = mask & (torch.arange(n) != n - 1)
        return super().seen(n, mask)


class Counting(Block):
    calls = 0

    def forward(self, x, mask=None):
        Counting.calls += 1
        return super().forward(x, mask) * (1 + 0.1 * (Counting.calls % 3))


class Reading(Block):
    """It reads the memory as if it were contiguous."""

    def forward(self, x, mask=None):
        b, n, w = x.shape
        return super().forward(x.as_strided((b, n, w), (n * w, w, 1)), mask)


class Detached(Block):
    def scores(self, q, k):
        return super().scores(q.detach(), k)


class WithoutGradient(Block):
    def forward(self, x, mask=None):
        return super().forward(x, mask).detach()


class OverPositions(Both):
    def forward(self, x):
        return super().forward(x / x.std(1, keepdim=True))


class ByLength(Block):
    def forward(self, x, mask=None):
        return super().forward(x, mask) / x.shape[1]


class InFloat32(Both):
    def forward(self, x):
        assert x.dtype != torch.float64
        return super().forward(x)


FOUND = [
    ("batch_independence", MixesBatch, Verdict.WRONG, symmetries.SAMPLE),
    ("causality", OneAhead, Verdict.WRONG, causal.ONE_AHEAD),
    ("mask_polarity", FirstRowForAll, Verdict.WRONG, masks.SEEN_THROUGH),
    ("determinism", Counting, Verdict.WRONG, hygiene.DIFFERS),
    ("strided", Reading, Verdict.WRONG, hygiene.STRIDES),
    ("gradients", Detached, Verdict.WRONG, backward.SLOPE),
    ("single_token", OverPositions, Verdict.WRONG, lengths.NOT_FINITE),
    ("other_sizes", ByLength, Verdict.WRONG, together.LENGTHS),
    ("nan_behind_mask", Both, Verdict.UNSAFE, forbidden.LEAKS),
    ("fully_masked", Both, Verdict.UNSAFE, forbidden.ALL_HIDDEN),
    ("key_permutation", Placed, Verdict.NOT_CLAIMED, symmetries.KNOWS_ORDER),
    ("mask_polarity", HidesMore, Verdict.WRONG, masks.HIDDEN_TOO),
    ("causality", Local, Verdict.NOT_CLAIMED, trial.MISSING),
    ("key_permutation", Block, Verdict.NOT_CLAIMED, symmetries.CAUSAL),
    ("gradients", WithoutGradient, Verdict.NOT_CLAIMED, backward.INFERENCE),
    ("gradients", InFloat32, Verdict.NOT_CLAIMED, backward.NO_DOUBLE),
    ("other_sizes", Both, Verdict.NOT_CLAIMED, together.NOT_CAUSAL),
    ("mask_polarity", Placed, Verdict.NOT_CLAIMED, trial.MISSING),
]


def test_what_is_found_is_named(subtests):
    for name, make, verdict, text in FOUND:
        with subtests.test(f"{name} {make.__name__}"):
            (result,) = judge(make(), only=[name]).results
            assert (result.verdict, result.finding.text) == (verdict, text), result.diagnosis()
            assert "{" not in result.diagnosis("pt")


class Oddly(Both):
    """Its mask means nothing that is known."""

    def seen(self, n, mask):
        return super().seen(n, None)


def test_a_mask_that_is_not_recognised_is_not_asked():
    report = judge(Oddly(), only=["mask_polarity"])
    assert report.results[0].verdict is Verdict.NOT_ASKED
    assert report.verdict() == (
        "Right in all that was tested. Not tested: attn_mask, which it may take by another name."
    )


def test_a_class_says_why_its_projections_do_not_serve():
    report = judge(nn.TransformerEncoderLayer)
    assert report.read_as() == (
        "a layer: judged as a whole, for no projections of query, key and value are found in it; "
        "axes (n, b, width); src_mask is attn_mask, True = forbidden, (n, m)"
    )
    assert report.read_as("pt").startswith(
        "uma camada: julgada como um todo, pois nela não se encontram projeções de consulta, chave"
    )
    assert report.passed()


def test_a_counterexample_shows_the_sequence():
    (result,) = judge(OneAhead(), only=["causality"]).results
    arguments = result.finding.counterexample.arguments
    assert list(arguments) == ["x"]


def test_many_that_are_not_asked_share_a_reason():
    report = judge(Block())
    unasked = [each for each in report.results if each.verdict is Verdict.NOT_ASKED]
    assert len(unasked) == len(PROPERTIES) - len(ASKED)
    assert f"cannot be given apart to this layer ({len(unasked)}); " in report.held()
    assert "memory_growth" not in report.text()
    assert "\nnot tested · memory_growth: Not tested: query" in report.text(verbose=True)


class NoMixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(24, 24)

    def forward(self, x):
        return self.up(x)


class Needing(NoMixing):
    def forward(self, x, size):
        return self.up(x)


class Narrow(NoMixing):
    def forward(self, x):
        return self.up(x)[..., :3]


@pytest.mark.parametrize("make", [NoMixing, Needing, Narrow])
def test_what_is_no_attention_is_refused(make):
    with pytest.raises(CheckError, match=r"^function: .* cannot be called as f"):
        judge(make())


class Unscaled(Block):
    def scores(self, q, k):
        return q @ k.mT


class Wider(Block):
    def __init__(self):
        super().__init__(dim=36)


def test_a_layer_is_judged_beside_one_that_gets_its_weights():
    for layer in (Block(), Block):
        assert judge(layer, against=Block).passed()
    (result,) = judge(Unscaled(), against=Block, only=["oracle"]).results
    assert (result.verdict, result.finding.text) == (Verdict.WRONG, weights.OTHER)
    for other, said in {
        lambda x: x: r"^against: .* is no layer, and Block is judged as a whole",
        Wider: r"^against: Wider cannot get the weights of Block: .* size mismatch",
        NoMixing: r"^against: NoMixing cannot get the weights of Block: ",
    }.items():
        with pytest.raises(CheckError, match=said):
            judge(Block(), against=other)
    with pytest.raises(CheckError, match=r"^scale: Block is judged as a whole layer"):
        judge(Block(), scale=0.5)


def test_names_that_are_said_are_those_of_a_function():
    layer = Block()
    with pytest.raises(CheckError, match=r"^function: .* cannot be called as f"):
        judge(layer, names={"attn_mask": "mask"})
