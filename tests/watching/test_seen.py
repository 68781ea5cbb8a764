"""What is seen of a running model, and that watching it changes nothing."""

import gc
import math
import re
import sys
import threading
import weakref
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import profile
from torch.utils.checkpoint import checkpoint

import attnref
from attnref.watching import findings, kernels, masks
from attnref.watching.call import FUSED, LAYER, MATH, OWN, call_of
from attnref.watching.findings import Level

PYTORCHS = F.scaled_dot_product_attention
N = 12
ROW, J = torch.arange(N)[:, None], torch.arange(N)
CAUSAL = torch.ones(N, N, dtype=torch.bool).tril()
REAL = torch.ones(2, 1, 1, N, dtype=torch.bool)
REAL[0, ..., 9:] = False


class Block(nn.Module):
    """Projections around an attention of its own."""

    def __init__(self, attend, dtype=torch.float32):
        super().__init__()
        self.attend = attend
        self.dtype = dtype
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (
            y.unflatten(-1, (4, -1)).transpose(1, 2).to(self.dtype)
            for y in self.qkv(x).chunk(3, -1)
        )
        return self.out(self.attend(q, k, v).float().transpose(1, 2).flatten(2))


@pytest.fixture
def x():
    return torch.randn(2, N, 32, generator=torch.Generator().manual_seed(0))


def model_of(*attends, **settings):
    with torch.random.fork_rng([]):
        torch.manual_seed(1)
        return nn.Sequential(*(Block(each, **settings) for each in attends)).eval()


def seen_of(model, *inputs, **given):
    settings = {name: given.pop(name) for name in ("judged", "rows") if name in given}
    with torch.no_grad(), attnref.watch(model, **settings) as seen:
        model(*inputs, **given)
    return seen


def sdpa(q, k, v, mask=None, **options):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)


def written(q, k, v, mask=None, scale=8**-0.5, lowest=-math.inf):
    scores = q @ k.mT * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, lowest)
    return scores.softmax(-1) @ v


def by_einsum(q, k, v):
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / 8**0.5
    scores = scores + torch.zeros(N, N).masked_fill(~CAUSAL, -1e9)
    return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)


def keys_first(q, k, v):
    return (v.mT @ (k @ q.mT / 8**0.5).softmax(-2)).mT


def capped(q, k, v):
    return (5 * torch.tanh(q @ k.mT * (8**-0.5 / 5))).softmax(-1) @ v


def with_sink(q, k, v):
    scores = torch.cat([q @ k.mT * 8**-0.5, q.new_zeros(2, 4, N, 1)], -1)
    return (scores - scores.amax(-1, keepdim=True)).softmax(-1)[..., :-1] @ v


def changed_weights(q, k, v):
    weights = (q @ k.mT * 8**-0.5).softmax(-1)
    weights[..., 0] += 0.01
    return weights @ v


def masked_by_index(q, k, v):
    scores = q @ k.mT * 8**-0.5
    scores[:, :, ~CAUSAL] = -math.inf
    return scores.softmax(-1) @ v


def diagonal_of_zeros(q, k, v):
    scores = (q @ k.mT * 8**-0.5).masked_fill(torch.eye(N).bool(), 0.0)
    return scores.softmax(-1) @ v


def without_heads(q, k, v):
    kept = torch.tensor([1.0, 0.0, 1.0, 1.0]).view(1, 4, 1, 1)
    return (q @ k.mT * 8**-0.5).softmax(-1) * kept.expand(2, 4, N, N) @ v


def in_one(q, k, v):
    """As old models do: the mask has two axes for samples and heads, the softmax one."""
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    scores = (q @ k.mT * 8**-0.5).view(2, 4, N, N).masked_fill(~REAL, -torch.inf)
    return (scores.view(8, N, N).softmax(-1) @ v).view(2, 4, N, 8)


def einsum(scores, output, axis=-1):
    """Attention of tensors whose axes lie as the letters say."""
    (one, other), (_, third) = (each.partition("->")[0].split(",") for each in (scores, output))

    def attend(q, k, v):
        laid = [torch.einsum(f"bhid->{one}", q)]
        shared = "h" not in other
        for x, name in ((k, other), (v, third)):
            x = x[:, 0] if shared else x
            laid.append(torch.einsum(f"{'bjd' if shared else 'bhjd'}->{name}", x))
        query, key, value = laid
        weights = (torch.einsum(scores, query, key) * 8**-0.5).softmax(axis)
        found = torch.einsum(output, weights, value)
        return torch.einsum(f"{output.partition('->')[2]}->bhid", found)

    return attend


def with_windows(q, k, v):
    """Windows are samples but for the mask, as in Swin."""
    mask = torch.zeros(2, N, N)
    mask[1, :, 5:] = -100.0
    scores = (q @ k.mT * 8**-0.5).view(1, 2, 4, N, N) + mask[None, :, None]
    return scores.view(2, 4, N, N).softmax(-1) @ v


def with_rows_and_columns(q, k, v):
    """Keys lie in a picture of 3 by 4, and each of its axes has a bias, as in SAM."""
    scores = (q.flatten(0, 1) @ k.flatten(0, 1).mT * 8**-0.5).view(8, 3, 4, 3, 4)
    rows, columns = torch.arange(3.0), torch.arange(4.0)
    scores = (
        scores + (rows[:, None] - rows)[:, None, :, None] + (columns[:, None] - columns)[:, None]
    )
    return (scores.view(8, N, N).softmax(-1) @ v.flatten(0, 1)).view(2, 4, N, 8)


# What cannot be computed again is seen, and its error is not known.
def by_softmax(change_scores=lambda s: s, change_weights=lambda w: w):
    return lambda q, k, v: change_weights(change_scores(q @ k.mT * 8**-0.5).softmax(-1)) @ v


UNKNOWN = {
    "a factor of each key": by_softmax(lambda s: s * torch.ones(N)),
    "an inverse": by_softmax(lambda s: torch.ones(N, N) / s),
    "a bias taken away": by_softmax(lambda s: s - torch.ones(N, N)),
    "what scores are taken from": by_softmax(lambda s: torch.ones(N, N) - s),
    "a sink of each query": lambda q, k, v: (
        torch.cat([q[..., :1], q @ k.mT * 8**-0.5], -1).softmax(-1)[..., 1:] @ v
    ),
    "weights filled": by_softmax(change_weights=lambda w: w.masked_fill(~CAUSAL, 0.0)),
    "a diagonal of zeros": diagonal_of_zeros,
    "heads switched off": without_heads,
    "a mask by index": masked_by_index,
    "weights that are changed": changed_weights,
}
RIGHT = {
    "fused": lambda q, k, v: sdpa(q, k, v, is_causal=True),
    "padding": lambda q, k, v: sdpa(q, k, v, REAL),
    "empty places of a cache": lambda q, k, v: sdpa(
        q[:, :, :5],
        F.pad(k[:, :, :5], (0, 0, 0, 7)),
        F.pad(v[:, :, :5], (0, 0, 0, 7)),
        is_causal=True,
    ).repeat(1, 1, 3, 1)[:, :, :N],
    "written out": lambda q, k, v: written(q, k, v, CAUSAL),
    "by einsum": by_einsum,
    "keys first": keys_first,
    "by einsum, heads behind": einsum("bihd,bjhd->bhij", "bhij,bjhd->bihd"),
    "by einsum, heads last": einsum("bihd,bjhd->bijh", "bijh,bjhd->bihd", 2),
    "by einsum, tokens first": einsum("ibhd,jbhd->ijbh", "ijbh,jbhd->ibhd", 1),
    "by einsum, one head of keys": einsum("bhid,bjd->bhij", "bhij,bjd->bhid"),
    "one query by einsum": lambda q, k, v: einsum("bihd,bjhd->bhij", "bhij,bjhd->bihd")(
        q[:, :, :1], k, v
    ).expand_as(q),
    "windows": with_windows,
    "rows and columns": with_rows_and_columns,
    "a number added": by_softmax(lambda s: s + 1.0),
    "samples and heads as one": in_one,
    "shown by where": by_softmax(lambda s: torch.where(CAUSAL, s, -torch.inf)),
    "hidden by where": by_softmax(lambda s: torch.where(~CAUSAL, torch.tensor(-torch.inf), s)),
    "hidden twice": by_softmax(
        lambda s: (s + torch.zeros(N, N).masked_fill(~CAUSAL, -1e9)).masked_fill(J > 8, -1e9)
    ),
    "capped": capped,
    "with a sink": with_sink,
    "one head of keys": lambda q, k, v: sdpa(q, k[:, :1], v[:, :1], enable_gqa=True),
}


def aligned_with_the_first(n):
    """A cache that grows, and a mask that does not know it."""

    def attend(q, k, v):
        sdpa(q[:, :, :n], k[:, :, :n], v[:, :, :n], is_causal=n > 1)
        found = sdpa(q[:, :, -n:], k, v, CAUSAL[:n])
        return found.repeat(1, 1, N, 1)[:, :, :N]

    return attend


WRONG = {
    "behind a cache": (
        lambda q, k, v: sdpa(q[:, :, -1:], k, v, is_causal=True).expand_as(q),
        [findings.TOP_LEFT],
    ),
    "inverted": (lambda q, k, v: sdpa(q, k, v, ~CAUSAL), [findings.ONLY_FUTURE]),
    "dropping": (lambda q, k, v: sdpa(q, k, v, dropout_p=0.1), [findings.DROPPING]),
    "dropping, written out": (
        lambda q, k, v: F.dropout((q @ k.mT * 8**-0.5).softmax(-1), 0.5) @ v,
        [findings.DROPPING_ITSELF],
    ),
    "dropping by the operator": (
        by_softmax(change_weights=lambda w: torch.native_dropout(w, 0.5, True)[0]),
        [findings.DROPPING_ITSELF],
    ),
    "needless": (lambda q, k, v: sdpa(q, k, v, CAUSAL), [findings.NEEDLESS]),
    "blind": (lambda q, k, v: sdpa(q, k, v, CAUSAL.tril(-1)), [findings.BLIND]),
    "blind, written out": (
        lambda q, k, v: written(q, k, v, CAUSAL.tril(-1)),
        [findings.NOT_FINITE, findings.BLIND],
    ),
    "NaN behind a mask": (
        lambda q, k, v: sdpa(q, k, v.masked_fill(~REAL.mT, math.nan), REAL),
        [findings.BEHIND],
    ),
    "aligned with the first key": (aligned_with_the_first(5), [findings.ALIGNED]),
    "one query, aligned with the first key": (aligned_with_the_first(1), [findings.ALIGNED]),
    "ones and zeros": (lambda q, k, v: sdpa(q, k, v, CAUSAL.float()), [findings.NUMBERS]),
    "ones and zeros, added": (
        lambda q, k, v: (q @ k.mT * 8**-0.5 + CAUSAL).softmax(-1) @ v,
        [findings.NUMBERS],
    ),
    "the other meaning": (lambda q, k, v: sdpa(q, k, v, ~REAL), [findings.LOST]),
    "one head for many queries": (lambda q, k, v: sdpa(q, k[:, :1], v[:, :1]), [findings.SLOW]),
    "one row many times": (
        lambda q, k, v: sdpa(q, k, v, REAL.repeat(1, 1, N, 1)),
        [findings.NEEDLESS],
    ),
    "not contiguous": (lambda q, k, v: sdpa(q.mT.contiguous().mT, k, v), [findings.SLOW]),
}


@pytest.mark.parametrize("attend", RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_seen_and_not_suspicious(attend, x):
    seen = seen_of(model_of(attend, attend), x)
    assert [site.name for site in seen.sites.values()] == ["0", "1"]
    assert [each.say() for each in seen.findings if each.level < Level.OBSERVED] == []
    assert all(site.statistics.error is not None for site in seen.sites.values())


@pytest.mark.parametrize("attend", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_more_than_the_definition_is_seen_and_not_judged_by_it(attend, x):
    seen = seen_of(model_of(attend), x)
    assert [each.say() for each in seen.findings if each.level < Level.OBSERVED] == []
    assert [site.statistics.error for site in seen.sites.values()] == [None]


@pytest.mark.parametrize(("attend", "said"), WRONG.values(), ids=WRONG)
def test_the_fault_is_named(attend, said, x, monkeypatch):
    monkeypatch.setattr(masks, "_LARGE", 0)
    seen = seen_of(model_of(attend), x)
    assert [each.text for each in seen.findings if each.level < Level.OBSERVED] == said
    assert seen.passed() == (not any(each.level == Level.WRONG for each in seen.findings))


def test_a_kernel_that_errs_is_named(x, monkeypatch):
    original = F.scaled_dot_product_attention

    def wrong(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
        return 1.001 * original(query, key, value, attn_mask, dropout_p, is_causal)

    monkeypatch.setattr(F, "scaled_dot_product_attention", wrong)
    seen = seen_of(model_of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)), x)
    assert [each.text for each in seen.findings] == [findings.FAR]


def test_half_precision_near_its_end_is_named(x):
    seen = seen_of(model_of(lambda q, k, v: written(300 * q, 300 * k, v), dtype=torch.float16), x)
    assert {findings.NEAR_OVERFLOW, findings.NOT_FINITE} <= {each.text for each in seen.findings}


def test_padding_that_reaches_one_layer_alone_is_named(x):
    seen = seen_of(model_of(lambda q, k, v: sdpa(q, k, v, REAL), lambda q, k, v: sdpa(q, k, v)), x)
    (found,) = (each for each in seen.findings if each.level < Level.OBSERVED)
    assert (found.text, found.names) == (findings.DIFFERENT, ("1",))


def test_the_first_nan_is_found_where_it_comes_from(x):
    model = nn.Sequential(nn.Linear(32, 32), Block(sdpa)).eval()
    nn.init.constant_(model[0].bias, math.nan)
    (found, *_) = seen_of(model, x).findings
    assert (found.text, found.names) == (findings.FIRST_OUT, ("0",))
    model = nn.Sequential(nn.Linear(32, 32), Residual(nn.Linear(32, 32)), nn.LayerNorm(32)).eval()
    (found,) = seen_of(model, 1e37 * x).findings
    assert (found.text, found.names) == (findings.FIRST_AFTER, ("2",))
    assert "The output of 1.inner, which ended before it, is still finite" in found.say()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_a_fused_layer_is_blamed_for_its_nan_and_nothing_after_it(x):
    layer = nn.TransformerEncoderLayer(32, 4, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    hidden = torch.zeros(2, N, dtype=torch.bool)
    hidden[1] = True
    wrong, unsafe = seen_of(encoder, x, src_key_padding_mask=hidden).findings
    assert (wrong.text, wrong.names) == (findings.NOT_FINITE, ("layers.0",))
    assert (unsafe.text, unsafe.names) == (findings.LOST, ("layers.0", "layers.1"))
    nested = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()
    hidden[1] = ~REAL[0, 0, 0]
    ((way,), _) = (
        site.ways.values()
        for site in seen_of(nested, x, src_key_padding_mask=hidden).sites.values()
    )
    assert str(way.mask.pattern) == "all allowed; right padding, up to 3"


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return 20 * (x + self.inner(x))


@pytest.mark.parametrize("forgotten", [False, True])
def test_all_samples_and_all_passes_count(forgotten):
    x = torch.randn(16, N, 32, generator=torch.Generator().manual_seed(0))
    layers = nn.ModuleList(nn.MultiheadAttention(32, 4, batch_first=True) for _ in range(2))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, x, hidden):
            for layer, mask in zip(layers, (hidden, None if forgotten else hidden), strict=True):
                x = x + layer(x, x, x, key_padding_mask=mask)[0]
            return x

    model = Model()
    with attnref.watch() as seen:
        nn.Identity()(x)
        for sample in (9, 12):
            hidden = torch.zeros(16, N, dtype=torch.bool)
            hidden[sample, 7:] = True
            model(x, hidden)
    (costly, *unsafe) = seen.findings[::-1]
    assert costly.values["why"] == kernels.NEED_WEIGHTS
    assert [each.text for each in unsafe] == [findings.DIFFERENT] * forgotten
    assert {site.statistics.weights.shape[0] for site in seen.sites.values()} == {4}


def test_what_is_called_needless_is_so_in_each_row(monkeypatch):
    x = torch.randn(1, 2, 600, 8, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(600, 600, dtype=torch.bool).tril()
    monkeypatch.setattr(masks, "_TOGETHER", 2**15)
    for change, said in ((0, [findings.NEEDLESS]), (1, [])):
        mask[301, 7] ^= bool(change)
        with attnref.watch() as seen:
            sdpa(x, x, x, mask)
        assert [each.text for each in seen.findings] == said


def test_a_mask_that_is_gone_is_no_other_ones():
    with attnref.watch() as seen:
        sdpa(Q, Q, Q, CAUSAL[:7, :7].clone())
        sdpa(Q, Q, Q)
    patterns = [str(way.mask.pattern) for site in seen.sites.values() for way in site.ways.values()]
    assert patterns == ["causal", "none"]


def test_scores_that_overflow_are_told_when_they_are_gone(x):
    def attend(q, k, v):
        return (300 * q @ (300 * k).mT).softmax(-1) @ v

    (found, *_) = seen_of(model_of(attend, dtype=torch.float16), x).findings
    assert "its scores overflow float16" in found.say()


def test_a_bias_that_is_not_finite_is_no_mask(x):
    bias = torch.full((N, N), math.inf)
    seen = seen_of(model_of(by_softmax(lambda s: s + bias)), x)
    assert [each.text for each in seen.findings] == [findings.NOT_FINITE]
    assert "contains NaN or inf" in str(seen)


def test_weights_that_meet_no_values_are_told_and_those_that_meet_two_count_once(x):
    def talking_heads(q, k, v):
        weights = torch.einsum("bhij,hg->bgij", (q @ k.mT).softmax(-1), torch.eye(4))
        return weights @ v

    seen = seen_of(model_of(talking_heads), x)
    assert (len(seen.sites), seen.unfinished) == (0, ["0"])
    assert "its product with values was not recognised" in str(seen).replace("\n", " ")

    def twice(q, k, v):
        weights = (q @ k.mT).softmax(-1)
        return weights @ (weights @ v)

    seen = seen_of(model_of(twice), x)
    assert ([site.count for site in seen.sites.values()], seen.unfinished) == ([1], [])


def test_what_a_model_is_given_is_not_its_fault(x):
    x = x.clone()
    x[0, 0, 0] = math.nan
    model = nn.Sequential(nn.Identity(), nn.LayerNorm(32)).eval()
    assert seen_of(model, x).findings == ()
    model = nn.Sequential(Filling(), nn.Linear(32, 32)).eval()
    nn.init.constant_(model[1].weight, math.inf)
    (found,) = seen_of(model, x).findings
    assert (found.text, found.names) == (findings.FIRST_OUT, ("1",))


class Filling(nn.Module):
    def forward(self, x):
        return x.nan_to_num()


class AttentionModel(nn.Sequential):
    pass


def test_a_model_named_like_attention_is_not_missed_if_its_parts_are_seen(x):
    assert seen_of(AttentionModel(Block(sdpa)), x).unseen == {}
    assert seen_of(AttentionModel(nn.Identity()), x).unseen == {"AttentionModel": "AttentionModel"}


def test_what_a_backward_pass_computes_again_is_no_call(x):
    model = model_of(sdpa)
    with attnref.watch(model) as seen:
        checkpoint(model, x.requires_grad_(), use_reentrant=False).sum().backward()
    assert [site.count for site in seen.sites.values()] == [1]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_the_longest_of_nested_sequences_is_looked_at(layout):
    parts = [torch.randn(n, 4, 8, generator=torch.Generator().manual_seed(n)) for n in (5, 9)]
    given = torch.nested.nested_tensor(parts, layout=layout).transpose(1, 2)
    given = given.contiguous() if layout == torch.strided else given
    with torch.no_grad(), attnref.watch() as seen:
        sdpa(given, given, given)
    (site,) = seen.sites.values()
    assert (site.statistics.error < 1, seen.missed, site.statistics.weights.shape[-1]) == (
        True,
        {},
        9,
    )


@pytest.mark.parametrize("mixed", [lambda s: s.transpose(0, 1), lambda s: s.softmax(0)])
def test_what_is_no_attention_is_not_taken_for_it(mixed, x):
    def attend(q, k, v):
        mixed(q @ k.mT).softmax(-1) @ torch.ones(N, N)
        return v

    class Attention(Block):
        pass

    model = nn.Sequential(*(Attention(attend) for _ in range(2)), Attention(attend)).eval()
    seen = seen_of(model, x)
    assert (len(seen.sites), list(seen.unseen)) == (0, ["0", "1", "2"])
    assert str(seen).startswith("No attention was seen.")
    assert "{0…2} (Attention)" in str(seen)


def test_sinks_and_copies_are_observed(x):
    def attend(q, k, v):
        q, k = q.clone(), k.clone()
        k[:, :, 0], q[:, :, :, 0] = 8.0, 8.0
        return sdpa(q[:, :1].expand_as(q), k[:, :1].expand_as(k), v)

    texts = {each.text for each in seen_of(model_of(attend), x).findings}
    assert {findings.SINKS, findings.COPIES} <= texts


# What a mask is.


PATTERNS = {
    "causal": CAUSAL,
    "causal, window of 4": CAUSAL & (J > ROW - 4),
    "window, 2 back and 1 ahead": (J >= ROW - 2) & (J <= ROW + 1),
    "causal, chunks of 5": CAUSAL & (ROW // 5 == J // 5),
    "packed sequences, 2": torch.block_diag(torch.ones(5, 5), torch.ones(7, 7)).bool(),
    "causal after a prefix of 3": CAUSAL | (J < 3),
    "future only": ~CAUSAL,
    "future only, and padding": ~(CAUSAL & REAL),
    "all allowed": CAUSAL | True,
    "all allowed; right padding, up to 3": REAL,
    "causal; left padding, up to 2": CAUSAL & (J > 1),
    "causal, top-left": J[None] <= ROW[:5],
    "causal, with large numbers": -100.0 * ~CAUSAL,
    "causal, bottom-right": J[None] <= ROW[:5] + 7,
    "all allowed; with a bias": -0.5 * (ROW - J).abs(),
    "all allowed; keys hidden in between": (J != 5).expand(N, N),
    "other pattern": (ROW * J) % 3 != 1,
}


@pytest.mark.parametrize(("said", "mask"), PATTERNS.items(), ids=PATTERNS)
def test_the_pattern_of_a_mask_is_recognised(said, mask):
    query = torch.zeros(2, 4, mask.shape[-2] if mask.shape[-2] > 1 else N, 8)
    call = call_of(FUSED, (query, torch.zeros(2, 4, N, 8), torch.zeros(2, 4, N, 8)))
    call.mask = mask
    assert str(masks.recognise(call).pattern) == said.partition(", and")[0].partition(", with")[0]


# Which kernel, and why.

Q = torch.randn(2, 4, 7, 8, generator=torch.Generator().manual_seed(0))
KERNELS = {
    "as it should be": ((Q, Q, Q), {}, None),
    "three axes": ((Q[0], Q[0], Q[0]), {}, kernels.AXES),
    "a mask of three": ((Q, Q, Q), {"attn_mask": torch.ones(4, 7, 7).bool()}, kernels.MASK_AXES),
    "strides": ((Q, Q.mT.contiguous().mT, Q), {}, kernels.STRIDE),
    "widths": ((Q, Q, Q[..., :4]), {}, kernels.WIDTHS),
    "learned": ((Q, Q, Q), {"attn_mask": torch.zeros(7, 7).requires_grad_()}, kernels.LEARNED),
}


@pytest.mark.parametrize(("inputs", "options", "why"), KERNELS.values(), ids=KERNELS)
def test_the_reason_is_the_one_for_which_no_kernel_was_chosen(inputs, options, why):
    with attnref.watch() as seen:
        F.scaled_dot_product_attention(*inputs, **options)
    ((way,),) = (site.ways.values() for site in seen.sites.values())
    assert way.call.kernel == ("flash" if why is None else MATH)
    assert (way.call.reason and way.call.reason.english) == (why and why.english)
    with sdpa_kernel([SDPBackend.MATH]), attnref.watch() as seen:
        F.scaled_dot_product_attention(Q, Q, Q)
    assert kernels.SWITCHED_OFF in [each.values.get("why") for each in seen.findings]


# Nothing is changed.


def operators_of(run):
    with torch.no_grad(), profile() as recorded:
        run()
    # What enters a dispatch mode is noted at its door, too, and a bias is added beside the product
    # instead of in its place.
    return [
        event.name.removesuffix("_")
        for event in recorded.events()
        if event.name.startswith("aten::") and event.name not in VIEWS
        if event.cpu_parent is None or event.cpu_parent.name != "PythonDispatchMode"
    ]


VIEWS = {
    f"aten::{name}"
    for name in ("transpose", "as_strided", "_reshape_alias", "view", "expand", "select", "detach")
}


LAYERS = {
    "encoder": (nn.TransformerEncoderLayer(32, 4, batch_first=True).eval(), LAYER),
    "multi-head": (nn.MultiheadAttention(32, 4, batch_first=True).eval(), LAYER),
    "multi-head, in training": (nn.MultiheadAttention(32, 4, batch_first=True), OWN),
    "fused": (Block(sdpa), FUSED),
}


@pytest.mark.claim("watching-changes-nothing")
@pytest.mark.parametrize(("layer", "function"), LAYERS.values(), ids=LAYERS)
def test_the_same_operators_run(layer, function, x):
    inputs = (x, x, x) if isinstance(layer, nn.MultiheadAttention) else (x,)
    outputs = []

    def run():
        found = layer(*inputs)
        outputs.append(found[0] if isinstance(found, tuple) else found)

    plain = operators_of(run)
    with attnref.watch(layer, judged=False) as seen:
        watched = operators_of(run)
    assert watched == plain
    assert torch.equal(*outputs)
    assert {each for _, each in seen.sites} == {function}
    (site,) = seen_of(layer, *inputs).sites.values()
    assert function == LAYER or site.statistics.error < 1  # which keeps its output to itself


@pytest.mark.claim("watching-compiled")
@pytest.mark.parametrize("in_place", [False, True])
def test_what_is_compiled_runs_compiled_and_is_compiled_once_more_at_most(in_place, x):
    model = compiled = model_of(lambda q, k, v: sdpa(q, k, v, is_causal=True), written)
    if in_place:
        model.compile(backend="aot_eager", fullgraph=True)
    else:
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    graphs = []
    with torch.no_grad():
        right = compiled(x)
        for _ in range(3):
            with attnref.watch(compiled) as seen:
                assert torch.equal(compiled(x), right)
            assert torch.equal(compiled(x), right)
            graphs.append(counters["stats"]["unique_graphs"])
        assert (seen.missed, len(set(graphs))) == ({}, 1)
        assert len(seen.sites) == 2
        assert f"here too: {type(compiled).__name__}" in str(seen).replace("\n", " ")
        with torch.compiler.set_stance("force_eager"), attnref.watch(model) as seen:
            compiled(x)
    assert [name for name, _ in seen.sites] == ["0", "1"]
    assert "Compiled" not in str(seen)


@pytest.mark.claim("watching-is-undone")
def test_everything_is_undone_even_if_it_raises(x):
    original = F.scaled_dot_product_attention
    model = model_of(lambda q, k, v: 1 / 0)
    with pytest.raises(ZeroDivisionError), attnref.watch(model):
        model(x)
    assert F.scaled_dot_product_attention is original
    assert not nn.modules.module._global_forward_hooks
    assert not nn.modules.module._global_forward_hooks_always_called
    assert not nn.modules.module._global_forward_pre_hooks


def test_what_was_named_otherwise_is_seen_by_its_operator(x):
    original = F.scaled_dot_product_attention
    seen = seen_of(model_of(lambda q, k, v: original(q, k, v, is_causal=True)), x)
    ((way,),) = (site.ways.values() for site in seen.sites.values())
    assert str(way.mask.pattern) == "causal"


@pytest.mark.claim("watching-keeps-nothing")
def test_no_tensor_of_the_model_is_kept(x):
    kept = []

    def attend(q, k, v):
        kept.extend(map(weakref.ref, (q, k, v)))
        return written(q, k, v)

    seen = seen_of(model_of(attend), x)
    gc.collect()
    assert [each() for each in kept] == [None] * 3
    assert seen.weights("0").shape == (4, N, N)


def test_nothing_is_kept_while_it_runs(x):
    kept = []

    def attend(q, k, v):
        kept.extend(map(weakref.ref, (q, k, v)))
        return written(q, k, v)

    model = model_of(attend)
    with torch.no_grad(), attnref.watch(model):
        model(x)
        gc.collect()
        assert [each() for each in kept] == [None] * 3


def sparse(x):
    torch.mm(torch.eye(3).to_sparse(), torch.eye(3))


def one_number(x):
    torch.tensor(1.0).softmax(0)


def inference(x):
    with torch.inference_mode():
        sdpa(Q, Q, Q, torch.ones(7, 7).bool())


def batched(x):
    torch.vmap(sdpa)(Q, Q, Q)


def traced(x):
    torch.jit.trace(lambda q: sdpa(q, q, q), Q)


def meta(x):
    nn.Linear(2, 2, device="meta")(torch.ones(2, 2, device="meta"))


def broadcast(x):
    sdpa(Q[:, :1].expand(-1, 4, -1, -1), Q, Q[:1].expand(2, -1, -1, -1))


def five_axes(x):
    sdpa(Q[None], Q[None], Q[None], torch.ones(1, 2, 1, 7, 7).bool())


def no_width(x):
    sdpa(Q[..., :0], Q[..., :0], Q)


def backward(x):
    model_of(written)(x).sum().backward()


@pytest.mark.filterwarnings("ignore:.*jit.trace")
@pytest.mark.parametrize(
    "run",
    [
        sparse,
        one_number,
        inference,
        batched,
        traced,
        meta,
        broadcast,
        five_axes,
        no_width,
        backward,
    ],
)
def test_a_model_never_fails_or_is_blamed_because_it_is_watched(run, x):
    with attnref.watch() as seen:
        run(x)
    assert seen.passed()


def test_what_cannot_be_looked_at_is_told(x, monkeypatch):
    def broken(*_):
        raise RuntimeError("no look")

    monkeypatch.setattr("attnref.watching.seen.measure", broken)
    seen = seen_of(model_of(sdpa), x)
    assert seen.missed == {("0", "RuntimeError: no look"): 1}
    assert "no look" in seen.text()


def test_padding_of_another_batch_is_another_padding(x):
    model = model_of(lambda q, k, v: sdpa(q, k, v, masks_of.pop(0)))
    masks_of = [REAL, REAL.flip(-1)]
    with torch.no_grad(), attnref.watch(model) as seen:
        model(x)
        model(x)
    assert seen.passed(strict=True)


def test_two_threads_see_their_own_model(x):
    seen = {}

    def run(count):
        seen[count] = seen_of(model_of(*[sdpa] * count), x)

    threads = [threading.Thread(target=run, args=(count,)) for count in (1, 2, 3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {count: len(each.sites) for count, each in seen.items()} == {1: 1, 2: 2, 3: 3}


def test_a_watch_runs_once(x):
    seen = attnref.watch()
    with seen, pytest.raises(RuntimeError, match="runs already"):
        seen.__enter__()
    with pytest.raises(RuntimeError, match="has ended"):
        seen.__enter__()


def test_ways_beyond_the_last_are_counted_with_it(x, monkeypatch):
    monkeypatch.setattr("attnref.watching.seen._WAYS", 2)
    with attnref.watch() as seen:
        for scale in (1, 2, 4):
            sdpa(*(Q[..., :scale] for _ in range(3)))
    assert [way.count for site in seen.sites.values() for way in site.ways.values()] == [1, 2]


def test_a_function_that_was_compiled_under_its_own_name_is_seen(monkeypatch):
    library = ModuleType("library")
    library.scaled_dot_product_attention = F.scaled_dot_product_attention
    compiled = torch.compile(library.scaled_dot_product_attention, backend="eager")
    library.scaled_dot_product_attention = compiled
    monkeypatch.setitem(sys.modules, "library", library)
    with attnref.watch() as seen:
        library.scaled_dot_product_attention(Q, Q, Q, is_causal=True)
    assert library.scaled_dot_product_attention is compiled
    ((way,),) = (site.ways.values() for site in seen.sites.values())
    assert str(way.mask.pattern) == "causal"


def test_what_is_loaded_while_it_runs_is_seen(monkeypatch):
    class Late(nn.Module):
        def forward(self, q):
            return sys.modules["late"].scaled_dot_product_attention(q, q, q)

    Late.__module__ = "late"
    with attnref.watch() as seen:
        late = ModuleType("late")
        monkeypatch.setitem(sys.modules, "late", late)
        late.scaled_dot_product_attention = PYTORCHS
        Late()(Q)
    assert [name for name, _ in seen.sites] == ["Late"]


def test_one_watch_may_run_in_another(x):
    outer, inner = model_of(sdpa, sdpa), model_of(sdpa)
    with attnref.watch() as everything, attnref.watch(inner) as part:
        outer(x), inner(x)
    assert (len(part.sites), sum(site.count for site in everything.sites.values())) == (1, 3)


def test_attention_that_is_none_is_named_as_not_seen(x):
    class LinearAttention(nn.Module):
        def forward(self, x):
            return x @ (x.mT @ x)

    seen = seen_of(nn.Sequential(LinearAttention(), Block(sdpa)).eval(), x)
    assert seen.unseen == {"0": "LinearAttention"}


def test_a_call_without_queries_harms_nobody():
    with attnref.watch() as seen:
        F.scaled_dot_product_attention(Q[:, :, :0], Q, Q)
    assert seen.passed()


# What can be asked.


@pytest.mark.claim("watched-weights")
def test_weights_are_those_that_the_layer_returns(x):
    layer = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    with torch.no_grad():
        _, right = layer(x, x, x, average_attn_weights=False)
    fused = seen_of(layer, x, x, x, need_weights=False)
    torch.testing.assert_close(fused.weights(0), right[0])
    torch.testing.assert_close(fused.weights("MultiheadAttention", 2), right[0, 2])
    few = seen_of(layer, x, x, x, rows=3)
    assert few.rows_of(0).tolist() == [0, 6, 11]
    torch.testing.assert_close(few.weights(0), right[0][:, [0, 6, 11]])


def test_a_wrong_name_says_which_there_are(x):
    seen = seen_of(model_of(sdpa), x)
    with pytest.raises(KeyError, match="expected one of 0, got 'nope'"):
        seen.weights("nope")
    with pytest.raises(IndexError, match="expected 0 to 3, got 4"):
        seen.weights(0, 4)
    with pytest.raises(KeyError, match="judged=True"):
        seen_of(model_of(sdpa), x, judged=False).weights(0)
    with pytest.raises(TypeError, match=r"expected a torch\.nn\.Module"):
        attnref.watch(sdpa)
    with pytest.raises(ValueError, match="expected 1 or more"):
        attnref.watch(rows=0)


@pytest.mark.parametrize("lang", ["en", "pt"])
def test_the_table_counts_calls_and_names_places(lang, x):
    seen = seen_of(model_of(sdpa, sdpa, lambda q, k, v: sdpa(q, k, v, ~CAUSAL)), x)
    text = seen.text(lang)
    assert "{0…1}" in text
    assert text.count("12 × 12") == 2
    assert "pitfalls/masks" in text
    assert not text.startswith(seen.text("en").splitlines()[0]) or lang == "en"


def test_each_page_that_is_named_exists():
    root = Path(__file__).parents[2] / "docs" / "en"
    room = Path(findings.__file__).parent
    source = "".join((room / name).read_text() for name in ("findings.py", "seen.py"))
    pages = set(re.findall(r'"([a-z]+/[a-z-]+)"', source))
    assert len(pages) > 8
    assert [page for page in pages if not (root / f"{page}.md").is_file()] == []
