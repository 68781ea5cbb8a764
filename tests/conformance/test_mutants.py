"""Wrong implementations, one defect each: the property that names the defect catches it.

A mutant is a right implementation with one step replaced. For each the table has the property
that must fail, and the text that must tell why.
"""

import functools
import inspect
import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
import torch
from torch.nn.functional import dropout as dropped
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as fused

from attnref.conformance import PROPERTIES, Verdict, check, examination, explanations, trial
from attnref.conformance.checker import judge
from attnref.conformance.properties import (
    backward,
    causal,
    dropout,
    forbidden,
    half,
    heads,
    hygiene,
    lengths,
    masks,
    numerics,
    scaling,
    shapes,
    softcap,
    symmetries,
    together,
    weights,
    windows,
)
from attnref.conformance.reading import Reading
from attnref.conformance.settings import Settings
from attnref.conformance.subject import subject
from attnref.text import LANGUAGES


class Right:
    """Attention in steps, so that a mutant can replace one."""

    def __call__(
        self,
        query,
        key,
        value,
        attn_mask=None,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        enable_gqa=False,
        softcap=None,
        window=None,
    ):
        query, key, value = self.inputs(query, key, value)
        attn_mask, is_causal = self.asked(query, key, attn_mask, is_causal)
        if enable_gqa:
            group = query.shape[1] // key.shape[1]
            key, value = self.share(key, group), self.share(value, group)
        scores = self.scores(query, key, self.factor(query, scale))
        if softcap is not None:
            scores = self.cap(scores, softcap)
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool)
        if is_causal:
            allowed = self.past(*scores.shape[-2:])
        if window is not None:
            allowed = allowed & self.near(*scores.shape[-2:], window)
        if attn_mask is not None:
            scores, allowed = self.mask(scores, allowed, attn_mask)
        weights = self.weights(self.forbid(scores, allowed))
        if dropout_p:
            weights = self.drop(weights, dropout_p)
        return self.output(self.average(weights, value), query, key)

    def inputs(self, query, key, value):
        return query, key, value

    def asked(self, query, key, attn_mask, is_causal):
        return attn_mask, is_causal

    def share(self, tensor, group):
        return tensor.repeat_interleave(group, 1)

    def factor(self, query, scale):
        return query.shape[-1] ** -0.5 if scale is None else scale

    def scores(self, query, key, factor):
        return (query * factor) @ key.mT

    def cap(self, scores, softcap):
        return softcap * torch.tanh(scores / softcap)

    def past(self, n, m):
        return ones(n, m)

    def near(self, n, m, window):
        return ones(n, m) & ~ones(n, m, -window)

    def mask(self, scores, allowed, attn_mask):
        step = self.floats if is_float(attn_mask) else self.bools
        return step(scores, allowed, attn_mask)

    def bools(self, scores, allowed, attn_mask):
        return scores, allowed & attn_mask

    def floats(self, scores, allowed, attn_mask):
        return scores + attn_mask, allowed & (attn_mask != -math.inf)

    def forbid(self, scores, allowed):
        return scores.masked_fill(~allowed, -math.inf)

    def weights(self, scores):
        empty = (scores == -math.inf).all(-1, keepdim=True)
        return softmax(scores.masked_fill(empty, 0.0)).masked_fill(empty, 0.0)

    def drop(self, weights, p):
        return dropped(weights, p)

    def average(self, weights, value):
        return weights @ value

    def output(self, output, query, key):
        return output


def is_float(attn_mask):
    return attn_mask is not None and attn_mask.dtype != torch.bool


def ones(n, m, diagonal=0):
    return torch.ones(n, m, dtype=torch.bool).tril(diagonal)


def softmax(scores):
    return torch.softmax(scores, -1)


def mutant(**steps):
    """A right implementation with these steps replaced; they take no ``self``."""
    return type("Mutant", (Right,), {name: staticmethod(step) for name, step in steps.items()})()


def around(change):
    """A mutant that does something before or after a right implementation."""
    right = Right()

    def attention(query, key, value, **options):
        return change(right, query, key, value, **options)

    attention.__signature__ = inspect.signature(right)  # it takes them by name
    return attention


def raises(error, where):
    """A mutant that does so where that holds of query, key, mask and causality."""

    def asked(query, key, attn_mask, is_causal):
        if where(query, key, attn_mask, is_causal):
            raise error
        return attn_mask, is_causal

    return mutant(asked=asked)


class Case:
    """A mutant, or its steps, and what must be said of it: without a text, what holds."""

    def __init__(self, text, function=None, said=(), *, dtype="float32", mask_means=None, **steps):
        self.text, self.function, self.said = text, function or mutant(**steps), dict(said)
        self.settings = {"dtype": dtype, "mask_means": mask_means}
        levels = [level for level, texts in LEVELS.items() if text in texts]
        self.verdict = levels[0] if levels else Verdict.WRONG


LEVELS = {
    Verdict.PASS: [None, hygiene.GROWS, hygiene.UNASKED],
    Verdict.UNSAFE: [
        *(forbidden.NAN, forbidden.MEAN, forbidden.UNMASKED, forbidden.NOT_ZERO, forbidden.OTHERS),
        *(forbidden.NOT_FINITE, forbidden.NOT_STILL, forbidden.LEAKS, forbidden.CHANGES),
        *(forbidden.FORBIDS, forbidden.OVERFLOWS, together.BLIND, together.CRASHES),
        *(numerics.OUTDONE, numerics.TOUCHED, numerics.HIDDEN),
        *(scaling.ROOT, scaling.OVERFLOW, scaling.CAUSAL_SCALE, lengths.NO_KEYS),
        *(half.RAISES, half.TOO_LARGE, backward.MASK_CUT),
    ],
    Verdict.CONVENTION: [
        *(masks.AS_BOOL, masks.REFUSES, causal.KEYLESS, causal.TOP_LEFT, causal.BOTTOM_RIGHT),
        *(heads.TILED, shapes.SWAPPED, shapes.PAIR),
        *(windows.BESIDES, windows.EACH_SIDE, windows.NOTHING_LEFT),
    ],
    Verdict.NOT_CLAIMED: [
        *(symmetries.CAUSAL, lengths.CAUSAL, lengths.EMPTY_RAISES, backward.INFERENCE),
        *(forbidden.YES_OR_NO, forbidden.OF_THE_SINK, half.OTHER_DTYPE, half.NOT_TAKEN),
        *(scaling.OWN_FIXED, scaling.OWN_MULTIPLE, scaling.NOT_ADDED, scaling.NO_ORDER),
        *(masks.NUMBERS_ALONE, hygiene.TOO_SLOW, hygiene.UNMEASURED),
    ],
}


def scaled(factor):
    return mutant(factor=lambda q, scale: factor(q.shape[-1]) if scale is None else scale)


def positive(query, scale):
    if scale is not None and scale <= 0:
        raise ValueError("scale: expected a positive number")
    return Right().factor(query, scale)


def forbid_with(number):
    return mutant(forbid=lambda s, allowed: s.masked_fill(~allowed, number), weights=softmax)


def exponentials(scores):
    """A softmax that does not subtract the largest score."""
    powers = torch.exp(scores)
    return (powers / powers.sum(-1, keepdim=True)).nan_to_num(0.0)


def one_maximum(scores):
    powers = torch.exp(scores - scores.amax())
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-38)


def best_keys_only(scores):
    least = scores.topk(min(32, scores.shape[-1]), -1).values[..., -1:]
    return Right().weights(scores.masked_fill(scores < least, -math.inf))


class Remembers:
    """Keeps the keys of the call before among the new ones."""

    kept: ClassVar = {}

    def __call__(self, query, key, value):
        before = self.kept.get(key.shape, key)
        self.kept[key.shape] = key
        return Right()(query, 0.5 * (key + before), value)


class Buffer:
    """Returns the same tensor for each call of a shape."""

    kept: ClassVar = {}

    def __call__(self, query, key, value):
        output = Right()(query, key, value)
        return self.kept.setdefault((output.shape, output.dtype), output).copy_(output)


def keys_by(name):
    """A mutant that prepares keys once for each ``name`` that they go by.

    The keys given are held, too, so that no others ever lie at their address.
    """
    kept = {}

    def attention(query, key, value):
        _, prepared = kept.setdefault(name(key), (key, key.clone()))
        return Right()(query, prepared, value)

    return attention


def triangle_by_length():
    """A mutant that keeps its triangles by the number of queries alone."""
    kept = {}

    def past(n, m):
        triangle = kept.setdefault(n, ones(n, m))[:, :m]
        return torch.cat([triangle, torch.ones(n, m - triangle.shape[1], dtype=torch.bool)], 1)

    return mutant(past=past)


class Unsummed(torch.autograd.Function):
    """Adds a bias, and forgets the softmax's own correction in its gradient."""

    @staticmethod
    def forward(ctx, scores, bias):
        return scores + bias

    @staticmethod
    def backward(ctx, grad):
        return grad, 2 * grad.flatten(0, 1).sum(0)


class Detached(torch.autograd.Function):
    """A backward that forgets the softmax's own correction."""

    @staticmethod
    def forward(ctx, query, key, value):
        p = softmax(query @ key.mT * query.shape[-1] ** -0.5)
        ctx.save_for_backward(query, key, value, p)
        return p @ value

    @staticmethod
    def backward(ctx, grad):
        query, key, value, p = ctx.saved_tensors
        ds = p * (grad @ value.mT) * query.shape[-1] ** -0.5
        return ds @ key, ds.mT @ query, p.mT @ grad


class Once(torch.autograd.Function):
    """Right gradients, and no second ones."""

    @staticmethod
    def forward(ctx, query, key, value):
        ctx.save_for_backward(query, key, value)
        return Right()(query, key, value)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
        with torch.enable_grad():
            return torch.autograd.grad(Right()(*inputs), inputs, grad)


class HalfOnce(torch.autograd.Function):
    """The identity, whose gradient has none."""

    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.detach()


def wants_wide_masks(query, key, attn_mask, is_causal):
    if attn_mask is not None and query.dtype != torch.float32:
        torch.where(attn_mask, 0.0, -math.inf).to(query.device) @ key
    return attn_mask, is_causal


def as_contiguous(query, key, value):
    """Reads the memory as if it lay in order."""
    return [
        torch.as_strided(x, x.shape, torch.empty(x.shape).stride()) for x in (query, key, value)
    ]


def every_column(query, key, value):
    """Does so where the last dimension has steps."""
    given = query, key, value
    return given if query.stride(-1) == 1 else as_contiguous(*given)


def unexpanded(query, key, value):
    """Takes a head that serves all for another one."""
    expanded = key.stride(1) == 0 and key.shape[1] > 1
    return query, key, value.flip(-2) if expanded else value


def of_head_zero(query, key, value):
    return query, key[:, :1].expand_as(key) if key.shape[1] == query.shape[1] else key, value


def lengths_matter(query, key, value):
    """Scales the scores by the logarithm of the number of keys per query."""
    n, m = query.shape[-2], key.shape[-2]
    return query * math.log2(1 + m / max(1, n)), key, value


def one_query(query, key, value):
    """A decoding path that forgets the last key."""
    kept = slice(-1 if query.shape[-2] == 1 < key.shape[-2] else None)
    return query, key[..., kept, :], value[..., kept, :]


def last_block_dropped(query, key, value, size=64):
    """Blocks of keys; an incomplete one after others is forgotten."""
    kept = key.shape[-2] // size * size or key.shape[-2]
    return query, key[..., :kept, :], value[..., :kept, :]


def rows_without_keys(attn_mask):
    seen = attn_mask != -math.inf if is_float(attn_mask) else attn_mask
    return ~seen.any(-1, keepdim=True)


def spoils_other_rows(right, query, key, value, attn_mask=None, **options):
    output = right(query, key, value, attn_mask=attn_mask, **options)
    if attn_mask is None:
        return output
    return output.masked_fill(rows_without_keys(attn_mask).roll(1, -2), math.nan)  # a row too far


def empty_row(value_of):
    """A mutant that gives ``value_of`` to a row without keys."""

    def change(right, query, key, value, attn_mask=None, **options):
        output = right(query, key, value, attn_mask=attn_mask, **options)
        if attn_mask is None or "enable_gqa" in options:
            return output
        return torch.where(rows_without_keys(attn_mask), value_of(query, key, value), output)

    return around(change)


def counts_padding(right, query, key, value, attn_mask=None, **options):
    """Multiplies by the share of keys that are seen, whatever their number is."""
    output = right(query, key, value, attn_mask=attn_mask, **options)
    if attn_mask is None:
        return output
    seen = attn_mask != -math.inf if is_float(attn_mask) else attn_mask
    return output * (0.9 + 0.1 * seen.double().mean().to(output.dtype))


def mean_of_the_blind(right, query, key, value, attn_mask=None, is_causal=False, **options):
    output = right(query, key, value, attn_mask, is_causal=is_causal, **options)
    if not (is_causal and attn_mask is not None):
        return output
    blind = rows_without_keys(attn_mask.bool() & ones(query.shape[-2], key.shape[-2]))
    return torch.where(blind, value.mean(-2, keepdim=True), output)


def nothing_still(output, query, key):
    """Rows without keys give zeros, but by way of a difference that has a gradient."""
    drift = query.sum(-1, keepdim=True)
    return output + (drift - drift.detach())


def halved_at_large(output, query, key):
    return output / 2 if bool((query.abs() > 200).any()) else output


def ignores(*names):
    """A mutant that accepts these options and does not look at them."""

    def change(right, query, key, value, **options):
        kept = {name: value for name, value in options.items() if name not in names}
        return right(query, key, value, **kept)

    return around(change)


def ignores_beside(name, other):
    def change(right, query, key, value, **options):
        if other in options:
            options.pop(name, None)
        return right(query, key, value, **options)

    return around(change)


def forgets_when_shared(right, query, key, value, is_causal=False, enable_gqa=False, **options):
    causality = is_causal and not enable_gqa
    return right(query, key, value, is_causal=causality, enable_gqa=enable_gqa, **options)


def breaks_when_shared(right, query, key, value, is_causal=False, enable_gqa=False, **options):
    if is_causal and enable_gqa:
        key = key.view(query.shape)
    return right(query, key, value, is_causal=is_causal, enable_gqa=enable_gqa, **options)


class PostMask(Right):
    """Masks the weights after the softmax."""

    def forbid(self, scores, allowed):
        self.allowed = allowed
        return scores

    def weights(self, scores):
        return softmax(scores) * self.allowed


class CapsAfter(Right):
    """Keeps softcap in mind until the mask is on."""

    softcap = None

    def cap(self, scores, softcap):
        self.softcap = softcap
        return scores

    def weights(self, scores):
        softcap, self.softcap = self.softcap, None
        return super().weights(scores if softcap is None else super().cap(scores, softcap))


class CapsFloats(CapsAfter):
    """Caps finite numbers of a mask together with the scores."""

    def mask(self, scores, allowed, attn_mask):
        softcap, self.softcap = self.softcap, None
        scores, allowed = super().mask(scores, allowed, attn_mask)
        return scores if softcap is None else Right.cap(self, scores, softcap), allowed


class ForgetsFloats(Right):
    """Looks after rows without keys where a bool mask, but not where a float mask makes them."""

    def floats(self, scores, allowed, attn_mask):
        return scores + attn_mask, allowed

    def forbid(self, scores, allowed):
        self.empty = ~allowed.any(-1, keepdim=True)
        return super().forbid(scores, allowed)

    def weights(self, scores):
        return softmax(scores.masked_fill(self.empty, 0.0)).masked_fill(self.empty, 0.0)


def of_a_tail(seen):
    """A window that is right for as many queries as keys."""
    return lambda n, m, window: seen(n, m, window) if n < m else Right().near(n, m, window)


class ForgetsCausality(Right):
    """Its window has the own key in the middle, also where is_causal forbids what follows."""

    def near(self, n, m, window):
        i, j = torch.arange(n)[:, None], torch.arange(m)
        return (i - j).abs() <= window // 2

    def __call__(self, query, key, value, window=None, is_causal=False):
        is_causal = is_causal and window is None
        return super().__call__(query, key, value, window=window, is_causal=is_causal)


def joins(how):
    """A mutant that joins a bool mask and causality by something else than "and"."""

    def asked(query, key, attn_mask, is_causal):
        if attn_mask is None or is_float(attn_mask) or not is_causal:
            return attn_mask, is_causal
        return how(attn_mask, ones(query.shape[-2], key.shape[-2])), False

    return mutant(asked=asked)


def first_mask(query, key, attn_mask, is_causal):
    """Takes the mask of the first sample, if it has one head only, for all."""
    if attn_mask is not None and attn_mask.dim() == 4 and attn_mask.shape[1] < query.shape[1]:
        attn_mask = attn_mask[:1]
    return attn_mask, is_causal


def part_of_mask(part):
    """A mutant that takes ``part`` of a mask of more than two dimensions for the whole."""

    def asked(query, key, attn_mask, is_causal):
        whole = attn_mask is None or attn_mask.dim() < 3
        return attn_mask if whole else part(attn_mask), is_causal

    return mutant(asked=asked)


def masks_of_key_heads(query, key, attn_mask, is_causal):
    if attn_mask is not None and attn_mask.dim() == 4:
        group = query.shape[1] // key.shape[1]
        attn_mask = attn_mask[:, ::group].repeat_interleave(group, 1)
    return attn_mask, is_causal


def masks_by_axis(query, key, attn_mask, is_causal):
    """Takes the first axis of a mask for the samples where the sizes allow."""
    if attn_mask is not None and attn_mask.dim() < 4 and len(attn_mask) == len(query):
        attn_mask = attn_mask[:, None] if attn_mask.dim() == 3 else attn_mask[:, None, None]
    return attn_mask, is_causal


def triangle_of_the_mask(query, key, attn_mask, is_causal):
    if is_causal and attn_mask is not None:  # as ONNX's reference evaluator did
        attn_mask = attn_mask & ones(*attn_mask.shape[-2:])
    return attn_mask, is_causal


def forgets_left_padding(query, key, attn_mask, is_causal):
    if is_causal and attn_mask is not None and attn_mask.dim() == 4 and attn_mask.shape[1] == 1:
        attn_mask = attn_mask | ~attn_mask[..., :1]  # only what begins with a key is a mask
    return attn_mask, is_causal


def first_of_the_least(query, key, attn_mask, is_causal):
    """A row of least numbers sees its first key alone."""
    if is_float(attn_mask):
        least = attn_mask == torch.finfo(attn_mask.dtype).min
        attn_mask = attn_mask.masked_fill(least, -torch.inf)
        attn_mask[..., 0] = attn_mask[..., 0].masked_fill(least[..., 0], 0.0)
    return attn_mask, is_causal


def fills_mask(query, key, attn_mask, is_causal):
    """Writes the causal part into the caller's float mask."""
    if is_causal and is_float(attn_mask):
        attn_mask.masked_fill_(~ones(query.shape[-2], key.shape[-2]), -math.inf)
    return attn_mask, is_causal


def masks_first(query, key, value, is_causal=False, scale=None):
    """PyTorch's own trap: its -inf goes through the factor."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.mT
    if is_causal:
        scores = scores + torch.full_like(scores, -torch.inf).triu(1)
    return softmax(scores * scale) @ value


def with_sinks(module, query, key, value, attention_mask, scaling):
    scores = query @ key.mT * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    sinks = module.sinks.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return (torch.cat([scores, sinks], -1).softmax(-1)[..., :-1] @ value).transpose(1, 2), scores


def slow(query, key, value):
    end = time.process_time() + 0.15
    while time.process_time() < end:
        pass
    return Right()(query, key, value)


def in_a_thread(query, key, value):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(Right(), query, key, value).result()


def is_long(query, *_):
    return query.shape[-2] > 100


def online_without_rescale(query, key, value):
    """The sums so far stay as they are when a block of 32 keys raises the maximum."""
    scores = query @ key.mT * query.shape[-1] ** -0.5
    top, total = torch.full_like(scores[..., :1], -1e30), 0.0
    output = torch.zeros_like(query @ key.mT @ value)
    for part, values in zip(scores.split(32, -1), value.split(32, -2), strict=True):
        new = torch.maximum(top, part.amax(-1, keepdim=True))
        powers = torch.exp(part - new)
        total = total * torch.exp(top - new) + powers.sum(-1, keepdim=True)
        output = output + powers @ values
        top = new
    return output / total


def chunked_past(n, m):
    """Queries in chunks of 64; the triangle restarts in each."""
    i, j = torch.arange(n)[:, None], torch.arange(m)
    return (i // 64 >= j // 64) & (i % 64 + j // 64 * 64 >= j)


def without_the_last_of_a_block(n, m):
    i, j = torch.arange(n)[:, None], torch.arange(m)
    return (j <= i) & ~((i == j) & (i % 3 == 2))


def over_a_border(axis):
    """Sequences that lie behind each other; each also sees the keys of the one before it."""

    def attention(query, key, value):
        n, parts = query.shape[-2], query.shape[axis]
        q, k, v = (x.movedim(axis, 1).flatten(1, 2) for x in (query, key, value))
        owner = torch.arange(parts * n) // n
        before = owner[:, None] - owner
        output = Right()(q, k, v, attn_mask=(before == 0) | (before == 1))
        return output.unflatten(1, (parts, n)).movedim(1, axis)

    return attention


def dropped_for_all(*axes):
    """A mutant that draws once for all along these axes of (batch, heads, n, m)."""

    def drop(weights, p):
        shape = [1 if axis in axes else size for axis, size in enumerate(weights.shape)]
        return weights * (torch.rand(shape) >= p) / (1 - p)

    return mutant(drop=drop)


def dropped_alike(weights, p):
    kept = torch.rand(weights.shape, generator=torch.Generator().manual_seed(0)) >= p
    return weights * kept / (1 - p)


EMPTY = IndexError("amax(): Expected reduction dim -1 to have non-zero size")

CASES_OF = {
    "nan_seen": {
        "hides NaN": Case(numerics.HIDDEN, output=lambda o, *_: o.nan_to_num(0.0)),
        "hides NaN of values": Case(numerics.HIDDEN, average=lambda p, v: p @ v.nan_to_num(0.0)),
    },
    "half_precision": {
        "rounds in half precision": Case(
            half.ROUGH,
            output=lambda o, q, k: o if q.dtype == torch.float32 else (8 * o).round() / 8,
            said={"how": half.PLAIN},
        ),
        "has a mask of float32": Case(
            half.RAISES, asked=wants_wide_masks, said={"how": half.MASKED}
        ),
        "writes -1e9 for -inf": Case(
            half.TOO_LARGE,
            forbid=lambda s, allowed: s if allowed.all() else s.masked_fill(~allowed, -1e9),
            said={"how": half.MASKED},
        ),
        "scales its products": Case(scaling.OVERFLOW, scores=lambda q, k, f: q @ k.mT * f),
        "is asked in bfloat16": Case(half.OTHER_DTYPE, Right(), dtype="bfloat16"),
        "takes no half precision": Case(
            half.NOT_TAKEN,
            raises(
                TypeError("query: expected float32 or float64"), lambda q, *_: q.dtype.itemsize == 2
            ),
        ),
        "rounds under autocast": Case(
            half.ROUGH,
            output=lambda o, *_: o * (1.1 if torch.is_autocast_enabled("cpu") else 1.0),
            said={"how": half.AUTOCAST},
        ),
        "is causal in float32 alone": Case(
            half.ROUGH,
            asked=lambda q, k, mask, causal: (mask, causal and q.dtype == torch.float32),
            said={"how": half.CAUSAL},
        ),
    },
    "rescaling": {
        "clamps its queries": Case(
            symmetries.RESCALED, inputs=lambda q, k, v: (q.clamp(-99, 99), k, v)
        ),
    },
    "shape": {
        "returns nothing": Case(shapes.NOT_A_TENSOR, lambda q, k, v: None, {"kind": "NoneType"}),
        "drops the heads": Case(shapes.WRONG_SHAPE, lambda q, k, v: Right()(q, k, v)[:, 0]),
        "leaves heads behind positions": Case(
            shapes.SWAPPED, lambda q, k, v: Right()(q, k, v).transpose(1, 2), {"got": (2, 7, 3, 8)}
        ),
        "merges the heads": Case(
            shapes.MERGED, lambda q, k, v: Right()(q, k, v).transpose(1, 2).flatten(2)
        ),
        "returns its weights too": Case(
            shapes.PAIR, lambda q, k, v: (Right()(q, k, v), q @ k.mT), {"kind": "tuple", "count": 2}
        ),
    },
    "dtype": {
        "returns float32 for all": Case(
            shapes.WRONG_DTYPE, lambda q, k, v: Right()(q, k, v).float(), {"got": "float32"}
        ),
        "returns on another device": Case(
            trial.WRONG_DEVICE, lambda q, k, v: Right()(q, k, v).to("meta")
        ),
    },
    "row_sums": {
        "sees two empty slots": Case(
            weights.SLOTS,
            inputs=lambda q, k, v: (q, *(pad(x, (0, 0, 0, 2)) for x in (k, v))),
            said={"first": 2, "last": 2},
        ),
        "forgets the sum of the softmax": Case(weights.OTHER_SUM, weights=torch.exp),
        "answers NaN": Case(weights.NOT_FINITE, output=lambda o, *_: o * math.nan),
        **{
            f"softmax over the {name}": Case(
                weights.OTHER_AXIS,
                weights=functools.partial(torch.softmax, dim=axis),
                said={"axis": weights.AXES[axis]},
            )
            for name, axis in {"queries": -2, "heads": 1, "batch": 0}.items()
        },
    },
    "convexity": {
        "sees the keys of the sample before": Case(
            weights.FOREIGN, over_a_border(0), {"whose": weights.NEIGHBOURS[0]}
        ),
        "sees the keys of the head before": Case(
            weights.FOREIGN, over_a_border(1), {"whose": weights.NEIGHBOURS[1]}
        ),
        "squares the values": Case(weights.BESIDES, average=lambda p, v: p @ (v * v.abs())),
        "scores divided by their sum": Case(
            weights.OUTSIDE, weights=lambda s: s / s.sum(-1, keepdim=True)
        ),
    },
    "oracle": {
        "computes in bfloat16": Case(
            weights.OTHER, lambda q, k, v: Right()(*(x.bfloat16() for x in (q, k, v))).float()
        ),
        "computes in float32": Case(
            weights.OTHER,
            lambda q, k, v: Right()(*(x.float() for x in (q, k, v))).to(q.dtype),
            dtype="float64",
        ),
        "drops the last block": Case(weights.LONG, inputs=last_block_dropped, said={"n": 133}),
        "does not rescale the sums so far": Case(weights.LONG, online_without_rescale),
        "looks at 32 keys": Case(weights.LONG, weights=best_keys_only),
        "has eight heads": Case(
            weights.LONG,
            output=lambda o, *_: torch.cat([o[:, :8], o[:, : max(0, o.shape[1] - 8)]], 1),
            said={"heads": 9},
        ),
        "reads 64 columns": Case(
            weights.LONG, scores=lambda q, k, f: q[..., :64] * f @ k[..., :64].mT, said={"d_k": 69}
        ),
        "causal in chunks": Case(weights.LONG_CAUSAL, past=chunked_past),
        "declines long inputs": Case(
            None, raises(ValueError("query: expected at most 100 positions"), is_long)
        ),
        "declines to be causal": Case(
            None, raises(ValueError("is_causal: expected False"), lambda q, k, mask, causal: causal)
        ),
        "breaks on long inputs": Case(
            examination.RAISED, raises(RuntimeError("too long"), is_long)
        ),
        "has no memory for long inputs": Case(
            examination.OUT_OF_MEMORY, raises(MemoryError(), is_long)
        ),
    },
    "scale": {
        "divides by d_k": Case(
            scaling.BEHAVES,
            scaled(lambda d: 1 / d),
            {"name": "1/d_k", "factor": 1 / 64, "right": 0.125},
        ),
        "does not scale": Case(scaling.BEHAVES, scaled(lambda d: 1.0), {"name": scaling.UNSCALED}),
        "multiplies by sqrt(d_k)": Case(
            scaling.BEHAVES, scaled(lambda d: d**0.5), {"name": "sqrt(d_k)"}
        ),
        "takes the root of a factor below 0": Case(
            scaling.ROOT,
            scores=lambda q, k, f: q * torch.tensor(f).sqrt() @ (k * torch.tensor(f).sqrt()).mT,
            said={"asked": -0.3},
        ),
        "scales query and key by half": Case(
            scaling.BEHAVES, scaled(lambda d: d**-0.25), {"name": "d_k ** -0.25"}
        ),
        "divides by sqrt(n)": Case(
            scaling.BEHAVES,
            scores=lambda q, k, f: q @ k.mT * q.shape[-2] ** -0.5,
            said={"name": "1/sqrt(n = 5)"},
        ),
        "divides by the width of all heads": Case(
            scaling.BEHAVES,
            scores=lambda q, k, f: q @ k.mT * (q.shape[1] * q.shape[-1]) ** -0.5,
            said={"name": "1/sqrt((heads = 3) * d_k)"},
        ),
        "powers of 2": Case(
            scaling.BEHAVES,
            weights=lambda s: torch.softmax(s * math.log(2), -1),
            said={"name": "ln(2)/sqrt(d_k)"},
        ),
        "opposite sign": Case(
            scaling.BEHAVES, scaled(lambda d: -(d**-0.5)), {"name": "-1/sqrt(d_k)"}
        ),
        "a constant factor": Case(
            scaling.FIXED, scaled(lambda d: 0.0625 * 3), {"factor": 0.1875, "widths": [16, 64]}
        ),
        "the root of the width it was written for": Case(
            scaling.FIXED, scaled(lambda d: 8**-0.5), {"factor": 8**-0.5}
        ),
        "a constant factor that nobody can change": Case(
            scaling.OWN_FIXED, lambda q, k, v: Right()(q, k, v, scale=8**-0.5), {"factor": 8**-0.5}
        ),
        "the factor of YaRN": Case(
            scaling.OWN_MULTIPLE,
            lambda q, k, v: Right()(
                q, k, v, scale=(0.1 * math.log(8) + 1) ** 2 * q.shape[-1] ** -0.5
            ),
            {"factor": 1.459},
        ),
        "powers of 2 that are not undone": Case(
            scaling.BEHAVES,
            lambda q, k, v: Right()(q, k, v, scale=q.shape[-1] ** -0.5 / math.log(2)),
            {"name": "log2(e)/sqrt(d_k)"},
        ),
        "an odd factor": Case(scaling.BEHAVES_UNNAMED, scaled(lambda d: 3 / d), {"factor": 3 / 64}),
        "sigmoids for weights": Case(scaling.NO_FACTOR, weights=torch.sigmoid),
        "rectifies the scores": Case(scaling.NO_FACTOR, weights=torch.relu),
        "ignores scale": Case(
            scaling.IGNORED, factor=lambda q, scale: q.shape[-1] ** -0.5, said={"factor": 0.125}
        ),
        "scale on top": Case(
            scaling.ON_TOP,
            factor=lambda q, scale: q.shape[-1] ** -0.5 * (1.0 if scale is None else scale),
            said={"factor": 0.0375},
        ),
        "divides by scale": Case(
            scaling.DIVIDES,
            factor=lambda q, scale: 1 / (q.shape[-1] ** 0.5 if scale is None else scale),
            said={"factor": 1 / 0.3},
        ),
        "squares scale": Case(
            scaling.OTHER_FACTOR,
            factor=lambda q, scale: q.shape[-1] ** -0.5 if scale is None else scale**2,
            said={"factor": 0.09},
        ),
        "takes scale=0 for None": Case(
            scaling.IGNORED,
            factor=lambda q, scale: scale or q.shape[-1] ** -0.5,
            said={"asked": 0.0},
        ),
        "loses the sign of scale": Case(
            scaling.OTHER_FACTOR,
            factor=lambda q, scale: q.shape[-1] ** -0.5 if scale is None else abs(scale),
            said={"asked": -0.3, "factor": 0.3},
        ),
        "cuts scale at 1": Case(
            scaling.OTHER_FACTOR,
            factor=lambda q, scale: q.shape[-1] ** -0.5 if scale is None else min(scale, 1.0),
            said={"asked": 1.5, "factor": 1.0},
        ),
        "breaks on a scale of 0": Case(
            examination.RAISED,
            factor=lambda q, scale: 1 / (q.shape[-1] ** 0.5 if scale is None else 1 / scale),
        ),
        "declines a negative scale": Case(None, factor=positive),
    },
    "scaling_order": {
        "scales the mask too": Case(
            scaling.MASK_SCALED,
            floats=lambda s, allowed, mask: (s + mask / 4, allowed),
            said={"factor": 0.25},
        ),
        "multiplies its scores by the mask": Case(
            scaling.NOT_ADDED, mask=lambda s, allowed, mask: (s * mask, allowed)
        ),
        "has no use for the mask": Case(scaling.NOT_ADDED, ignores("attn_mask")),
        "scales after the product": Case(
            scaling.OVERFLOW, scores=lambda q, k, f: q @ k.mT * f, dtype="float16"
        ),
        "has no mask to scale": Case(
            scaling.NO_ORDER, lambda query, key, value: Right()(query, key, value)
        ),
    },
    "softcap_order": {
        "ignores softcap": Case(softcap.IGNORED, cap=lambda s, cap: s),
        "caps after the mask": Case(softcap.AFTER_MASK, CapsAfter()),
        "caps before it scales": Case(
            softcap.BEFORE_SCALE,
            cap=lambda s, cap: cap * torch.tanh(s * math.sqrt(8) / cap) / math.sqrt(8),
        ),
        "caps the float mask": Case(softcap.FLOATS, CapsFloats()),
        "clamps": Case(softcap.CLAMPS, cap=lambda s, cap: s.clamp(-cap, cap)),
        "forgets to multiply by softcap": Case(
            softcap.OTHER, cap=lambda s, cap: torch.tanh(s / cap)
        ),
    },
    "key_permutation": {
        "adds positions": Case(
            symmetries.ORDER,
            inputs=lambda q, k, v: (q, k + 0.1 * torch.arange(k.shape[-2])[:, None], v),
        ),
        "always causal": Case(symmetries.CAUSAL, lambda q, k, v: Right()(q, k, v, is_causal=True)),
    },
    "shift_invariance": {
        "scores as weights": Case(symmetries.SHIFT, weights=lambda s: s),
    },
    "value_linearity": {
        "bounds the values": Case(symmetries.NOT_LINEAR, average=lambda p, v: p @ torch.tanh(v)),
    },
    "batch_independence": {
        "first sample's keys for all": Case(
            symmetries.SAMPLE, inputs=lambda q, k, v: (q, k[:1].expand_as(k), v)
        ),
        "centres the scores over the batch": Case(
            symmetries.SAMPLE,
            scores=lambda q, k, f: q @ k.mT * f - (q @ k.mT * f).mean(0, keepdim=True),
        ),
    },
    "head_independence": {
        "first head's keys for all": Case(symmetries.HEAD, inputs=of_head_zero),
    },
    "mask_polarity": {
        "ignores attn_mask": Case(masks.IGNORED, mask=lambda s, allowed, mask: (s, allowed)),
        "True is forbidden": Case(
            masks.INVERTED,
            bools=lambda s, allowed, mask: (s, allowed & ~mask),
            floats=lambda s, allowed, mask: (s + mask, allowed),
        ),
        "adds bools": Case(masks.ADDED_BOOL, mask=lambda s, allowed, mask: (s + mask, allowed)),
        "transposes the mask": Case(
            masks.TRANSPOSED, mask=lambda s, allowed, mask: (s, allowed & mask.mT)
        ),
        "puts causality in the mask's place": Case(
            masks.CAUSAL_INSTEAD,
            mask=lambda s, allowed, mask: (s, allowed & ones(*s.shape[-2:])),
        ),
        "masks after the softmax": Case(masks.AFTER, PostMask()),
        "forbids with -10": Case(masks.LEAK, forbid_with(-10.0)),
        "keeps the highest key only": Case(
            masks.OTHER, mask=lambda s, allowed, mask: (2 * s, Right().mask(s, allowed, mask)[1])
        ),
        "breaks under a mask": Case(
            examination.RAISED,
            raises(IndexError("too many indices"), lambda q, k, mask, causal: mask is not None),
        ),
        "bools break, numbers do not": Case(
            masks.NUMBERS_ALONE,
            bools=lambda s, allowed, mask: torch.finfo(mask.dtype),
            mask_means="allowed",
        ),
    },
    "float_mask": {
        "float mask as yes and no": Case(
            masks.AS_BOOL, mask=lambda s, allowed, mask: (s, allowed & (mask != 0))
        ),
        "subtracts the mask": Case(
            masks.SUBTRACTED,
            mask=lambda s, allowed, mask: (s - mask, allowed & (mask != -math.inf)),
        ),
        "multiplies by the mask": Case(
            masks.NOT_ADDED,
            mask=lambda s, allowed, mask: (
                s * mask.masked_fill(mask == -math.inf, 0.0),
                allowed & (mask != -math.inf),
            ),
        ),
        "rounds the float mask": Case(
            masks.NOT_ADDED,
            floats=lambda s, allowed, mask: (s + mask.bfloat16(), allowed & (mask != -math.inf)),
        ),
    },
    "mask_broadcast": {
        "one sample's mask for all": Case(masks.BROADCAST, asked=first_mask),
        "first head's mask for all": Case(
            masks.EACH, part_of_mask(lambda mask: mask[..., :1, :, :])
        ),
        "first sample's full mask for all": Case(
            masks.EACH, part_of_mask(lambda mask: mask[:1] if mask.dim() == 4 else mask)
        ),
        "takes the first axis of a mask for the samples": Case(
            masks.BROADCAST, asked=masks_by_axis
        ),
    },
    "mask_with_causal": {
        "causal wins over a float mask": Case(
            masks.FLOATS_CAUSAL_ONLY,
            asked=lambda q, k, mask, causal: (None if is_float(mask) and causal else mask, causal),
        ),
        "a float mask wins over causal": Case(
            masks.FLOATS_MASK_ONLY,
            asked=lambda q, k, mask, causal: (mask, causal and (not is_float(mask))),
        ),
        "causal wins over the mask": Case(
            masks.CAUSAL_ONLY, asked=lambda q, k, mask, causal: (None if causal else mask, causal)
        ),
        "mask wins over causal": Case(
            masks.MASK_ONLY, asked=lambda q, k, mask, causal: (mask, causal and mask is None)
        ),
        "mask or causal": Case(masks.EITHER, joins(torch.bitwise_or)),
        "mask xor causal": Case(masks.OTHER, joins(torch.bitwise_xor)),
        "takes no float mask": Case(
            None,
            raises(
                TypeError("attn_mask: expected bool"), lambda q, k, mask, causal: is_float(mask)
            ),
        ),
        "breaks on a float mask with causal": Case(
            examination.RAISED,
            raises(
                IndexError("too many indices"), lambda q, k, mask, causal: causal and is_float(mask)
            ),
        ),
        "adds the float mask twice beside causal": Case(
            masks.OTHER,
            asked=lambda q, k, mask, causal: (
                2 * mask if causal and is_float(mask) else mask,
                causal,
            ),
        ),
        "declines numbers beside causality": Case(
            None,
            raises(
                ValueError("attn_mask: expected bool beside is_causal"),
                lambda q, k, mask, causal: causal and is_float(mask),
            ),
        ),
        "refuses mask with causal": Case(
            masks.REFUSES,
            raises(
                ValueError("attn_mask: expected None with is_causal"),
                lambda q, k, mask, causal: causal and mask is not None,
            ),
        ),
    },
    "grouped_queries": {
        "takes no mask for each head": Case(
            None,
            raises(
                ValueError("attn_mask: expected two axes"),
                lambda q, k, mask, causal: mask is not None and mask.ndim > 2,
            ),
        ),
        "tiles the key heads": Case(heads.TILED, share=lambda x, group: x.repeat(1, group, 1, 1)),
        "first key head for all": Case(
            heads.OTHER, share=lambda x, group: x[:, :1].expand(-1, group * x.shape[1], -1, -1)
        ),
        "masks of the key heads": Case(heads.MASKED, asked=masks_of_key_heads),
    },
    "options_together": {
        "forgets the mask of one query": Case(
            together.OTHER_LENGTHS,
            asked=lambda q, k, mask, causal: (mask if q.shape[-2] == k.shape[-2] else None, causal),
        ),
        "forgets the causality of shared heads": Case(
            together.TOGETHER, around(forgets_when_shared)
        ),
        "breaks where causal heads share their keys": Case(
            together.CRASHES, around(breaks_when_shared)
        ),
        "reads a mask of keys as its first row": Case(
            together.TOGETHER, asked=triangle_of_the_mask
        ),
        "adds a number for each mask": Case(
            together.TWICE,
            mask=lambda s, allowed, mask: (s + torch.where(mask, 0.0, -1e4), allowed),
            forbid=lambda s, allowed: s + torch.where(allowed, 0.0, -1e4),
        ),
        "pads on the left with the mean": Case(together.BLIND, around(mean_of_the_blind)),
        "forgets the padding on the left": Case(together.PADDED, asked=forgets_left_padding),
    },
    "lowest_mask": {
        "has a sink, which takes the weight of a row of least numbers": Case(
            forbidden.OF_THE_SINK, with_sinks
        ),
        "the least number as a yes": Case(
            forbidden.YES_OR_NO, mask=lambda s, allowed, mask: (s, allowed & (mask != 0))
        ),
        "forbids by the least number": Case(
            forbidden.FORBIDS,
            floats=lambda s, allowed, mask: (s, allowed & (mask != torch.finfo(mask.dtype).min)),
        ),
        "adds the least number twice": Case(
            forbidden.OVERFLOWS,
            floats=lambda s, allowed, mask: (s + mask + mask, allowed),
            weights=softmax,
        ),
        "clamps the float mask of a row": Case(forbidden.NOT_THE_MEAN, asked=first_of_the_least),
    },
    "other_sizes": {
        "loses the end of a long row": Case(
            together.SIZES,
            inputs=lambda *given: last_block_dropped(*given, size=256),
            said={"m": 1100},
        ),
    },
    "single_token": {
        "one key for several queries": Case(
            lengths.ONE_KEY,
            output=lambda o, q, k: o * (2 if k.shape[-2] == 1 < q.shape[-2] else 1),
            said={"n": 2},
        ),
        "halves a single key": Case(
            lengths.ONE_KEY, output=lambda o, q, k: o / 2 if k.shape[-2] == 1 else o
        ),
        "forgets a key in decoding": Case(lengths.ONE_QUERY, inputs=one_query),
        "forgets the mask in decoding": Case(
            lengths.ONE_MASKED,
            asked=lambda q, k, mask, causal: (mask if q.shape[-2] > 1 else None, causal),
        ),
    },
    "very_negative_scores": {
        "declines causality, low scores": Case(
            None, raises(ValueError("is_causal: expected False"), lambda q, k, mask, causal: causal)
        ),
        "no maximum subtracted": Case(numerics.VANISHED, weights=exponentials),
        "forbids with -10000": Case(numerics.OUTDONE, forbid_with(-1e4)),
        "forbids with -1e9": Case(numerics.OUTDONE, forbid_with(-1e9)),
        "gives forbidden keys a little": Case(
            numerics.TOUCHED, weights=lambda s: softmax(s).nan_to_num(0.0).clamp(min=2e-09)
        ),
        "is causal by -1e9": Case(
            numerics.OUTDONE,
            lambda q, k, v: forbid_with(-1e9)(q, k, v, is_causal=True),
            {"option": numerics.CAUSAL_MASK},
        ),
        "subtracts one maximum from all": Case(numerics.VANISHED, weights=one_maximum),
        "returns ones": Case(numerics.NEITHER, lambda query, key, value: torch.ones_like(value)),
        "halves where scores are low": Case(numerics.OTHER, output=halved_at_large),
    },
    "rectangular": {
        "always causal, other lengths": Case(
            lengths.CAUSAL, lambda q, k, v: Right()(q, k, v, is_causal=True)
        ),
        "the ratio of lengths matters": Case(lengths.ROWS, inputs=lengths_matter),
    },
    "padding_amount": {
        "counts the padding": Case(masks.PADDING, around(counts_padding)),
    },
    "causality": {
        "ignores is_causal": Case(causal.IGNORED, ignores("is_causal")),
        "sees one key ahead": Case(causal.FUTURE, past=lambda n, m: ones(n, m, 1)),
        "sees the future alone": Case(causal.FUTURE, past=lambda n, m: ~ones(n, m, -1)),
        "causal after the softmax": Case(causal.MOVED, PostMask()),
    },
    "own_token": {
        "strictly causal": Case(causal.STRICT, past=lambda n, m: ones(n, m, -1)),
        "loses its own key at the end of a block": Case(
            causal.SOME_STRICT, past=without_the_last_of_a_block, said={"i": 2, "count": 1}
        ),
        "strictly causal, with NaN for the query that has no key": Case(
            causal.STRICT, past=lambda n, m: ones(n, m, -1), weights=softmax
        ),
        "forgets the first key": Case(
            causal.PAST, past=lambda n, m: ones(n, m) & ((torch.arange(m) > 0) | ~ones(n, 1, -1))
        ),
    },
    "alignment": {
        "top-left": Case(causal.TOP_LEFT, Right()),
        "bottom-right": Case(causal.BOTTOM_RIGHT, past=lambda n, m: ones(n, m, m - n)),
        "aligned in between": Case(causal.NEITHER, past=lambda n, m: ones(n, m, (m - n) // 2)),
        "keeps its triangle by n": Case(causal.NEITHER, triangle_by_length()),
        "NaN where bottom-right leaves no key": Case(
            causal.KEYLESS, past=lambda n, m: ones(n, m, m - n), weights=softmax
        ),
        "aligned both ways": Case(causal.MIXED, past=lambda n, m: ones(n, m, max(0, m - n))),
    },
    "window_width": {
        "a window besides": Case(
            windows.BESIDES, near=lambda n, m, w: ones(n, m) & ~ones(n, m, -w - 1)
        ),
        "a window on each side": Case(
            windows.EACH_SIDE, near=lambda n, m, w: ones(n, m, w) & ~ones(n, m, -w - 1)
        ),
        "ignores window": Case(windows.IGNORED, ignores("window")),
        "a window one too narrow": Case(
            windows.OTHER, near=lambda n, m, w: ones(n, m) & ~ones(n, m, -w + 1)
        ),
        "a window that forgets causality": Case(windows.CAUSAL, ForgetsCausality()),
    },
    "window_lengths": {
        "a window of none": Case(windows.NOTHING_LEFT, Right()),
        **{
            name: Case(text, near=of_a_tail(seen))
            for name, text, seen in (
                ("drops the window of a tail", windows.DROPPED, lambda n, m, w: ones(n, m, m)),
                (
                    *("drops it, but for causality", windows.DROPPED_PAST),
                    lambda n, m, w: ones(n, m, m - n),
                ),
                (
                    *("counts it from the first query", windows.LOCAL),
                    lambda n, m, w: ones(n, m, m - n) & ~ones(n, m, -w),
                ),
                (
                    *("sees a key too many in a tail", windows.ODD_TAIL),
                    lambda n, m, w: ones(n, m, m - n) & ~ones(n, m, m - n - w - 1),
                ),
            )
        },
    },
    "fully_masked": {
        "0/0 without keys": Case(forbidden.NAN, weights=softmax, said={"kind": forbidden.BOOL}),
        "0/0 without keys, float mask": Case(
            forbidden.NAN, ForgetsFloats(), {"kind": forbidden.FLOAT}
        ),
        "the largest negative number": Case(
            forbidden.MEAN, forbid_with(torch.finfo(torch.float32).min)
        ),
        "no mask without keys": Case(forbidden.UNMASKED, empty_row(Right())),
        "ones without keys": Case(
            forbidden.NOT_ZERO, empty_row(lambda q, k, v: torch.ones_like(q))
        ),
        "spoils the row above": Case(forbidden.OTHERS, around(spoils_other_rows)),
    },
    "fully_masked_gradient": {
        "hides NaN behind zeros": Case(
            forbidden.NOT_FINITE,
            forbid=lambda s, allowed: s + torch.where(allowed, 0.0, -math.inf),
            weights=lambda s: softmax(s).nan_to_num(0.0),
        ),
        "a gradient without keys": Case(forbidden.NOT_STILL, output=nothing_still),
    },
    "nan_behind_mask": {
        "NaN leaks": Case(forbidden.LEAKS, Right()),
        "takes a row with NaN for an empty one": Case(
            forbidden.CHANGES, output=lambda o, *_: o.nan_to_num(0.0)
        ),
    },
    "large_scores": {
        "exponential overflows": Case(numerics.OVERFLOW, weights=exponentials),
        "returns ones for large scores too": Case(
            numerics.NEITHER, lambda query, key, value: torch.ones_like(value)
        ),
        "clamps the scores": Case(
            numerics.CLAMPED, weights=lambda s: exponentials(s.clamp(-50, 50))
        ),
        "halves where scores are high": Case(numerics.OTHER, output=halved_at_large),
    },
    "dropout_off": {
        "drops in evaluation": Case(
            dropout.STILL_ON,
            around(
                lambda right, q, k, v, dropout_p=None, **o: right(
                    q, k, v, dropout_p=0.0 if dropout_p is None else dropout_p or 0.1, **o
                )
            ),
        ),
    },
    "dropout_scale": {
        "ignores dropout_p": Case(dropout.OFF, ignores("dropout_p")),
        "drops the output": Case(
            dropout.ON_OUTPUT,
            around(
                lambda right, q, k, v, dropout_p=0.0, **o: dropped(right(q, k, v, **o), dropout_p)
            ),
        ),
        "p is the share to keep": Case(
            dropout.SHARE, drop=lambda w, p: dropped(w, 1 - p) * (p / (1 - p)), said={"p": 0.25}
        ),
        "does not rescale": Case(
            dropout.KEPT,
            drop=lambda w, p: dropped(w, p) * (1 - p),
            said={"least": 1.0, "right": 4 / 3},
        ),
        "draws once": Case(dropout.REPEATED, drop=dropped_alike, said={"where": dropout.AXES[0]}),
        **{
            f"draws once {where}": Case(dropout.REPEATED, dropped_for_all(axis), {"where": where})
            for axis, where in enumerate(dropout.AXES[1:])
        },
    },
    "value_width": {
        "scales by d_v": Case(
            lengths.WIDTH,
            around(
                lambda right, q, k, v, **o: right(q, k, v, **{"scale": v.shape[-1] ** -0.5} | o)
            ),
        ),
    },
    "empty": {
        "NaN without keys": Case(
            lengths.NO_KEYS, output=lambda o, q, k: o if k.shape[-2] else o + math.nan
        ),
        **{
            f"raises without {name}": Case(
                lengths.EMPTY_RAISES, raises(EMPTY, nothing), {"what": what}
            )
            for name, what, nothing in (
                ("samples", lengths.NO_SAMPLES, lambda q, *_: not q.shape[0]),
                ("queries", lengths.NO_QUERIES, lambda q, *_: not q.shape[-2]),
                ("keys", lengths.NOTHING, lambda q, k, *_: not k.shape[-2]),
            )
        },
    },
    "gradients": {
        "cuts the gradient": Case(
            backward.NONE, lambda q, k, v: Right()(q.detach(), k, v), {"name": "query"}
        ),
        "for inference": Case(backward.INFERENCE, lambda q, k, v: Right()(q, k, v).detach()),
        "cuts the keys' gradient": Case(
            backward.NONE, lambda q, k, v: Right()(q, k.detach(), v), {"name": "key"}
        ),
        "a backward without the row sum": Case(
            backward.OTHER, lambda q, k, v: Detached.apply(q, k, v)
        ),
        "cuts the gradient under a mask": Case(
            backward.NONE,
            lambda q, k, v, attn_mask=None: Right()(
                q, k, v if attn_mask is None else v.detach(), attn_mask
            ),
            {"name": "value"},
        ),
    },
    "gradient_penalty": {
        "loses a gradient penalty": Case(
            backward.LOST, lambda q, k, v: Once.apply(q, k, v), {"name": "query"}
        ),
        "penalty lost beside a mask": Case(
            backward.LOST,
            around(
                lambda right, *tensors, attn_mask=None, **options: right(
                    *(map(HalfOnce.apply, tensors) if attn_mask is not None else tensors),
                    attn_mask=attn_mask,
                )
            ),
        ),
        "loses half of a gradient penalty": Case(
            backward.OTHER_SECOND, lambda q, k, v: Right()(q, k, HalfOnce.apply(v))
        ),
    },
    "mask_gradient": {
        "learns no bias": Case(
            backward.MASK_CUT,
            asked=lambda q, k, mask, causal: (mask if mask is None else mask.detach(), causal),
        ),
        "doubles the gradient of the mask": Case(
            backward.OTHER,
            floats=lambda s, allowed, mask: (Unsummed.apply(s, mask), allowed),
            said={"name": "attn_mask"},
        ),
        "has no gradient for a mask either": Case(
            backward.INFERENCE, output=lambda o, *_: o.detach()
        ),
    },
    "silent_arguments": {
        "drops nothing beside a mask": Case(
            hygiene.SILENT_BESIDE,
            ignores_beside("dropout_p", "attn_mask"),
            {"option": "dropout_p", "other": "attn_mask"},
        ),
        "has parameters that nobody knows": Case(
            hygiene.UNASKED,
            lambda query, key, value, page_size=None, output_attentions=False: Right()(
                query, key, value
            ),
            {"names": "page_size, output_attentions"},
        ),
        "swallows softcap": Case(hygiene.SILENT, ignores("softcap")),
        "swallows scale with a mask": Case(
            hygiene.SILENT_BESIDE,
            ignores_beside("scale", "attn_mask"),
            {"option": "scale", "other": "attn_mask"},
        ),
    },
    "causal_scale": {
        "masks before it scales": Case(scaling.CAUSAL_SCALE, masks_first, {"asked": 0.0}),
    },
    "inputs_unchanged": {
        "scales in place": Case(
            hygiene.CHANGED,
            lambda q, k, v: Right()(q.mul_(q.shape[-1] ** -0.5), k, v, scale=1.0),
            {"name": "query"},
        ),
        "writes causality into the mask": Case(
            hygiene.CHANGED, asked=fills_mask, said={"name": "attn_mask"}
        ),
    },
    "strided": {
        "reads memory in order": Case(
            hygiene.STRIDES, inputs=as_contiguous, said={"how": hygiene.TRANSPOSED}
        ),
        "reads every column": Case(
            hygiene.STRIDES, inputs=every_column, said={"how": hygiene.SLICED}
        ),
        "misreads an expanded head": Case(
            hygiene.STRIDES, inputs=unexpanded, said={"how": hygiene.EXPANDED}
        ),
    },
    "determinism": {
        "remembers the last call": Case(hygiene.DIFFERS, Remembers()),
        "keeps its keys by shape": Case(hygiene.REMEMBERED, keys_by(lambda key: key.shape)),
        "keeps its keys by address": Case(
            hygiene.REMEMBERED, keys_by(lambda key: (key.data_ptr(), key.shape))
        ),
        "drops at random": Case(hygiene.DIFFERS, output=lambda o, *_: dropped(o, 0.1)),
        "returns its buffer": Case(hygiene.OVERWRITTEN, Buffer()),
    },
    "memory_growth": {
        "holds all weights": Case(hygiene.GROWS, Right(), {"kind": hygiene.QUADRATIC}),
        "a block at a time": Case(
            hygiene.GROWS,
            lambda q, k, v: torch.cat([fused(part, k, v) for part in q.split(8, -2)], -2),
            {"kind": hygiene.LINEAR},
        ),
        "too slow to measure": Case(hygiene.TOO_SLOW, slow),
        "computes in a thread": Case(hygiene.UNMEASURED, in_a_thread, {"error": hygiene.UNSEEN}),
        "too long to measure": Case(hygiene.UNMEASURED, raises(RuntimeError("too long"), is_long)),
    },
}


RULES = {name: rule for rule, cases in CASES_OF.items() for name in cases}
CASES = {name: case for cases in CASES_OF.values() for name, case in cases.items()}


def asked(name, *rules, **settings):
    """What is said of a mutant, at least by the property that names it."""
    return check(CASES[name].function, only=rules or [RULES[name]], limit=None, **settings).results


@pytest.mark.claim("checker-names-the-defect")
@pytest.mark.parametrize("name", CASES)
def test_the_property_that_names_the_defect_catches_it(name):
    case = CASES[name]
    (result,) = asked(name, **case.settings)
    assert result.verdict is case.verdict, result.diagnosis()
    text = case.text or PROPERTIES[RULES[name]].statement
    assert result.finding.text == text, result.diagnosis()
    for key, value in case.said.items():
        found = result.finding.values[key]
        assert found == (pytest.approx(value, rel=0.02) if isinstance(value, float) else value)
    for lang in LANGUAGES:
        assert "{" not in result.diagnosis(lang)
    if case.verdict is Verdict.WRONG:
        assert result.counterexample is not None
        assert len(result.details("en")) > 4


FAILURES = {
    "divides by d_k": {"oracle", "scale", "gradients"},
    "strictly causal": {
        *("own_token", "alignment", "mask_with_causal"),
        *("very_negative_scores", "window_width"),  # they look at is_causal too
    },
    "True is forbidden": {
        *("mask_polarity", "mask_with_causal", "fully_masked"),
        *("fully_masked_gradient", "very_negative_scores", "softcap_order"),
    },
    "rounds the float mask": {"float_mask", "lowest_mask"},
    "no mask without keys": {"fully_masked", "fully_masked_gradient"},
    "does not rescale": {"dropout_scale"},
    "forgets a key in decoding": {"single_token", "other_sizes"},
    "the ratio of lengths matters": {"rectangular", "single_token", "other_sizes"},
    "scales by d_v": {"value_width"},
    "clamps": {"softcap_order"},
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_has_nothing_to_do_with_the_defect_passes(name):
    # All of them leak, hide NaN behind a query, or overflow in float16.
    results = asked(name, *set(PROPERTIES) - {"memory_growth", "nan_behind_mask", "half_precision"})
    bad = [each for each in results if each.verdict in (Verdict.WRONG, Verdict.UNSAFE)]
    assert {result.property for result in bad} == FAILURES[name]


def test_the_call_that_is_shown_is_the_one_that_is_spoken_of():
    """It has the option, the weight, and the size; a factor of another call names that call."""
    for name, option in (("scales the mask too", "attn_mask"), ("swallows softcap", "softcap")):
        assert option in asked(name)[0].counterexample.arguments

    (result,) = asked("sees one key ahead", seed=3)
    shown, values = result.counterexample.arguments, result.finding.values
    query, key = torch.tensor(shown["query"]), torch.tensor(shown["key"])
    seen = mutant(past=lambda n, m: ones(n, m, 1), average=lambda weights, value: weights)
    found = seen(query, key, key, is_causal=True)[..., values["i"], values["j"]].max()
    assert float(found) == pytest.approx(values["weight"])

    for name in ("does not scale", "an odd factor", "ignores scale", "scale on top"):
        (result,) = asked(name)
        width = torch.tensor(result.counterexample.arguments["query"]).shape[-1]
        assert result.finding.values["d_k"] == 64 != width, name
        assert "{d_k}" in CASES[name].text.english


def test_what_always_answers_nan_does_not_differ_from_itself():
    itself = {
        *("determinism", "strided", "batch_independence", "head_independence", "causality"),
        *("key_permutation", "rectangular", "value_linearity", "own_token", "alignment"),
    }
    report = check(CASES["answers NaN"].function, only=["row_sums", "oracle", *itself], limit=None)
    assert {each.property for each in report.failures} == {"row_sums", "oracle"}
    assert [each.property for each in report.causes] == ["row_sums"]


def test_the_query_that_is_named_is_one_that_fits_no_alignment():
    (result,) = asked("loses its own key at the end of a block", "alignment")
    assert (result.finding.values["i"], result.finding.values["keys"]) == (2, [0, 1])


def test_a_right_scale_is_told_apart_from_what_else_is_wrong():
    def unnormalised(given):
        def attention(query, key, value, scale=None):
            output = Right()(query, key, value, scale=scale)
            return output if given and scale is None else 2 * output

        return attention

    for given in (False, True):
        assert check(unnormalised(given), only=["scale"], limit=None).passed()


def test_a_known_way_to_be_wrong_is_named(subtests):
    for way, function in explanations.WAYS.items():
        with subtests.test(str(way)):
            # Read as PyTorch's function is: one that is always causal could be recognised as that.
            about, said = subject(function), Reading(complete=True)
            settings = Settings(only=["oracle"], limit=None)
            (result,) = judge(about, settings, said).results
            assert result.verdict is Verdict.WRONG
            assert result.finding.text == weights.AS_IF
            assert result.finding.values["way"] == way
            assert way.say("pt") in result.diagnosis("pt")


def test_an_output_on_another_device_breaks_no_property():
    report = check(CASES["returns on another device"].function, limit=None)
    assert len(report.results) == len(PROPERTIES)
    assert {result.finding.text for result in report.failures} == {trial.WRONG_DEVICE}
