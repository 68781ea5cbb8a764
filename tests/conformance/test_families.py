"""Functions with something of their own: the right one of each family passes, wrong ones are named.

Together with the mutants of the usual formula, they produce every text that there is.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from attnref.conformance import Verdict, check, check_steps, checker, examination, trial
from attnref.conformance import properties as ideas
from attnref.conformance.formula import SERIES, Rotary
from attnref.conformance.properties import (
    absorbed,
    borders,
    branches,
    causal,
    distances,
    gates,
    heads,
    hygiene,
    key_lengths,
    masks,
    scales,
    scaling,
    sinks,
    steps,
    symmetries,
    weights,
    windows,
)
from attnref.conformance.recurrence import WAYS, Recurrence, recur
from attnref.text import LANGUAGES, Text
from attnref.variants.gated_delta import gated_delta_attention
from tests.conformance import test_mutants, test_wholes


class Wrong(NamedTuple):
    """A function, and what the property that names its fault says of it."""

    function: Any
    rule: str
    text: Text
    said: Mapping[str, Any] = {}
    verdict: Verdict = Verdict.WRONG
    settings: Mapping[str, Any] = {}


class Family(NamedTuple):
    """A right function, how it is read, wrong ones, and with which settings all are asked."""

    right: Any
    read: str
    wrong: list[Wrong]
    settings: Mapping[str, Any] = {}


def attend(query, key, value, seen=None, bias=0.0, scale=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (scale * query) @ key.mT + bias
    if seen is None:
        return torch.softmax(scores, -1) @ value
    blind = ~seen.any(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~(seen | blind), -math.inf), -1)
    return weights.masked_fill(blind, 0.0) @ value


def behind(query, key):
    """How far behind each query each key is, both sequences beginning together."""
    return torch.arange(query.shape[-2])[:, None] - torch.arange(key.shape[-2])


def different(scale=None, leaking=False, halves=False):
    def differential(query, key, value, lambda_full, attn_mask=None):
        weights = []
        for number, (q, k) in enumerate(zip(query.chunk(2, -1), key.chunk(2, -1), strict=True)):
            scores = q @ k.mT * (query.shape[-1] ** -0.5 if scale else q.shape[-1] ** -0.5)
            if attn_mask is not None and not (leaking and number):
                scores = scores.masked_fill(~attn_mask, -1e30)
            weights.append(scores.softmax(-1))
        return (weights[0] - lambda_full * weights[1]) @ value

    def apart(q1, q2, k1, k2, v, lambda_full=0.3):
        return differential(torch.cat([q1, q2], -1), torch.cat([k1, k2], -1), v, lambda_full)

    return apart if halves else differential


def buckets(query, key, value, relative_attention_bias):
    """The table of T5 in its simplest form: neighbours, near ones, far ones."""
    place = behind(query, key).abs().float().clamp(max=15).sqrt().long()
    return attend(query, key, value, bias=relative_attention_bias[place].permute(2, 0, 1))


def buckets_cut(query, key, value, relative_attention_bias):
    """Computed 16 queries at a time, each strip as if it began at the first position."""
    strips = (
        buckets(part, key, value, relative_attention_bias) for part in query.split(16, dim=-2)
    )
    return torch.cat([*strips], -2)


def past(query, key, is_causal=True):
    return (behind(query, key) >= 0) | (not is_causal)


def windowed(seen=lambda behind, window: behind < (window or math.inf), scale=None, window=4):
    def attention(query, key, value, sliding_window=window):
        far = behind(query, key)
        near = (far >= 0) & seen(far, sliding_window)
        return attend(query, key, value, near, scale=scale)

    return attention


def behind_alone(drops=False):
    """Its window hides the far past, and is_causal the future."""

    def attention(query, key, value, is_causal=False, sliding_window=None):
        n, m = query.shape[-2], key.shape[-2]
        far = behind(query, key) + m - n
        seen = (far >= 0) | (not is_causal)
        if sliding_window and not (drops and n == 1):
            seen = seen & (far < sliding_window)
        return attend(query, key, value, seen)

    return attention


def chunked(of_all=True):
    def attention(query, key, value, attention_chunk_size=4):
        n, m = query.shape[-2], key.shape[-2]
        i, j = torch.arange(m - n, m)[:, None], torch.arange(m)
        chunk = (i if of_all else i - m + n) // attention_chunk_size
        near = (j <= i) & (chunk == j // attention_chunk_size)
        return attend(query, key, value, near)

    return attention


def of_unit(axis):
    """Scores that are cosines, along the axis."""

    def attention(query, key, value):
        query, key = (4 * nn.functional.normalize(x, dim=axis) for x in (query, key))
        return attend(query, key, value, past(query, key))

    return attention


def of_features(of_past=True):
    def attention(query, key, value):
        query, key = (nn.functional.elu(x) + 1 for x in (query, key))
        weights = query @ key.mT
        seen = weights.tril()
        return seen @ value / (seen if of_past else weights).sum(-1, keepdim=True)

    return attention


def optional(*nothing):
    """Without a window all see all."""

    def attention(query, key, value, sliding_window=None):
        if sliding_window in (None, *nothing):
            return attend(query, key, value)
        return windowed(torch.lt)(query, key, value, sliding_window)

    return attention


def of_size(query, key, value, window_size=None):
    return optional(0)(query, key, value, window_size)


def sharing(bottom_right=True, once=False, tiled=False):
    """Heads that share keys, in one order, or in the other if it is a single query."""

    def attention(query, key, value):
        n, times = query.shape[-2], query.shape[1] // key.shape[1]
        turned = tiled or (once and n == 1)
        key, value = (
            x.repeat(1, times, 1, 1) if turned else x.repeat_interleave(times, 1)
            for x in (key, value)
        )
        return aligned(bottom_right)(query, key, value, is_causal=True)

    return attention


def turned_sinks(flip):
    """Sinks of two heads that share keys are swapped, or not."""

    def attention(query, key, value, sinks):
        times = query.shape[1] // key.shape[1]
        sinks = sinks.view(times, -1).mT.flatten() if flip else sinks
        key, value = (x.repeat_interleave(times, 1) for x in (key, value))
        return with_sinks()(query, key, value, sinks)

    return attention


def with_sinks(change=lambda sinks, query, attn_mask, is_causal: sinks):
    def attention(query, key, value, sinks, attn_mask=None, is_causal=False):
        sinks = change(sinks, query, attn_mask, is_causal).view(-1, 1, 1)
        key, value = (nn.functional.pad(x, (0, 0, 0, 1)) for x in (key, value))  # a key of zeros
        seen = past(query, key, is_causal)
        seen = seen if attn_mask is None else seen & nn.functional.pad(attn_mask, (0, 1))
        last = torch.arange(key.shape[-2]) == key.shape[-2] - 1
        return attend(query, key, value, seen | last, torch.where(last, sinks, 0.0))

    return attention


def shares_after(query, key, value, sinks):
    """Its weights are those of a softmax, times what the sink leaves of them."""
    scores = query @ key.mT * query.shape[-1] ** -0.5
    top = scores.amax(-1, keepdim=True)
    total, sink = (scores - top).exp().sum(-1, keepdim=True), (sinks.view(-1, 1, 1) - top).exp()
    return attend(query, key, value) * (1 - sink / (total + sink))


def with_lengths(within=lambda length: length, last=lambda length, n, m: length - n):
    def attention(query, key, value, kv_lengths=None, is_causal=False):
        n, m = query.shape[-2], key.shape[-2]
        length = torch.tensor([m]) if kv_lengths is None else kv_lengths
        length, j = length[:, None, None, None], torch.arange(m)
        seen = (j < within(length)).expand(-1, 1, n, m)
        if is_causal:
            seen = seen & (j <= torch.arange(n)[:, None] + last(length, n, m))
        return attend(query, key, value, seen)

    return attention


def padding(shape):
    """A mask of keys, or of queries, that is True where nothing is."""

    def attention(query, key, value, key_padding_mask=None):
        if key_padding_mask is None:
            return attend(query, key, value)
        b, m = key_padding_mask.shape
        return attend(query, key, value, ~key_padding_mask.view(shape(b, m)))

    return attention


def sloped(slopes):
    def attention(query, key, value):
        bias = -SERIES[slopes][1](query.shape[1])[:, None, None] * behind(query, key).abs()
        return attend(query, key, value, bias=bias.to(query.dtype))

    return attention


def biased(obeys=True):
    def attention(query, key, value, attn_mask=None):
        bias = behind(query, key).cos().to(query.dtype)
        if attn_mask is not None and attn_mask.is_floating_point():
            bias, attn_mask = bias + attn_mask, attn_mask > -math.inf
        return attend(query, key, value, attn_mask if obeys else None, bias)

    return attention


def some_slopes(query, key, value):
    """Slopes that are ALiBi's for as many heads as a power of two holds, and one."""
    heads = query.shape[1]
    p = 2 ** (heads.bit_length() - 1)
    slopes = torch.exp2(-8 * torch.arange(1, p + 1) / p).tolist()
    slopes += torch.exp2(-4 * torch.arange(1, heads - p + 1) / p).tolist()
    bias = -torch.tensor(slopes)[:, None, None] * behind(query, key).abs()
    return attend(query, key, value, bias=bias.to(query.dtype))


def turned(turn, queries=True):
    return lambda query, key, value: attend(turn(query) if queries else query, turn(key), value)


def gated(how="", end=lambda g, beta: (g, beta)):
    """The gated delta rule, token by token, in one of the ways to be wrong."""
    right = Recurrence(gates={"log_decay": "g", "rate": "beta"})

    def attention(query, key, value, g, beta):
        g, beta = end(g, beta)
        inputs = right.inputs(query, key, value, {"g": g, "beta": beta})
        return how(*inputs) if callable(how) else recur(*inputs, how=how)

    return attention


def by_chunks(query, key, value, g, beta):
    return gated_delta_attention(query, key, value, log_decay=g, beta=beta)


def of_any_length(query, key, value, g, beta, use_qk_l2norm=False):
    return by_chunks(query, key, value, g, beta)


def own_length(query, key, value, g, beta):
    """Keys of length 1, however long they are."""
    return by_chunks(query, key / key.norm(dim=-1, keepdim=True), value, g, beta)


def constant(how="", most=math.inf):
    """A decay and a rate that nobody can change."""

    def attention(query, key, value):
        factor = 1.0 if query.shape[1] <= most else math.nan
        return recur(*Recurrence().inputs(query, key, value, _constants(key)), how=how) * factor

    return attention


def _constants(key):
    return {"decay": key.new_full(key.shape[1:3], 0.9), "rate": key.new_full(key.shape[1:3], 0.5)}


def linear(query, key, value):
    return (query @ key.mT).tril() @ value


def by_states(query, key, value):
    states = (key[..., None] * value[..., None, :]).cumsum(-3)
    return (query[..., None, :] @ states).squeeze(-2)


def in_parts(function, size):
    """The state is lost at the end of each part."""

    def attention(*tensors):
        parts = zip(*(x.split(size, -2) for x in tensors), strict=True)
        return torch.cat([function(*part) for part in parts], -2)

    return attention


def not_long(query, key, value):
    if query.shape[-2] > 100:
        raise ValueError("query: expected at most 100 positions")
    return linear(query, key, value)


def aligned(bottom_right):
    def attention(query, key, value, is_causal=False):
        shift = (key.shape[-2] - query.shape[-2]) * bottom_right
        seen = (behind(query, key) + shift >= 0) | (not is_causal)
        return attend(query, key, value, seen)

    return attention


def rounded(decimals):
    return lambda query, key, value: attend(query, key.round(decimals=decimals), value)


def descaled(change=lambda scale: scale):
    def attention(query, key, value, k_scale=1.0, v_scale=1.0):
        scales = (torch.as_tensor(each).to(query.dtype) for each in (k_scale, v_scale))
        of_keys, of_values = (change(each[..., None, None]) for each in scales)
        return attend(query, of_keys * key, of_values * value)

    return attention


def tabled(part=lambda table: table):
    return lambda query, key, value, table: attend(query, key, value, bias=part(table))


def switched(times=1.0, forgets=(), hides=False):
    """It returns its scores too where it is told so."""

    def attention(query, key, value, attn_mask=None, is_causal=False, need_weights=False):
        if need_weights:
            attn_mask = None if "attn_mask" in forgets else attn_mask
            is_causal = is_causal and "is_causal" not in forgets
        seen = past(query, key, is_causal)
        seen = seen if attn_mask is None else seen & attn_mask
        if not need_weights:
            return attend(query, key, value, seen)
        bias = torch.where(seen, 0.0, -math.inf) if hides else 0.0
        output = times * attend(query, key, value, None if hides else seen, bias)
        return output.nan_to_num(0.0) if hides else output, query @ key.mT

    return attention


class Mode(nn.Module):
    """What is done to its outputs, and to rows without keys, in training."""

    def __init__(self, times=1.0, blind=0.0):
        super().__init__()
        self.times, self.blind, self.drop = times, blind, nn.Dropout(0.1)

    def forward(self, query, key, value, attn_mask=None):
        seen = past(query, key, False) if attn_mask is None else attn_mask
        output = self.drop(attend(query, key, value, seen))
        if not self.training:
            return output
        return self.times * output + self.blind * ~seen.any(-1, keepdim=True)


class Latent(nn.Module):
    """Queries of 8 numbers are absorbed into keys of 16, which are the same for all heads."""

    def __init__(self, width=24, heads=3, d=8):
        super().__init__()
        self.num_heads, self.d = heads, d
        self.q_proj, self.kv = nn.Linear(width, 8 * heads), nn.Linear(width, 16)
        self.up, self.out = nn.Parameter(torch.randn(heads, 8, 16) / 4), nn.Linear(48, width)

    def forward(self, x):
        query = self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) @ self.up
        latent = self.kv(x)[:, None].expand(-1, self.num_heads, -1, -1)
        output = attend(query, latent, latent, past(query, latent), scale=self.d**-0.5)
        return self.out(output.transpose(1, 2).flatten(2))


def packed(starts=0, stops=0, of_longest=False):
    """Each sequence has its own keys, or some more, or fewer, or is aligned as the longest."""

    def attention(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False):
        outputs, ends = [], (x.unfold(0, 2, 1).tolist() for x in (cu_seqlens_q, cu_seqlens_k))
        for own, (start, stop) in zip(*ends, strict=True):
            query = q[slice(*own)].transpose(0, 1)
            key, value = (x[max(0, start + starts) : stop + stops].transpose(0, 1) for x in (k, v))
            shift = key.shape[-2] - query.shape[-2]
            shift = max_seqlen_k - max_seqlen_q if of_longest else shift
            seen = (behind(query, key) + shift >= 0) | (not causal)
            outputs.append(attend(query, key, value, seen).transpose(0, 1))
        return torch.cat(outputs)

    return attention


def rooms(number):
    def factory(batch, heads, max_len, head_dim, dtype):
        return [torch.full((batch, heads, max_len, head_dim), number, dtype=dtype) for _ in "kv"]

    return factory


def told(place=lambda position: position, cut=True):
    """A step that is told where each sample is, and attends to the slots that are taken."""

    def step(query, key, value, kv_cache, position):
        assert position.shape == query.shape[:1]
        n, outputs = query.shape[-2], []
        for b, start in enumerate(place(position).tolist()):
            held = []
            for room, new in zip(kv_cache, (key, value), strict=True):
                room[b, :, start : start + n] = new[b]
                held.append(room[b, :, : start + n] if cut else room[b])
            seen = torch.arange(held[0].shape[-2]) <= torch.arange(start, start + n)[:, None]
            outputs.append(attend(query[b], *held, seen))
        return torch.stack(outputs)

    return step


def of_the_first(position):
    return position[:1].expand_as(position)


def told_once(query, key, value, kv_cache, position):
    return told()(query, key, value, kv_cache, torch.full((len(query),), position))


def stepwise(end=lambda state: state):
    """The gated delta rule, (b, n, h, d), which hands on its state."""

    def step(query, key, value, g, beta, state=None):
        b, _, h, d = query.shape
        (state,) = state or (query.new_zeros(b, h, d, value.shape[-1]),)
        outputs = []
        steps = zip(*(x.unbind(1) for x in (query, key, value, g, beta)), strict=True)
        for q, k, v, decay, rate in steps:
            state = decay.exp()[..., None, None] * state
            error = v - (k[..., None, :] @ state).squeeze(-2)
            state = state + (rate[..., None] * k)[..., None] * error[..., None, :]
            outputs.append((q[..., None, :] @ state).squeeze(-2) * d**-0.5)
        return torch.stack(outputs, 1), (end(state),)

    return step


def windowing(seen=lambda far, window, n: far < window):
    def step(query, key, value, cache, window=None):
        if cache is not None:
            key, value = torch.cat([cache[0], key], -2), torch.cat([cache[1], value], -2)
        n = query.shape[-2]
        far = behind(query, key) + key.shape[-2] - n
        near = (far >= 0) & seen(far, window, n) if window else far >= 0
        return attend(query, key, value, near), (key, value)

    return step


CLAIMED = Verdict.NOT_CLAIMED
SOME = Verdict.CONVENTION
FAMILIES = {
    "window": Family(
        windowed(),
        "its own window: query i sees the keys from i - 3 to i",
        [
            Wrong(
                windowed(lambda behind, window: behind == behind),
                *("window_default", windows.SEES_BEYOND, {"window": 4}),
            ),
            Wrong(windowed(scale=1.0), "scale", scaling.BEHAVES, {"name": scaling.UNSCALED}),
            Wrong(optional(), "window_lengths", windows.NOT_NONE, {"name": "sliding_window"}),
            Wrong(of_size, "window_lengths", windows.NOTHING_LEFT, {"window": -1}, SOME),
        ],
    ),
    "window behind": Family(
        behind_alone(),
        "sliding_window is window",
        [Wrong(behind_alone(drops=True), "window_lengths", windows.DROPPED)],
    ),
    "chunks": Family(
        chunked(),
        "its own window: chunks of 4 positions",
        [Wrong(chunked(False), "alignment", causal.NEITHER)],
    ),
    "cosines": Family(
        of_unit(-1), "always causal", [Wrong(of_unit(-2), "key_permutation", symmetries.ORDER)]
    ),
    "features": Family(
        of_features(), "always causal", [Wrong(of_features(False), "row_sums", weights.OTHER_SUM)]
    ),
    "heads that share": Family(
        sharing(),
        "fewer key heads are shared without a flag",
        [Wrong(sharing(once=True), "grouped_queries", heads.ONE)],
    ),
    "sinks of heads that share": Family(
        turned_sinks(False),
        "sinks is sink",
        [Wrong(turned_sinks(True), "sink_share", sinks.OTHER, {"how": sinks.SHARED})],
    ),
    "sinks": Family(
        with_sinks(),
        "sinks is sink",
        [
            Wrong(with_sinks(lambda s, *_: s - math.inf), "sink_share", sinks.IGNORED),
            Wrong(with_sinks(lambda s, *_: s.clamp(min=1e-9).log()), "sink_share", sinks.NOT_EXP),
            Wrong(with_sinks(lambda s, q, *_: s * q.shape[-1] ** -0.5), "sink_share", sinks.SCALED),
            Wrong(with_sinks(lambda s, *_: s.flip(0)), "sink_share", sinks.OTHER_HEAD),
            Wrong(with_sinks(lambda s, *_: s + 1), "sink_share", sinks.OTHER, {"how": sinks.ALONE}),
            Wrong(
                with_sinks(lambda s, q, mask, causal: s + (mask is not None)),
                *("sink_share", sinks.OTHER, {"how": sinks.MASKED}),
            ),
            Wrong(
                with_sinks(lambda s, q, mask, causal: s + causal),
                *("sink_share", sinks.OTHER, {"how": sinks.CAUSAL}),
            ),
            Wrong(shares_after, "sink_share", sinks.OVERFLOWS, {"sink": 200.0}),
        ],
        {"names": {"sink": "sinks"}},
    ),
    "lengths of keys": Family(
        with_lengths(),
        "kv_lengths is key_lengths",
        [
            Wrong(with_lengths(lambda length: length + 1), "lengths_of_keys", key_lengths.BEYOND),
            Wrong(with_lengths(last=lambda *_: 0), "lengths_of_keys", key_lengths.FIRST),
            Wrong(
                with_lengths(last=lambda length, n, m: m - n), "lengths_of_keys", key_lengths.OTHER
            ),
        ],
        {"names": {"key_lengths": "kv_lengths"}},
    ),
    "padding": Family(
        padding(lambda b, m: (b, 1, 1, m)),
        "key_padding_mask is attn_mask, True = forbidden, (b, m)",
        [Wrong(padding(lambda b, m: (b, 1, m, 1)), "mask_polarity", masks.QUERIES)],
    ),
    "slopes": Family(
        sloped("alibi"),
        "a bias by distance, with the slopes of ALiBi",
        [
            *(
                Wrong(sloped(name), "slopes", distances.SLOPES, {"slopes": SERIES[name][0]})
                for name in ("one", "up", "zero")
            ),
            Wrong(some_slopes, "slopes", distances.ONE_SLOPE, {"heads": 12, "head": 9}),
            Wrong(sloped("alibi"), "convexity", examination.MORE_THAN_PRODUCTS, {}, CLAIMED),
        ],
    ),
    "bias": Family(
        biased(),
        "its own bias by distance",
        [Wrong(biased(False), "mask_polarity", masks.IGNORED)],
    ),
    "rotation": Family(
        turned(Rotary(True)),
        "its own rotary embedding, of pairs (i, i + d/2)",
        [
            Wrong(turned(Rotary(True), queries=False), "key_permutation", symmetries.ORDER),
            Wrong(turned(Rotary(True)), "rotary_pairs", distances.HALF, {}, SOME),
            Wrong(turned(Rotary(False)), "rotary_pairs", distances.NEIGHBOURS, {}, SOME),
            Wrong(turned(Rotary(True, 0.5)), "rotary_width", distances.OF_PART, {}, SOME),
            Wrong(turned(Rotary(True, 0.5, True)), "rotary_width", distances.OF_WHOLE, {}, SOME),
            Wrong(
                *(turned(Rotary(False)), "rotary_pairs", checker.UNMET, {"wanted": "half"}),
                settings={"demand": {"rotary": "half"}},
            ),
        ],
    ),
    "gates": Family(
        by_chunks,
        "a recurrence: the delta rule, with decay",
        [
            *(
                Wrong(gated(how), "oracle", weights.AS_IF, {"way": way})
                for way, how in WAYS.items()
            ),
            *(
                Wrong(gated(end=end), "gates", gates.OTHER, {"how": how})
                for how, end in {
                    gates.NOTHING: lambda g, beta: (g, beta.clamp(min=0.05)),
                    gates.STORED: lambda g, beta: (g, beta.clamp(max=0.95)),
                    gates.STEADY: lambda g, beta: (g.clamp(max=-0.005), beta),
                    gates.FORGETS: lambda g, beta: (g.clamp(min=-2.0), beta),
                    gates.PADDING: lambda g, beta: (torch.where(beta == 0, g - 1, g), beta),
                }.items()
            ),
            Wrong(own_length, "gates", gates.OTHER, {"how": gates.ZEROS}),
            Wrong(
                *(of_any_length, "silent_arguments", hygiene.SILENT, {"option": "use_qk_l2norm"}),
            ),
        ],
    ),
    "constants": Family(
        constant(),
        "a recurrence: the delta rule, with decay, with constants that its answers show",
        [
            Wrong(in_parts(constant(), 100), "oracle", weights.LONG_CAUSAL),
            Wrong(constant(most=4), "oracle", trial.UNCLEAR, {}, Verdict.NOT_ASKED),
        ],
    ),
    "beside another": Family(
        by_states,
        "always causal",
        [
            Wrong(
                *(in_parts(linear, 4), "oracle", weights.BORDER, {"border": 4}),
                settings={"layout": "bhnd"},
            ),
            Wrong(lambda q, k, v: 2 * linear(q, k, v), "oracle", weights.OTHER),
            Wrong(linear, "nan_behind_mask", examination.OF_BOTH, {}, CLAIMED),
            Wrong(linear, "scale", examination.NOT_OF_THIS, {}, CLAIMED),
            Wrong(
                *(linear, "oracle", trial.BESIDE_RAISED, {}, Verdict.NOT_ASKED),
                settings={"against": not_long},
            ),
        ],
        {"against": linear},
    ),
    "beside another, in other numbers": Family(
        sharing(),
        "",
        [
            Wrong(sharing(False), "oracle", weights.BESIDE, {"what": weights.FEWER}),
            Wrong(sharing(tiled=True), "oracle", weights.BESIDE, {"what": weights.SHARED}),
        ],
        {"against": sharing()},
    ),
    "demanded": Family(
        aligned(bottom_right=True),
        "",
        [Wrong(aligned(False), "alignment", checker.UNMET, {"wanted": "bottom-right"})],
        {"demand": {"alignment": "bottom-right"}},
    ),
    "stated": Family(
        lambda q, k, v: attend(q, k, v, scale=1 / q.shape[-1]),
        "the factor that is stated",
        [Wrong(attend, "scale", scaling.STATED, {"right": 1 / 64, "factor": 1 / 8})],
        {"scale": "lambda d: 1 / d"},
    ),
    "drawn": Family(
        tabled(),
        "",
        [Wrong(tabled(lambda table: table.mT), "oracle", weights.OTHER)],
        {"against": tabled(), "draw": {"table": "normal(h, n, m)"}},
    ),
    "scales of few bits": Family(
        descaled(),
        "",
        [
            Wrong(descaled(torch.ones_like), "descaling", scales.IGNORED),
            Wrong(descaled(lambda scale: scale.flatten()[0]), "descaling", scales.FIRST),
            Wrong(descaled(lambda scale: scale**2), "descaling", scales.OTHER),
        ],
    ),
    "bounded": Family(
        rounded(2),
        "approximate",
        [
            Wrong(rounded(2), "oracle", examination.ERRORS, {}, Verdict.PASS),
            Wrong(rounded(0), "oracle", examination.BEYOND, {"bound": 0.05}),
        ],
        {"approximate": True, "bound": 0.05},
    ),
    "differential": Family(
        different(),
        "less λ = 0.5",
        [
            Wrong(different(scale=True), "oracle", weights.OTHER),
            Wrong(different(leaking=True), "mask_polarity", masks.LEAK),
        ],
    ),
    "differential, in halves": Family(different(halves=True), "less λ = 0.3", []),
    "buckets": Family(
        buckets,
        "its own bias by distance",
        [Wrong(buckets_cut, "oracle", weights.LONG)],
    ),
    "switches": Family(
        switched(),
        "",
        [
            Wrong(switched(hides=True), "switches", branches.GRADIENTS),
            Wrong(switched(2.0), "switches", branches.FLIPPED, {"how": branches.PLAIN}),
            *(
                Wrong(switched(forgets=str(how)), "switches", branches.UNMASKED, {"how": how})
                for how in (branches.MASK, branches.CAUSAL)
            ),
        ],
    ),
    "modes": Family(
        Mode(),
        "",
        [
            Wrong(Mode(times=0.9), "same_in_training", branches.MODE, {"how": branches.PLAINLY}),
            Wrong(Mode(blind=0.9), "same_in_training", branches.MODE, {"how": branches.BLINDLY}),
        ],
    ),
    "absorbed": Family(
        Latent(),
        "judged as a whole",
        [Wrong(Latent(d=16), "absorbed_scale", absorbed.WIDER, {"wide": 16, "narrow": 8})],
    ),
    "packed": Family(
        packed(),
        "axes (Σ n, h, d)",
        [
            *(
                Wrong(packed(starts, stops), "borders", borders.NEIGHBOUR, {"side": side})
                for starts, stops, side in (
                    (-1, 0, borders.SIDE["before"]),
                    (0, 1, borders.SIDE["after"]),
                )
            ),
            Wrong(packed(1), "borders", borders.LOST, {"j": 0}),
            Wrong(packed(of_longest=True), "borders", borders.LONGER),
        ],
    ),
    "steps beside another": Family(
        stepwise(),
        "a decoding step with a cache; state is cache; axes (b, n, h, d)",
        [
            Wrong(stepwise(lambda state: 0.9 * state), "pieces", steps.CUT),
            Wrong(stepwise(lambda state: 0.9 * state), "oracle", weights.BORDER, {"border": 1}),
        ],
        {"cache": None, "against": gated()},
    ),
    "windows in steps": Family(
        windowing(),
        "a decoding step with a cache",
        [
            Wrong(
                windowing(lambda far, window, n: far < window + n - 1),
                *("pieces", steps.CUT_AS, {"how": steps.WINDOWED}),
            ),
            Wrong(windowing(lambda far, window, n: far >= 0), "window_width", windows.IGNORED),
        ],
        {"cache": None},
    ),
    "steps": Family(
        told(),
        "position is the number of positions before, (b,)",
        [
            Wrong(
                told(of_the_first),
                "samples_apart",
                steps.APART,
            ),
            Wrong(told_once, "samples_apart", steps.TOGETHER, {}, CLAIMED),
            Wrong(
                told(cut=False), "row_sums", weights.UNWRITTEN, settings={"cache": rooms(math.nan)}
            ),
        ],
        {"cache": rooms(0.0)},
    ),
}
# Where it is said that there is nothing of its kind.
NOTHING = [
    "gates",
    "absorbed_scale",
    "switches",
    "same_in_training",
    "slopes",
    "descaling",
    "borders",
]
WRONG = [
    pytest.param(wrong, family.settings | wrong.settings, id=f"{name}-{wrong.rule}-{number}")
    for name, family in FAMILIES.items()
    for number, wrong in enumerate(family.wrong)
]


@pytest.fixture(autouse=True)
def no_long_sequences(monkeypatch):
    """A loop over 8192 positions, asked of each smaller case too, would take minutes."""
    monkeypatch.setattr(gates, "_LONG", 300)


def ask(function, *rules, **settings):
    asked = check_steps if "cache" in settings else check
    return asked(function, only=rules or None, limit=None, **settings)


def plain(text):
    """Without what fills its places."""
    return text.english if isinstance(text, Text) else text


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_nothing_is_wrong_with_the_right_one(family):
    report = ask(family.right, **family.settings)
    assert family.read in report.read_as()
    assert report.passed(), report.text()


@pytest.mark.parametrize(("wrong", "settings"), WRONG)
def test_the_fault_is_named(wrong, settings):
    (result,) = ask(wrong.function, wrong.rule, **settings).results
    assert (result.verdict, result.finding.text) == (wrong.verdict, wrong.text), result.diagnosis()
    said = {name: plain(result.finding.values[name]) for name in wrong.said}
    assert said == pytest.approx({name: plain(each) for name, each in wrong.said.items()})
    for lang in LANGUAGES:
        assert "{" not in result.diagnosis(lang)


def test_a_state_of_half_precision_is_named_where_it_drifts(monkeypatch):
    """Its logarithms of decays are summed in bfloat16."""
    monkeypatch.setattr(gates, "_LONG", 1500)

    def attention(query, key, value, g):
        sums = g.clamp(min=-20.0).cumsum(-1)
        decays = (sums[..., None] - sums[..., None, :]).masked_fill(~past(query, key), -math.inf)
        return (query @ key.mT * query.shape[-1] ** -0.5 * decays.exp()) @ value

    (result,) = ask(attention, "gates").results
    assert (result.verdict, result.finding.text) == (Verdict.WRONG, gates.LONG)


def test_what_is_not_there_is_not_claimed():
    report = ask(attend, *NOTHING, supports=[])
    assert {each.finding.text for each in report.results} == {trial.NOTHING_SUCH}


def test_every_text_of_the_properties_is_said_of_some_function():
    """Those of steps are the matter of their own tests."""
    cases = [*test_mutants.CASES.values(), *(param.values[0] for param in WRONG)]
    found = [each.text for each in cases] + [text for *_, text in test_wholes.FOUND]
    found += [value for each in cases for value in each.said.values()]
    found += [trial.NOTHING_SUCH, trial.APART, gates.LONG]
    said = {each.english for each in found if isinstance(each, Text)}
    for idea in ideas._IDEAS:
        for place, value in vars(idea).items() if idea is not ideas.steps else ():
            for text in value.values() if isinstance(value, dict) else [value]:
                assert not isinstance(text, Text) or text.english in said, (idea, place)
