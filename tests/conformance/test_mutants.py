"""Wrong implementations, one defect each: the property that names the defect catches it.

A mutant is a right implementation with one step replaced. For each the table has the property
that must fail, and the text that must tell why; together they produce every text that there is.
"""

import inspect
import math
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
import torch

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
from attnref.conformance.subject import subject
from attnref.text import LANGUAGES, Text


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
        return self.output(self.average(weights, value), query)

    def share(self, tensor, group):
        return tensor.repeat_interleave(group, 1)

    def factor(self, query, scale):
        return query.shape[-1] ** -0.5 if scale is None else scale

    def scores(self, query, key, factor):
        return (query * factor) @ key.mT

    def cap(self, scores, softcap):
        return softcap * torch.tanh(scores / softcap)

    def past(self, n, m):
        return torch.ones(n, m, dtype=torch.bool).tril()

    def near(self, n, m, window):
        i, j = torch.arange(n)[:, None], torch.arange(m)
        return (j <= i) & (j > i - window)

    def mask(self, scores, allowed, attn_mask):
        if attn_mask.dtype == torch.bool:
            return scores, allowed & attn_mask
        return scores + attn_mask, allowed & (attn_mask != -math.inf)

    def forbid(self, scores, allowed):
        return scores.masked_fill(~allowed, -math.inf)

    def weights(self, scores):
        empty = (scores == -math.inf).all(-1, keepdim=True)
        return torch.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)

    def drop(self, weights, p):
        return torch.nn.functional.dropout(weights, p)

    def average(self, weights, value):
        return weights @ value

    def output(self, output, query):
        return output


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


def without_own_token(query, key, value, is_causal=False):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    if is_causal:
        n, m = scores.shape[-2:]
        scores = scores.masked_fill(~ones(n, m, -1), -math.inf)
    return torch.softmax(scores, -1) @ value


class Case:
    """A mutant, and what must be said of it, at the level of that text unless another is given."""

    def __init__(
        self, function, rule, text, *, verdict=None, dtype="float32", mask_means=None, **values
    ):
        self.function, self.rule, self.text = function, rule, text
        self.verdict = verdict or LEVELS.get(text, Verdict.WRONG)
        self.dtype, self.mask_means, self.values = dtype, mask_means, values


LEVELS = {
    **dict.fromkeys(
        [
            *(forbidden.NAN, forbidden.MEAN, forbidden.UNMASKED, forbidden.NOT_ZERO),
            *(
                together.BLIND,
                forbidden.OTHERS,
                forbidden.NOT_FINITE,
                forbidden.NOT_STILL,
                forbidden.LEAKS,
                forbidden.CHANGES,
            ),
            *(forbidden.FORBIDS, forbidden.OVERFLOWS, numerics.VANISHED, numerics.OUTDONE),
            *(numerics.TOUCHED, scaling.ROOT),
            *(numerics.OVERFLOW, scaling.OVERFLOW, scaling.CAUSAL_SCALE, lengths.NO_KEYS),
            *(together.BLIND, together.CRASHES),
            *(half.RAISES, half.TOO_LARGE, numerics.HIDDEN, backward.MASK_CUT),
        ],
        Verdict.UNSAFE,
    ),
    **dict.fromkeys([masks.AS_BOOL, causal.KEYLESS, heads.TILED], Verdict.CONVENTION),
    **dict.fromkeys(
        [
            *(symmetries.CAUSAL, lengths.CAUSAL, forbidden.YES_OR_NO, backward.INFERENCE),
            forbidden.OF_THE_SINK,
            *(half.OTHER_DTYPE, half.NOT_TAKEN),
        ],
        Verdict.NOT_CLAIMED,
    ),
}


def ones(n, m, diagonal=0):
    return torch.ones(n, m, dtype=torch.bool).tril(diagonal)


def scaled(factor):
    return mutant(factor=lambda query, scale: factor(query.shape[-1]) if scale is None else scale)


def forbid_with(number):
    return mutant(
        forbid=lambda scores, allowed: scores.masked_fill(~allowed, number),
        weights=lambda scores: torch.softmax(scores, -1),
    )


def rooted(query, key, value, scale=None):
    root = torch.tensor(query.shape[-1] ** -0.5 if scale is None else scale).sqrt()
    return torch.softmax((query * root) @ (key * root).mT, -1) @ value


def causal_by_a_number(query, key, value):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    future = ~ones(*scores.shape[-2:])
    return torch.softmax(scores.masked_fill(future, -1e9), -1) @ value


def softmax(scores):
    return torch.softmax(scores, -1)


def exponentials(scores):
    """A softmax that does not subtract the largest score."""
    powers = torch.exp(scores)
    return (powers / powers.sum(-1, keepdim=True)).nan_to_num(0.0)


class Remembers:
    """Keeps the keys of the call before among the new ones."""

    kept: ClassVar = {}

    def __call__(self, query, key, value):
        before = self.kept.get(key.shape, key)
        self.kept[key.shape] = key
        return Right()(query, 0.5 * (key + before), value)


class Unsummed(torch.autograd.Function):
    """Adds a bias, and forgets the softmax's own correction in its gradient."""

    @staticmethod
    def forward(ctx, scores, bias):
        ctx.save_for_backward(scores)
        return scores + bias

    @staticmethod
    def backward(ctx, grad):
        return grad, 2 * grad.flatten(0, 1).sum(0)


def rounds_in_half(right, query, key, value, **options):
    """As a table of exponentials of few entries does."""
    output = right(query, key, value, **options)
    return output if query.dtype == torch.float32 else (output * 8).round() / 8


def wants_wide_masks(right, query, key, value, attn_mask=None, **options):
    if attn_mask is not None and query.dtype != torch.float32:
        torch.where(attn_mask, 0.0, -math.inf).to(query.device) @ value
    return right(query, key, value, attn_mask=attn_mask, **options)


def full_only(right, query, key, value, **options):
    if query.dtype in (torch.bfloat16, torch.float16):
        raise TypeError("query: expected float32 or float64")
    return right(query, key, value, **options)


class Detached(torch.autograd.Function):
    """A backward that forgets the softmax's own correction."""

    @staticmethod
    def forward(ctx, query, key, value):
        p = torch.softmax(query @ key.mT * query.shape[-1] ** -0.5, -1)
        ctx.save_for_backward(query, key, value, p)
        return p @ value

    @staticmethod
    def backward(ctx, grad):
        query, key, value, p = ctx.saved_tensors
        ds = p * (grad @ value.mT) * query.shape[-1] ** -0.5
        return ds @ key, ds.mT @ query, p.mT @ grad


def in_place(query, key, value):
    query *= query.shape[-1] ** -0.5
    return torch.softmax(query @ key.mT, -1) @ value


def as_contiguous(query, key, value):
    """Reads the memory as if it lay in order."""
    query, key, value = (
        torch.as_strided(x, x.shape, torch.empty(x.shape).stride()) for x in (query, key, value)
    )
    return Right()(query, key, value)


def every_column(query, key, value):
    """Does so where the last dimension has steps."""
    if query.stride(-1) == 1:
        return Right()(query, key, value)
    return as_contiguous(query, key, value)


def unexpanded(query, key, value):
    """Takes a head that serves all for another one."""
    if key.stride(1) == 0 and key.shape[1] > 1:
        value = value.flip(-2)
    return Right()(query, key, value)


def spoils_other_rows(right, query, key, value, attn_mask=None, **options):
    output = right(query, key, value, attn_mask=attn_mask, **options)
    if attn_mask is None:
        return output
    seen = attn_mask if attn_mask.dtype == torch.bool else attn_mask != -math.inf
    empty = ~seen.any(-1)  # a row too far
    return output.masked_fill(empty.roll(1, -1)[..., None], math.nan)


def empty_row(value_of):
    """A mutant that gives ``value_of`` to a row without keys."""

    def change(right, query, key, value, attn_mask=None, **options):
        output = right(query, key, value, attn_mask=attn_mask, **options)
        if attn_mask is None or "enable_gqa" in options:
            return output
        seen = attn_mask if attn_mask.dtype == torch.bool else attn_mask != -math.inf
        empty = ~seen.any(-1, keepdim=True)
        return torch.where(empty, value_of(query, key, value), output)

    return around(change)


def both(right, query, key, value, attn_mask=None, is_causal=False, keep="attn_mask", **options):
    """With attn_mask and is_causal it keeps one of them."""
    if attn_mask is not None and is_causal:
        options |= {"attn_mask": attn_mask} if keep == "attn_mask" else {"is_causal": True}
        return right(query, key, value, **options)
    return right(query, key, value, attn_mask=attn_mask, is_causal=is_causal, **options)


def causal_only(right, query, key, value, **options):
    return both(right, query, key, value, keep="is_causal", **options)


def either(right, query, key, value, attn_mask=None, is_causal=False, **options):
    if attn_mask is not None and is_causal and attn_mask.dtype == torch.bool:
        attn_mask, is_causal = attn_mask | ones(query.shape[-2], key.shape[-2]), False
    return right(query, key, value, attn_mask=attn_mask, is_causal=is_causal, **options)


def xor(right, query, key, value, attn_mask=None, is_causal=False, **options):
    if attn_mask is not None and is_causal and attn_mask.dtype == torch.bool:
        attn_mask, is_causal = attn_mask ^ ones(query.shape[-2], key.shape[-2]), False
    return right(query, key, value, attn_mask=attn_mask, is_causal=is_causal, **options)


def refuses(right, query, key, value, attn_mask=None, is_causal=False, **options):
    if attn_mask is not None and is_causal:
        raise ValueError("attn_mask: expected None with is_causal")
    return right(query, key, value, attn_mask=attn_mask, is_causal=is_causal, **options)


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


def post_mask(scores_weights):
    """Masks the weights after the softmax, by ``scores_weights``."""

    class After(Right):
        def forbid(self, scores, allowed):
            self.allowed = allowed
            return scores

        def weights(self, scores):
            return scores_weights(torch.softmax(scores, -1), self.allowed)

    return After()


class CapsAfter(Right):
    """Keeps softcap in mind until the mask is on."""

    softcap = None

    def cap(self, scores, softcap):
        self.softcap = softcap
        return scores

    def weights(self, scores):
        softcap, self.softcap = self.softcap, None
        return super().weights(scores if softcap is None else super().cap(scores, softcap))


class ForgetsFloats(Right):
    """Looks after rows without keys where a bool mask, but not where a float mask makes them."""

    def mask(self, scores, allowed, attn_mask):
        if attn_mask.dtype == torch.bool:
            return scores, allowed & attn_mask
        return scores + attn_mask, allowed

    def forbid(self, scores, allowed):
        self.empty = ~allowed.any(-1, keepdim=True)
        return super().forbid(scores, allowed)

    def weights(self, scores):
        return softmax(scores.masked_fill(self.empty, 0.0)).masked_fill(self.empty, 0.0)


class ForgetsCausality(Right):
    """Its window has the own key in the middle, also where is_causal forbids what follows."""

    def near(self, n, m, window):
        i, j = torch.arange(n)[:, None], torch.arange(m)
        return (i - j).abs() <= window // 2

    def __call__(self, query, key, value, window=None, is_causal=False):
        is_causal = is_causal and window is None
        return super().__call__(query, key, value, window=window, is_causal=is_causal)


def of_head_zero(right, query, key, value, **options):
    key = key[:, :1].expand_as(key) if key.shape[1] == query.shape[1] else key
    return right(query, key, value, **options)


def widths(right, query, key, value, **options):
    """Takes the values' width for the keys'."""
    if "scale" not in options:
        options["scale"] = value.shape[-1] ** -0.5
    return right(query, key, value, **options)


def lengths_matter(right, query, key, value, **options):
    """Scales the scores by the logarithm of the number of keys per query."""
    n, m = query.shape[-2], key.shape[-2]
    factor = math.log(1 + m / max(1, n)) / math.log(2)
    return right(query * factor, key, value, **options)


def one_query(right, query, key, value, **options):
    """A decoding path that forgets the last key."""
    if query.shape[-2] == 1 < key.shape[-2]:
        key, value = key[..., :-1, :], value[..., :-1, :]
    return right(query, key, value, **options)


def one_key(right, query, key, value, **options):
    """The bias of a softmax that always has a key more, of score 0 and value 0."""
    output = right(query, key, value, **options)
    return output / 2 if key.shape[-2] == 1 else output


def no_keys(right, query, key, value, **options):
    output = right(query, key, value, **options)
    return output if key.shape[-2] else output + math.nan


def raises_without(size):
    """A mutant that raises where ``size`` of query and key is 0."""

    def change(right, query, key, value, **options):
        if not size(query, key):
            raise IndexError("amax(): Expected reduction dim -1 to have non-zero size")
        return right(query, key, value, **options)

    return around(change)


def counts_padding(right, query, key, value, attn_mask=None, **options):
    """Multiplies by the share of keys that are seen, whatever their number is."""
    output = right(query, key, value, attn_mask=attn_mask, **options)
    if attn_mask is None:
        return output
    seen = attn_mask if attn_mask.dtype == torch.bool else attn_mask != -math.inf
    return output * (0.9 + 0.1 * seen.double().mean().to(output.dtype))


def first_mask(right, query, key, value, attn_mask=None, **options):
    """Takes the mask of the first sample, if it has one head only, for all."""
    if attn_mask is not None and attn_mask.dim() == 4 and attn_mask.shape[1] < query.shape[1]:
        attn_mask = attn_mask[:1]
    return right(query, key, value, attn_mask=attn_mask, **options)


def keyless(right, query, key, value, is_causal=False, **options):
    """Aligned bottom-right, with NaN where that leaves no key."""
    n, m = query.shape[-2], key.shape[-2]
    if not is_causal:
        return right(query, key, value, **options)
    scores = query @ key.mT * query.shape[-1] ** -0.5
    return torch.softmax(scores.masked_fill(~ones(n, m, m - n), -math.inf), -1) @ value


def undecided(n, m):
    return ones(n, m, max(0, m - n))


def slow(query, key, value):
    import time

    end = time.process_time() + 0.15
    while time.process_time() < end:
        pass
    return Right()(query, key, value)


def blockwise(query, key, value):
    """Eight queries at a time."""
    parts = [Right()(part, key, value) for part in query.split(8, -2)]
    return torch.cat(parts, -2)


def in_a_thread(query, key, value):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(Right(), query, key, value).result()


def long_ones_fail(query, key, value):
    if query.shape[-2] > 100:
        raise RuntimeError("too long")
    return Right()(query, key, value)


def long_ones_take_all_memory(query, key, value):
    if query.shape[-2] > 100:
        raise MemoryError
    return Right()(query, key, value)


def nothing_still(right, query, key, value, attn_mask=None, **options):
    """Rows without keys give zeros, but by way of a difference that has a gradient."""
    output = right(query, key, value, attn_mask=attn_mask, **options)
    drift = query.sum(-1, keepdim=True)
    return output + (drift - drift.detach())


def last_block_dropped(right, query, key, value, **options):
    """Blocks of 64 keys; an incomplete one after others is forgotten."""
    m = key.shape[-2]
    kept = m - m % 64 if m > 64 else m
    return right(query, key[..., :kept, :], value[..., :kept, :], **options)


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


def best_keys_only(scores):
    least = scores.topk(min(32, scores.shape[-1]), -1).values[..., -1:]
    return Right().weights(scores.masked_fill(scores < least, -math.inf))


def chunked_past(n, m):
    """Queries in chunks of 64; the triangle restarts in each."""
    i, j = torch.arange(n)[:, None], torch.arange(m)
    return (i // 64 >= j // 64) & (i % 64 + j // 64 * 64 >= j)


def eight_heads(right, query, key, value, **options):
    output = right(query, key, value, **options)
    return torch.cat([output[:, :8], output[:, : max(0, output.shape[1] - 8)]], 1)


def part_of_mask(part):
    """A mutant that takes ``part`` of a mask of more than two dimensions for the whole."""
    return around(
        lambda right, q, k, v, attn_mask=None, **options: right(
            q,
            k,
            v,
            attn_mask=part(attn_mask)
            if attn_mask is not None and attn_mask.dim() >= 3
            else attn_mask,
            **options,
        )
    )


def unmasked_alone(right, query, key, value, attn_mask=None, **options):
    """A decoding path that forgets the mask."""
    return right(query, key, value, attn_mask if query.shape[-2] > 1 else None, **options)


def masks_of_key_heads(right, query, key, value, attn_mask=None, enable_gqa=False):
    if enable_gqa and attn_mask is not None and attn_mask.dim() == 4:
        group = query.shape[1] // key.shape[1]
        attn_mask = attn_mask[:, ::group].repeat_interleave(group, 1)
    return right(query, key, value, attn_mask, enable_gqa=enable_gqa)


def beside_floats(keep):
    """A mutant that beside a float mask keeps one of the two."""

    def change(right, query, key, value, attn_mask=None, is_causal=False, **options):
        floats = attn_mask is not None and attn_mask.dtype != torch.bool
        change = both if floats else Right.__call__
        options |= {"keep": keep} if floats else {}
        return change(right, query, key, value, attn_mask=attn_mask, is_causal=is_causal, **options)

    return around(change)


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


def least_is_forbidden(query, key, value, attn_mask=None):
    """As programs do that multiply the mask by log2(e) before they look for -inf."""
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        attn_mask = attn_mask != torch.finfo(attn_mask.dtype).min
    return Right()(query, key, value, attn_mask)


def adds_twice(query, key, value, attn_mask=None):
    """The least number and a score overflow, and a row of -inf alone has no softmax."""
    if attn_mask is None or attn_mask.dtype == torch.bool:
        return Right()(query, key, value, attn_mask)
    scores = query @ key.mT * query.shape[-1] ** -0.5
    return torch.softmax(scores + attn_mask + attn_mask, -1) @ value


def first_of_the_least(query, key, value, attn_mask=None):
    """A row of least numbers sees its first key alone."""
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        least = attn_mask == torch.finfo(attn_mask.dtype).min
        attn_mask = attn_mask.masked_fill(least, -torch.inf)
        attn_mask[..., 0] = attn_mask[..., 0].masked_fill(least[..., 0], 0.0)
    return Right()(query, key, value, attn_mask)


def masks_first(query, key, value, is_causal=False, scale=None):
    """PyTorch's own trap: its -inf goes through the factor."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.mT
    if is_causal:
        scores = scores + torch.full_like(scores, -torch.inf).triu(1)
    return torch.softmax(scores * scale, -1) @ value


def gradient_cut_by_mask(query, key, value, attn_mask=None):
    return Right()(query, key, value if attn_mask is None else value.detach(), attn_mask)


def positive(query, scale):
    if scale is not None and scale <= 0:
        raise ValueError("scale: expected a positive number")
    return Right().factor(query, scale)


def fills_mask(query, key, value, attn_mask=None, is_causal=False):
    """Writes the causal part into the caller's float mask."""
    if is_causal and attn_mask is not None and attn_mask.dtype != torch.bool:
        attn_mask.masked_fill_(~ones(query.shape[-2], key.shape[-2]), -math.inf)
    return Right()(query, key, value, attn_mask, is_causal=is_causal)


def halved_at_large(output, query):
    return output / 2 if bool((query.abs() > 200).any()) else output


def triangle_by_length(kept):
    """A mutant that keeps its triangles by the number of queries alone."""

    def past(n, m):
        triangle = kept.setdefault(n, ones(n, m))[:, :m]
        return torch.cat([triangle, torch.ones(n, m - triangle.shape[1], dtype=torch.bool)], 1)

    return mutant(past=past)


def keys_by(name):
    """A mutant that prepares keys once for each ``name`` that they go by.

    The keys given are held, too, so that no others ever lie at their address.
    """
    kept = {}

    def attention(query, key, value):
        _, prepared = kept.setdefault(name(key), (key, key.clone()))
        return Right()(query, prepared, value)

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


def masks_by_axis(right, query, key, value, attn_mask=None, **options):
    """Takes the first axis of a mask for the samples where the sizes allow."""
    if attn_mask is not None and attn_mask.dim() < 4 and len(attn_mask) == len(query):
        attn_mask = attn_mask[:, None] if attn_mask.dim() == 3 else attn_mask[:, None, None]
    return right(query, key, value, attn_mask=attn_mask, **options)


def bools_only(right, query, key, value, attn_mask=None, **options):
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        raise TypeError("attn_mask: expected bool")
    return right(query, key, value, attn_mask=attn_mask, **options)


def adds_alone(query, key, value, attn_mask=None):
    if attn_mask is not None:
        least = torch.finfo(attn_mask.dtype).min  # bools have none
        attn_mask = attn_mask.masked_fill(attn_mask < least, -math.inf)
    return Right()(query, key, value, attn_mask)


def forgets_for_fewer(right, query, key, value, attn_mask=None, **options):
    same = query.shape[-2] == key.shape[-2]
    return right(query, key, value, attn_mask if same else None, **options)


def forgets_when_shared(right, query, key, value, is_causal=False, enable_gqa=False, **options):
    causality = is_causal and not enable_gqa
    return right(query, key, value, is_causal=causality, enable_gqa=enable_gqa, **options)


def triangle_of_the_mask(right, query, key, value, attn_mask=None, is_causal=False, **options):
    if is_causal and attn_mask is not None:  # as ONNX's reference evaluator did
        attn_mask = attn_mask & ones(attn_mask.shape[-2], attn_mask.shape[-1])
    return right(query, key, value, attn_mask, is_causal=is_causal, **options)


def mean_of_the_blind(right, query, key, value, attn_mask=None, is_causal=False, **options):
    output = right(query, key, value, attn_mask, is_causal=is_causal, **options)
    if not (is_causal and attn_mask is not None):
        return output
    past = ones(query.shape[-2], key.shape[-2])
    blind = ~(attn_mask.bool() & past).any(-1, keepdim=True)
    return torch.where(blind, value.mean(-2, keepdim=True), output)


def forgets_left_padding(right, query, key, value, attn_mask=None, is_causal=False, **options):
    if is_causal and attn_mask is not None and attn_mask.dim() == 4 and attn_mask.shape[1] == 1:
        attn_mask = attn_mask | ~attn_mask[..., :1]  # only what begins with a key is a mask
    return right(query, key, value, attn_mask, is_causal=is_causal, **options)


def loses_the_end(right, query, key, value, **options):
    whole = key.shape[-2] // 256 * 256 or key.shape[-2]
    return right(query, key[..., :whole, :], value[..., :whole, :], **options)


def doubles_one_key(right, query, key, value, **options):
    lone = key.shape[-2] == 1 < query.shape[-2]
    return right(query, key, value, **options) * (2 if lone else 1)


def declines_floats(right, query, key, value, attn_mask=None, is_causal=False, **options):
    if attn_mask is not None and attn_mask.dtype != torch.bool and is_causal:
        raise ValueError("attn_mask: expected bool beside is_causal")
    return right(query, key, value, attn_mask, is_causal=is_causal, **options)


def always_causal(query, key, value):
    return Right()(query, key, value, is_causal=True)


def breaks_on_floats(right, query, key, value, attn_mask=None, is_causal=False, **options):
    if attn_mask is not None and attn_mask.dtype != torch.bool and is_causal:
        raise IndexError("too many indices")
    return right(query, key, value, attn_mask=attn_mask, is_causal=is_causal, **options)


def floats_twice(right, query, key, value, attn_mask=None, is_causal=False, **options):
    if attn_mask is not None and attn_mask.dtype != torch.bool and is_causal:
        attn_mask = 2 * attn_mask
    return right(query, key, value, attn_mask=attn_mask, is_causal=is_causal, **options)


def one_mask_for_all_heads(query, key, value, attn_mask=None, enable_gqa=False):
    if attn_mask is not None and attn_mask.ndim > 2:
        raise ValueError("attn_mask: expected two axes")
    return Right()(query, key, value, attn_mask=attn_mask, enable_gqa=enable_gqa)


def breaks(query, key, value, attn_mask=None):
    if attn_mask is not None:
        raise IndexError("too many indices")
    return Right()(query, key, value)


def never_causal(right, query, key, value, is_causal=False, **options):
    if is_causal:
        raise ValueError("is_causal: expected False")
    return right(query, key, value, **options)


class CapsFloats(CapsAfter):
    """Caps finite numbers of a mask together with the scores."""

    def mask(self, scores, allowed, attn_mask):
        softcap, self.softcap = self.softcap, None
        scores, allowed = super().mask(scores, allowed, attn_mask)
        return scores if softcap is None else Right.cap(self, scores, softcap), allowed


def one_maximum(scores):
    powers = torch.exp(scores - scores.amax())
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-38)


class Buffer:
    """Returns the same tensor for each call of a shape."""

    kept: ClassVar = {}

    def __call__(self, query, key, value):
        output = Right()(query, key, value)
        return self.kept.setdefault((output.shape, output.dtype), output).copy_(output)


def with_sinks(module, query, key, value, attention_mask, scaling):
    scores = query @ key.mT * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    sinks = module.sinks.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return (torch.cat([scores, sinks], -1).softmax(-1)[..., :-1] @ value).transpose(1, 2), scores


def breaks_when_shared(right, query, key, value, is_causal=False, enable_gqa=False, **options):
    if is_causal and enable_gqa:
        key = key.view(query.shape)
    return right(query, key, value, is_causal=is_causal, enable_gqa=enable_gqa, **options)


def refuses_length(right, query, key, value, **options):
    if query.shape[-2] > 100:
        raise ValueError("query: expected at most 100 positions")
    return right(query, key, value, **options)


def over_a_border(axis):
    """Sequences that lie behind each other; each also sees the keys of the one before it."""

    def attention(query, key, value):
        n, parts = query.shape[-2], query.shape[axis]
        other = 1 - axis
        q, k, v = (x.movedim(axis, 1).flatten(1, 2) for x in (query, key, value))
        owner = torch.arange(parts * n) // n
        before = owner[:, None] - owner
        seen = (before == 0) | (before == 1)
        output = Right()(q, k, v, attn_mask=seen).unflatten(1, (parts, n))
        assert output.shape[0] == query.shape[other]
        return output.movedim(1, axis)

    return attention


def without_the_last_of_a_block(n, m):
    i, j = torch.arange(n)[:, None], torch.arange(m)
    return (j <= i) & ~((i == j) & (i % 3 == 2))


def with_unknown_parameters(query, key, value, sinks=None, output_attentions=False):
    return Right()(query, key, value)


DROPPED = torch.nn.functional.dropout

MODULES = (
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

CASES = {
    # precision
    "hides NaN": Case(
        mutant(output=lambda output, query: output.nan_to_num(0.0)),
        "nan_seen",
        numerics.HIDDEN,
    ),
    "hides NaN of values": Case(
        mutant(average=lambda weights, value: weights @ value.nan_to_num(0.0)),
        "nan_seen",
        numerics.HIDDEN,
    ),
    "rounds in half precision": Case(
        around(rounds_in_half), "half_precision", half.ROUGH, dtype="float32", how=half.PLAIN
    ),
    "has a mask of float32": Case(
        around(wants_wide_masks), "half_precision", half.RAISES, how=half.MASKED
    ),
    "writes -1e9 for -inf": Case(
        mutant(
            forbid=lambda scores, allowed: (
                scores if allowed.all() else scores.masked_fill(~allowed, -1e9)
            )
        ),
        "half_precision",
        half.TOO_LARGE,
        how=half.MASKED,
    ),
    "scales its products": Case(
        mutant(scores=lambda query, key, factor: query @ key.mT * factor),
        "half_precision",
        scaling.OVERFLOW,
    ),
    "is asked in bfloat16": Case(Right(), "half_precision", half.OTHER_DTYPE, dtype="bfloat16"),
    "takes no half precision": Case(around(full_only), "half_precision", half.NOT_TAKEN),
    "rounds under autocast": Case(
        around(
            lambda right, *tensors, **options: (
                right(*tensors, **options) * (1.1 if torch.is_autocast_enabled("cpu") else 1.0)
            )
        ),
        "half_precision",
        half.ROUGH,
        how=half.AUTOCAST,
    ),
    "is causal in float32 alone": Case(
        around(
            lambda right, query, *others, is_causal=False, **options: right(
                query, *others, is_causal=is_causal and query.dtype == torch.float32, **options
            )
        ),
        "half_precision",
        half.ROUGH,
        how=half.CAUSAL,
    ),
    "clamps its queries": Case(
        around(lambda right, query, *others, **options: right(query.clamp(-99, 99), *others)),
        "rescaling",
        symmetries.RESCALED,
    ),
    # shapes
    "returns nothing": Case(lambda q, k, v: None, "shape", shapes.NOT_A_TENSOR, kind="NoneType"),
    "drops the heads": Case(lambda q, k, v: Right()(q, k, v)[:, 0], "shape", shapes.WRONG_SHAPE),
    "leaves heads behind positions": Case(
        lambda q, k, v: Right()(q, k, v).transpose(1, 2),
        "shape",
        shapes.SWAPPED,
        verdict=Verdict.CONVENTION,
        got=(2, 7, 3, 8),
    ),
    "merges the heads": Case(
        lambda q, k, v: Right()(q, k, v).transpose(1, 2).flatten(2), "shape", shapes.MERGED
    ),
    "returns its weights too": Case(
        lambda q, k, v: (Right()(q, k, v), q @ k.mT),
        "shape",
        shapes.PAIR,
        verdict=Verdict.CONVENTION,
        kind="tuple",
        count=2,
    ),
    "returns float32 for all": Case(
        lambda q, k, v: Right()(q, k, v).float(), "dtype", shapes.WRONG_DTYPE, got="float32"
    ),
    "returns on another device": Case(
        lambda q, k, v: Right()(q, k, v).to("meta"), "dtype", trial.WRONG_DEVICE
    ),
    # weights
    "forgets the sum of the softmax": Case(
        mutant(weights=lambda scores: torch.exp(scores)), "row_sums", weights.OTHER_SUM
    ),
    "answers NaN": Case(
        mutant(output=lambda output, query: output * math.nan), "row_sums", weights.NOT_FINITE
    ),
    "sees the keys of the sample before": Case(
        over_a_border(0), "convexity", weights.FOREIGN, whose=weights.NEIGHBOURS[0]
    ),
    "sees the keys of the head before": Case(
        over_a_border(1), "convexity", weights.FOREIGN, whose=weights.NEIGHBOURS[1]
    ),
    "squares the values": Case(
        mutant(average=lambda weights, value: weights @ (value * value.abs())),
        "convexity",
        weights.BESIDES,
    ),
    "softmax over the queries": Case(
        mutant(weights=lambda scores: torch.softmax(scores, -2)),
        "row_sums",
        weights.OTHER_AXIS,
        axis=weights.AXES[-2],
    ),
    "softmax over the heads": Case(
        mutant(weights=lambda scores: torch.softmax(scores, 1)),
        "row_sums",
        weights.OTHER_AXIS,
        axis=weights.AXES[1],
    ),
    "softmax over the batch": Case(
        mutant(weights=lambda scores: torch.softmax(scores, 0)),
        "row_sums",
        weights.OTHER_AXIS,
        axis=weights.AXES[0],
    ),
    "scores divided by their sum": Case(
        mutant(weights=lambda scores: scores / scores.sum(-1, keepdim=True)),
        "convexity",
        weights.OUTSIDE,
    ),
    "computes in bfloat16": Case(
        lambda q, k, v: Right()(*(x.bfloat16() for x in (q, k, v))).float(), "oracle", weights.OTHER
    ),
    "computes in float32": Case(
        lambda q, k, v: Right()(*(x.float() for x in (q, k, v))).to(q.dtype),
        "oracle",
        weights.OTHER,
        dtype="float64",
    ),
    "drops the last block": Case(around(last_block_dropped), "oracle", weights.LONG, n=133),
    "does not rescale the sums so far": Case(online_without_rescale, "oracle", weights.LONG),
    "looks at 32 keys": Case(mutant(weights=best_keys_only), "oracle", weights.LONG),
    "has eight heads": Case(around(eight_heads), "oracle", weights.LONG, heads=9),
    "reads 64 columns": Case(
        mutant(scores=lambda q, k, factor: q[..., :64] * factor @ k[..., :64].mT),
        "oracle",
        weights.LONG,
        d_k=69,
    ),
    "causal in chunks": Case(mutant(past=chunked_past), "oracle", weights.LONG_CAUSAL),
    "declines long inputs": Case(
        around(refuses_length), "oracle", PROPERTIES["oracle"].statement, verdict=Verdict.PASS
    ),
    "declines to be causal": Case(
        around(never_causal), "oracle", PROPERTIES["oracle"].statement, verdict=Verdict.PASS
    ),
    "breaks on long inputs": Case(long_ones_fail, "oracle", examination.RAISED),
    "has no memory for long inputs": Case(
        long_ones_take_all_memory, "oracle", examination.OUT_OF_MEMORY
    ),
    # scale
    "divides by d_k": Case(
        scaled(lambda d: 1 / d), "scale", scaling.BEHAVES, name="1/d_k", factor=1 / 64, right=0.125
    ),
    "does not scale": Case(scaled(lambda d: 1.0), "scale", scaling.BEHAVES, name=scaling.UNSCALED),
    "multiplies by sqrt(d_k)": Case(
        scaled(lambda d: d**0.5), "scale", scaling.BEHAVES, name="sqrt(d_k)"
    ),
    "takes the root of a factor below 0": Case(
        rooted,
        "scale",
        scaling.ROOT,
        asked=-0.3,
    ),
    "scales query and key by half": Case(
        scaled(lambda d: d**-0.25), "scale", scaling.BEHAVES, name="d_k ** -0.25"
    ),
    "divides by sqrt(n)": Case(
        mutant(scores=lambda q, k, factor: q @ k.mT * q.shape[-2] ** -0.5),
        "scale",
        scaling.BEHAVES,
        name="1/sqrt(n = 5)",
    ),
    "divides by the width of all heads": Case(
        mutant(scores=lambda q, k, factor: q @ k.mT * (q.shape[1] * q.shape[-1]) ** -0.5),
        "scale",
        scaling.BEHAVES,
        name="1/sqrt((heads = 3) * d_k)",
    ),
    "powers of 2": Case(
        mutant(weights=lambda scores: torch.softmax(scores * math.log(2), -1)),
        "scale",
        scaling.BEHAVES,
        name="ln(2)/sqrt(d_k)",
    ),
    "opposite sign": Case(
        scaled(lambda d: -(d**-0.5)), "scale", scaling.BEHAVES, name="-1/sqrt(d_k)"
    ),
    "a constant factor": Case(
        scaled(lambda d: 0.0625 * 3), "scale", scaling.FIXED, factor=0.1875, widths=[16, 64]
    ),
    "the root of the width it was written for": Case(
        scaled(lambda d: 8**-0.5), "scale", scaling.FIXED, factor=8**-0.5
    ),
    "a constant factor that nobody can change": Case(
        lambda q, k, v: Right()(q, k, v, scale=8**-0.5),
        "scale",
        scaling.OWN_FIXED,
        verdict=Verdict.NOT_CLAIMED,
        factor=8**-0.5,
    ),
    "the factor of YaRN": Case(
        lambda q, k, v: Right()(q, k, v, scale=(0.1 * math.log(8) + 1) ** 2 * q.shape[-1] ** -0.5),
        "scale",
        scaling.OWN_MULTIPLE,
        verdict=Verdict.NOT_CLAIMED,
        factor=1.459,
    ),
    "powers of 2 that are not undone": Case(
        lambda q, k, v: Right()(q, k, v, scale=(q.shape[-1] ** -0.5) / math.log(2)),
        "scale",
        scaling.BEHAVES,
        name="log2(e)/sqrt(d_k)",
    ),
    "an odd factor": Case(scaled(lambda d: 3 / d), "scale", scaling.BEHAVES_UNNAMED, factor=3 / 64),
    "sigmoids for weights": Case(mutant(weights=torch.sigmoid), "scale", scaling.NO_FACTOR),
    "rectifies the scores": Case(mutant(weights=torch.relu), "scale", scaling.NO_FACTOR),
    "ignores scale": Case(
        mutant(factor=lambda q, scale: q.shape[-1] ** -0.5), "scale", scaling.IGNORED, factor=0.125
    ),
    "scale on top": Case(
        mutant(factor=lambda q, scale: q.shape[-1] ** -0.5 * (1.0 if scale is None else scale)),
        "scale",
        scaling.ON_TOP,
        factor=0.0375,
    ),
    "divides by scale": Case(
        mutant(factor=lambda q, scale: 1 / (q.shape[-1] ** 0.5 if scale is None else scale)),
        "scale",
        scaling.DIVIDES,
        factor=1 / 0.3,
    ),
    "squares scale": Case(
        mutant(factor=lambda q, scale: q.shape[-1] ** -0.5 if scale is None else scale**2),
        "scale",
        scaling.OTHER_FACTOR,
        factor=0.09,
    ),
    "takes scale=0 for None": Case(
        mutant(factor=lambda q, scale: scale or q.shape[-1] ** -0.5),
        "scale",
        scaling.IGNORED,
        asked=0.0,
    ),
    "loses the sign of scale": Case(
        mutant(factor=lambda q, scale: q.shape[-1] ** -0.5 if scale is None else abs(scale)),
        "scale",
        scaling.OTHER_FACTOR,
        asked=-0.3,
        factor=0.3,
    ),
    "cuts scale at 1": Case(
        mutant(factor=lambda q, scale: q.shape[-1] ** -0.5 if scale is None else min(scale, 1.0)),
        "scale",
        scaling.OTHER_FACTOR,
        asked=1.5,
        factor=1.0,
    ),
    "breaks on a scale of 0": Case(
        mutant(factor=lambda q, scale: 1 / (q.shape[-1] ** 0.5 if scale is None else 1 / scale)),
        "scale",
        examination.RAISED,
    ),
    "declines a negative scale": Case(
        mutant(factor=positive), "scale", PROPERTIES["scale"].statement, verdict=Verdict.PASS
    ),
    "scales the mask too": Case(
        mutant(
            mask=lambda scores, allowed, mask: (
                (scores, allowed & mask)
                if mask.dtype == torch.bool
                else (scores + mask / 4, allowed)
            )
        ),
        "scaling_order",
        scaling.MASK_SCALED,
        factor=0.25,
    ),
    "multiplies its scores by the mask": Case(
        mutant(mask=lambda scores, allowed, mask: (scores * mask, allowed)),
        "scaling_order",
        scaling.NOT_ADDED,
        verdict=Verdict.NOT_CLAIMED,
    ),
    "has no use for the mask": Case(
        ignores("attn_mask"), "scaling_order", scaling.NOT_ADDED, verdict=Verdict.NOT_CLAIMED
    ),
    "scales after the product": Case(
        mutant(scores=lambda q, k, factor: q @ k.mT * factor),
        "scaling_order",
        scaling.OVERFLOW,
        dtype="float16",
    ),
    "has no mask to scale": Case(
        lambda query, key, value: Right()(query, key, value),
        "scaling_order",
        scaling.NO_ORDER,
        verdict=Verdict.NOT_CLAIMED,
    ),
    "ignores softcap": Case(
        mutant(cap=lambda scores, cap: scores), "softcap_order", softcap.IGNORED
    ),
    "caps after the mask": Case(CapsAfter(), "softcap_order", softcap.AFTER_MASK),
    "caps before it scales": Case(
        mutant(
            cap=lambda scores, cap: (
                cap * torch.tanh(scores * math.sqrt(8) / cap) / math.sqrt(8)  # d_k is 8
            )
        ),
        "softcap_order",
        softcap.BEFORE_SCALE,
    ),
    "caps the float mask": Case(CapsFloats(), "softcap_order", softcap.FLOATS),
    "clamps": Case(
        mutant(cap=lambda scores, cap: scores.clamp(-cap, cap)), "softcap_order", softcap.CLAMPS
    ),
    "forgets to multiply by softcap": Case(
        mutant(cap=lambda scores, cap: torch.tanh(scores / cap)), "softcap_order", softcap.OTHER
    ),
    # symmetries
    "adds positions": Case(
        mutant(scores=lambda q, k, f: q @ k.mT * f - 0.1 * torch.arange(k.shape[-2])),
        "key_permutation",
        symmetries.ORDER,
    ),
    "scores as weights": Case(
        mutant(weights=lambda scores: scores), "shift_invariance", symmetries.SHIFT
    ),
    "bounds the values": Case(
        mutant(average=lambda p, v: p @ torch.tanh(v)), "value_linearity", symmetries.NOT_LINEAR
    ),
    "first sample's keys for all": Case(
        around(lambda right, q, k, v, **options: right(q, k[:1].expand_as(k), v, **options)),
        "batch_independence",
        symmetries.SAMPLE,
    ),
    "centres the scores over the batch": Case(
        mutant(scores=lambda q, k, f: (q @ k.mT * f) - (q @ k.mT * f).mean(0, keepdim=True)),
        "batch_independence",
        symmetries.SAMPLE,
    ),
    "first head's keys for all": Case(around(of_head_zero), "head_independence", symmetries.HEAD),
    # masks
    "ignores attn_mask": Case(
        mutant(mask=lambda scores, allowed, mask: (scores, allowed)), "mask_polarity", masks.IGNORED
    ),
    "True is forbidden": Case(
        mutant(
            mask=lambda scores, allowed, mask: (
                (scores, allowed & ~mask) if mask.dtype == torch.bool else (scores + mask, allowed)
            )
        ),
        "mask_polarity",
        masks.INVERTED,
    ),
    "adds bools": Case(
        mutant(mask=lambda scores, allowed, mask: (scores + mask, allowed)),
        "mask_polarity",
        masks.ADDED_BOOL,
    ),
    "transposes the mask": Case(
        mutant(mask=lambda scores, allowed, mask: (scores, allowed & mask.mT)),
        "mask_polarity",
        masks.TRANSPOSED,
    ),
    "masks after the softmax": Case(
        post_mask(lambda p, allowed: p * allowed), "mask_polarity", masks.AFTER
    ),
    "forbids with -10": Case(forbid_with(-10.0), "mask_polarity", masks.LEAK),
    "keeps the highest key only": Case(
        mutant(
            mask=lambda scores, allowed, mask: (
                2 * scores,
                allowed & (mask if mask.dtype == torch.bool else mask != -math.inf),
            )
        ),
        "mask_polarity",
        masks.OTHER,
    ),
    "float mask as yes and no": Case(
        mutant(mask=lambda scores, allowed, mask: (scores, allowed & (mask != 0))),
        "float_mask",
        masks.AS_BOOL,
    ),
    "subtracts the mask": Case(
        mutant(mask=lambda scores, allowed, mask: (scores - mask, allowed & (mask != -math.inf))),
        "float_mask",
        masks.SUBTRACTED,
    ),
    "multiplies by the mask": Case(
        mutant(
            mask=lambda scores, allowed, mask: (
                scores * mask.masked_fill(mask == -math.inf, 0.0),
                allowed & (mask != -math.inf),
            )
        ),
        "float_mask",
        masks.NOT_ADDED,
    ),
    "one sample's mask for all": Case(around(first_mask), "mask_broadcast", masks.BROADCAST),
    "first head's mask for all": Case(
        part_of_mask(lambda mask: mask[..., :1, :, :]), "mask_broadcast", masks.EACH
    ),
    "first sample's full mask for all": Case(
        part_of_mask(lambda mask: mask[:1] if mask.dim() == 4 else mask),
        "mask_broadcast",
        masks.EACH,
    ),
    "causal wins over a float mask": Case(
        beside_floats("is_causal"), "mask_with_causal", masks.FLOATS_CAUSAL_ONLY
    ),
    "a float mask wins over causal": Case(
        beside_floats("attn_mask"), "mask_with_causal", masks.FLOATS_MASK_ONLY
    ),
    "causal wins over the mask": Case(around(causal_only), "mask_with_causal", masks.CAUSAL_ONLY),
    "mask wins over causal": Case(around(both), "mask_with_causal", masks.MASK_ONLY),
    "mask or causal": Case(around(either), "mask_with_causal", masks.EITHER),
    "mask xor causal": Case(around(xor), "mask_with_causal", masks.OTHER),
    "takes the first axis of a mask for the samples": Case(
        around(masks_by_axis), "mask_broadcast", masks.BROADCAST
    ),
    "rounds the float mask": Case(
        mutant(
            mask=lambda scores, allowed, mask: (
                (scores, allowed & mask)
                if mask.dtype == torch.bool
                else (scores + mask.bfloat16(), allowed & (mask != -math.inf))
            )
        ),
        "float_mask",
        masks.NOT_ADDED,
    ),
    "takes no float mask": Case(
        around(bools_only),
        "mask_with_causal",
        PROPERTIES["mask_with_causal"].statement,
        verdict=Verdict.PASS,
    ),
    "breaks on a float mask with causal": Case(
        around(breaks_on_floats), "mask_with_causal", examination.RAISED
    ),
    "adds the float mask twice beside causal": Case(
        around(floats_twice), "mask_with_causal", masks.OTHER
    ),
    "takes no mask for each head": Case(
        one_mask_for_all_heads,
        "grouped_queries",
        PROPERTIES["grouped_queries"].statement,
        verdict=Verdict.PASS,
    ),
    "breaks under a mask": Case(breaks, "mask_polarity", examination.RAISED),
    "forgets the mask of one query": Case(
        around(forgets_for_fewer), "options_together", together.OTHER_LENGTHS
    ),
    "forgets the causality of shared heads": Case(
        around(forgets_when_shared), "options_together", together.TOGETHER
    ),
    "breaks where causal heads share their keys": Case(
        around(breaks_when_shared), "options_together", together.CRASHES
    ),
    "has a sink, which takes the weight of a row of least numbers": Case(
        with_sinks, "lowest_mask", forbidden.OF_THE_SINK
    ),
    "reads a mask of keys as its first row": Case(
        around(triangle_of_the_mask), "options_together", together.TOGETHER
    ),
    "pads on the left with the mean": Case(
        around(mean_of_the_blind), "options_together", together.BLIND
    ),
    "forgets the padding on the left": Case(
        around(forgets_left_padding), "options_together", together.PADDED
    ),
    "loses the end of a long row": Case(
        around(loses_the_end), "other_sizes", together.SIZES, m=1100
    ),
    "one key for several queries": Case(
        around(doubles_one_key), "single_token", lengths.ONE_KEY, n=2
    ),
    "declines numbers beside causality": Case(
        around(declines_floats),
        "mask_with_causal",
        PROPERTIES["mask_with_causal"].statement,
        verdict=Verdict.PASS,
    ),
    "declines causality, low scores": Case(
        around(never_causal),
        "very_negative_scores",
        PROPERTIES["very_negative_scores"].statement,
        verdict=Verdict.PASS,
    ),
    "bools break, numbers do not": Case(
        adds_alone,
        "mask_polarity",
        masks.NUMBERS_ALONE,
        verdict=Verdict.NOT_CLAIMED,
        mask_means="allowed",
    ),
    "always causal": Case(always_causal, "key_permutation", symmetries.CAUSAL),
    "always causal, other lengths": Case(always_causal, "rectangular", lengths.CAUSAL),
    "the least number as a yes": Case(
        mutant(mask=lambda scores, allowed, mask: (scores, allowed & (mask != 0))),
        "lowest_mask",
        forbidden.YES_OR_NO,
    ),
    "refuses mask with causal": Case(
        around(refuses), "mask_with_causal", masks.REFUSES, verdict=Verdict.CONVENTION
    ),
    "counts the padding": Case(around(counts_padding), "padding_amount", masks.PADDING),
    # causal
    "ignores is_causal": Case(ignores("is_causal"), "causality", causal.IGNORED),
    "sees one key ahead": Case(mutant(past=lambda n, m: ones(n, m, 1)), "causality", causal.FUTURE),
    "sees the future alone": Case(
        mutant(past=lambda n, m: ~ones(n, m, -1)), "causality", causal.FUTURE
    ),
    "causal after the softmax": Case(
        post_mask(lambda p, allowed: p * allowed), "causality", causal.MOVED
    ),
    "strictly causal": Case(mutant(past=lambda n, m: ones(n, m, -1)), "own_token", causal.STRICT),
    "loses its own key at the end of a block": Case(
        mutant(past=without_the_last_of_a_block), "own_token", causal.SOME_STRICT, i=2, count=1
    ),
    "strictly causal, with NaN for the query that has no key": Case(
        without_own_token, "own_token", causal.STRICT
    ),
    "forgets the first key": Case(
        mutant(past=lambda n, m: ones(n, m) & ((torch.arange(m) > 0) | ~ones(n, 1, -1))),
        "own_token",
        causal.PAST,
    ),
    "top-left": Case(Right(), "alignment", causal.TOP_LEFT, verdict=Verdict.CONVENTION),
    "bottom-right": Case(
        mutant(past=lambda n, m: ones(n, m, m - n)),
        "alignment",
        causal.BOTTOM_RIGHT,
        verdict=Verdict.CONVENTION,
    ),
    "aligned in between": Case(
        mutant(past=lambda n, m: ones(n, m, (m - n) // 2)), "alignment", causal.NEITHER
    ),
    "keeps its triangle by n": Case(triangle_by_length({}), "alignment", causal.NEITHER),
    "NaN where bottom-right leaves no key": Case(around(keyless), "alignment", causal.KEYLESS),
    "aligned both ways": Case(mutant(past=undecided), "alignment", causal.MIXED),
    "a window besides": Case(
        mutant(near=lambda n, m, w: ones(n, m) & ~ones(n, m, -w - 1)),
        "window_width",
        windows.BESIDES,
        verdict=Verdict.CONVENTION,
    ),
    "a window on each side": Case(
        mutant(near=lambda n, m, w: ones(n, m, w) & ~ones(n, m, -w - 1)),
        "window_width",
        windows.EACH_SIDE,
        verdict=Verdict.CONVENTION,
    ),
    "ignores window": Case(ignores("window"), "window_width", windows.IGNORED),
    "a window one too narrow": Case(
        mutant(near=lambda n, m, w: ones(n, m) & ~ones(n, m, -w + 1)),
        "window_width",
        windows.OTHER,
    ),
    "a window that forgets causality": Case(ForgetsCausality(), "window_width", windows.CAUSAL),
    # forbidden
    "0/0 without keys": Case(
        mutant(weights=softmax), "fully_masked", forbidden.NAN, kind=forbidden.BOOL
    ),
    "0/0 without keys, float mask": Case(
        ForgetsFloats(), "fully_masked", forbidden.NAN, kind=forbidden.FLOAT
    ),
    "the largest negative number": Case(
        forbid_with(torch.finfo(torch.float32).min), "fully_masked", forbidden.MEAN
    ),
    "no mask without keys": Case(
        empty_row(lambda q, k, v: Right()(q, k, v)), "fully_masked", forbidden.UNMASKED
    ),
    "ones without keys": Case(
        empty_row(lambda q, k, v: torch.ones_like(q)), "fully_masked", forbidden.NOT_ZERO
    ),
    "spoils the row above": Case(around(spoils_other_rows), "fully_masked", forbidden.OTHERS),
    "hides NaN behind zeros": Case(
        mutant(
            forbid=lambda scores, allowed: scores + torch.where(allowed, 0.0, -math.inf),
            weights=lambda scores: torch.softmax(scores, -1).nan_to_num(0.0),
        ),
        "fully_masked_gradient",
        forbidden.NOT_FINITE,
    ),
    "a gradient without keys": Case(
        around(nothing_still), "fully_masked_gradient", forbidden.NOT_STILL
    ),
    "NaN leaks": Case(Right(), "nan_behind_mask", forbidden.LEAKS, verdict=Verdict.UNSAFE),
    "takes a row with NaN for an empty one": Case(
        around(lambda right, *given, **options: right(*given, **options).nan_to_num(0.0)),
        "nan_behind_mask",
        forbidden.CHANGES,
    ),
    # numerics
    "no maximum subtracted": Case(
        mutant(weights=exponentials), "very_negative_scores", numerics.VANISHED
    ),
    "forbids with -10000": Case(forbid_with(-1e4), "very_negative_scores", numerics.OUTDONE),
    "forbids with -1e9": Case(forbid_with(-1e9), "very_negative_scores", numerics.OUTDONE),
    "gives forbidden keys a little": Case(
        mutant(weights=lambda scores: torch.softmax(scores, -1).nan_to_num(0.0).clamp(min=2e-9)),
        "very_negative_scores",
        numerics.TOUCHED,
    ),
    "is causal by -1e9": Case(
        causal_by_a_number, "very_negative_scores", numerics.OUTDONE, option=numerics.CAUSAL_MASK
    ),
    "subtracts one maximum from all": Case(
        mutant(weights=one_maximum), "very_negative_scores", numerics.VANISHED
    ),
    "exponential overflows": Case(mutant(weights=exponentials), "large_scores", numerics.OVERFLOW),
    "returns ones": Case(
        lambda query, key, value: torch.ones_like(value), "very_negative_scores", numerics.NEITHER
    ),
    "returns ones for large scores too": Case(
        lambda query, key, value: torch.ones_like(value), "large_scores", numerics.NEITHER
    ),
    "clamps the scores": Case(
        mutant(weights=lambda scores: exponentials(scores.clamp(-50, 50))),
        "large_scores",
        numerics.CLAMPED,
    ),
    "halves where scores are low": Case(
        mutant(output=halved_at_large), "very_negative_scores", numerics.OTHER
    ),
    "halves where scores are high": Case(
        mutant(output=halved_at_large), "large_scores", numerics.OTHER
    ),
    # heads
    "tiles the key heads": Case(
        mutant(share=lambda x, group: x.repeat(1, group, 1, 1)), "grouped_queries", heads.TILED
    ),
    "first key head for all": Case(
        mutant(share=lambda x, group: x[:, :1].expand(-1, group * x.shape[1], -1, -1)),
        "grouped_queries",
        heads.OTHER,
    ),
    "masks of the key heads": Case(around(masks_of_key_heads), "grouped_queries", heads.MASKED),
    # dropout
    "drops in evaluation": Case(
        around(
            lambda right, q, k, v, dropout_p=None, **o: right(
                q, k, v, dropout_p=0.0 if dropout_p is None else dropout_p or 0.1, **o
            )
        ),
        "dropout_off",
        dropout.STILL_ON,
    ),
    "ignores dropout_p": Case(ignores("dropout_p"), "dropout_scale", dropout.OFF),
    "drops the output": Case(
        around(lambda right, q, k, v, dropout_p=0.0, **o: DROPPED(right(q, k, v, **o), dropout_p)),
        "dropout_scale",
        dropout.ON_OUTPUT,
    ),
    "p is the share to keep": Case(
        mutant(drop=lambda weights, p: DROPPED(weights, 1 - p) * (p / (1 - p))),
        "dropout_scale",
        dropout.SHARE,
        p=0.25,
    ),
    "does not rescale": Case(
        mutant(drop=lambda weights, p: DROPPED(weights, p) * (1 - p)),
        "dropout_scale",
        dropout.KEPT,
        least=1.0,
        right=4 / 3,
    ),
    "draws once": Case(
        mutant(drop=dropped_alike), "dropout_scale", dropout.REPEATED, where=dropout.AXES[0]
    ),
    **{
        f"draws once {where.en}": Case(
            dropped_for_all(axis), "dropout_scale", dropout.REPEATED, where=where
        )
        for axis, where in enumerate(dropout.AXES[1:])
    },
    # lengths
    "the ratio of lengths matters": Case(around(lengths_matter), "rectangular", lengths.ROWS),
    "scales by d_v": Case(around(widths), "value_width", lengths.WIDTH),
    "halves a single key": Case(around(one_key), "single_token", lengths.ONE_KEY),
    "forgets a key in decoding": Case(around(one_query), "single_token", lengths.ONE_QUERY),
    "forgets the mask in decoding": Case(
        around(unmasked_alone), "single_token", lengths.ONE_MASKED
    ),
    "NaN without keys": Case(around(no_keys), "empty", lengths.NO_KEYS),
    "raises without samples": Case(
        raises_without(lambda query, key: query.shape[0]),
        "empty",
        lengths.EMPTY_RAISES,
        verdict=Verdict.NOT_CLAIMED,
        what=lengths.NO_SAMPLES,
    ),
    "raises without queries": Case(
        raises_without(lambda query, key: query.shape[-2]),
        "empty",
        lengths.EMPTY_RAISES,
        verdict=Verdict.NOT_CLAIMED,
        what=lengths.NO_QUERIES,
    ),
    "raises without keys": Case(
        raises_without(lambda query, key: key.shape[-2]),
        "empty",
        lengths.EMPTY_RAISES,
        verdict=Verdict.NOT_CLAIMED,
        what=lengths.NOTHING,
    ),
    # gradients
    "cuts the gradient": Case(
        lambda q, k, v: Right()(q.detach(), k, v), "gradients", backward.NONE, name="query"
    ),
    "for inference": Case(
        lambda q, k, v: Right()(q, k, v).detach(), "gradients", backward.INFERENCE
    ),
    "cuts the keys' gradient": Case(
        lambda q, k, v: Right()(q, k.detach(), v), "gradients", backward.NONE, name="key"
    ),
    "a backward without the row sum": Case(
        lambda q, k, v: Detached.apply(q, k, v), "gradients", backward.OTHER
    ),
    "cuts the gradient under a mask": Case(
        gradient_cut_by_mask, "gradients", backward.NONE, name="value"
    ),
    "loses a gradient penalty": Case(
        lambda q, k, v: Once.apply(q, k, v), "gradient_penalty", backward.LOST, name="query"
    ),
    "penalty lost beside a mask": Case(
        around(
            lambda right, *tensors, attn_mask=None, **options: right(
                *(map(HalfOnce.apply, tensors) if attn_mask is not None else tensors),
                attn_mask=attn_mask,
            )
        ),
        "gradient_penalty",
        backward.LOST,
    ),
    "learns no bias": Case(
        around(
            lambda right, *tensors, attn_mask=None, **options: right(
                *tensors, attn_mask=attn_mask if attn_mask is None else attn_mask.detach()
            )
        ),
        "mask_gradient",
        backward.MASK_CUT,
    ),
    "doubles the gradient of the mask": Case(
        mutant(
            mask=lambda scores, allowed, attn_mask: (
                (scores, allowed & attn_mask)
                if attn_mask.dtype == torch.bool
                else (Unsummed.apply(scores, attn_mask), allowed)
            )
        ),
        "mask_gradient",
        backward.OTHER,
        name="attn_mask",
    ),
    "has no gradient for a mask either": Case(
        around(
            lambda right, *tensors, attn_mask=None: right(*tensors, attn_mask=attn_mask).detach()
        ),
        "mask_gradient",
        backward.INFERENCE,
    ),
    "drops nothing beside a mask": Case(
        ignores_beside("dropout_p", "attn_mask"),
        "silent_arguments",
        hygiene.SILENT_BESIDE,
        option="dropout_p",
        other="attn_mask",
    ),
    "loses half of a gradient penalty": Case(
        lambda q, k, v: Right()(q, k, HalfOnce.apply(v)), "gradient_penalty", backward.OTHER_SECOND
    ),
    "forbids by the least number": Case(
        least_is_forbidden, "lowest_mask", forbidden.FORBIDS, dtype="float32"
    ),
    "adds the least number twice": Case(adds_twice, "lowest_mask", forbidden.OVERFLOWS),
    "clamps the float mask of a row": Case(
        first_of_the_least, "lowest_mask", forbidden.NOT_THE_MEAN
    ),
    "masks before it scales": Case(
        masks_first, "causal_scale", scaling.CAUSAL_SCALE, verdict=Verdict.UNSAFE, asked=0.0
    ),
    # hygiene
    "scales in place": Case(in_place, "inputs_unchanged", hygiene.CHANGED, name="query"),
    "reads memory in order": Case(
        as_contiguous, "strided", hygiene.STRIDES, how=hygiene.TRANSPOSED
    ),
    "reads every column": Case(every_column, "strided", hygiene.STRIDES, how=hygiene.SLICED),
    "misreads an expanded head": Case(unexpanded, "strided", hygiene.STRIDES, how=hygiene.EXPANDED),
    "remembers the last call": Case(Remembers(), "determinism", hygiene.DIFFERS),
    "keeps its keys by shape": Case(
        keys_by(lambda key: key.shape), "determinism", hygiene.REMEMBERED
    ),
    "keeps its keys by address": Case(
        keys_by(lambda key: (key.data_ptr(), key.shape)), "determinism", hygiene.REMEMBERED
    ),
    "drops at random": Case(
        mutant(output=lambda output, query: DROPPED(output, 0.1)), "determinism", hygiene.DIFFERS
    ),
    "writes causality into the mask": Case(
        fills_mask, "inputs_unchanged", hygiene.CHANGED, name="attn_mask"
    ),
    "returns its buffer": Case(Buffer(), "determinism", hygiene.OVERWRITTEN),
    "has parameters that nobody knows": Case(
        with_unknown_parameters,
        "silent_arguments",
        hygiene.UNASKED,
        verdict=Verdict.PASS,
        names="sinks, output_attentions",
    ),
    "swallows softcap": Case(ignores("softcap"), "silent_arguments", hygiene.SILENT),
    "swallows scale with a mask": Case(
        ignores_beside("scale", "attn_mask"),
        "silent_arguments",
        hygiene.SILENT_BESIDE,
        option="scale",
        other="attn_mask",
    ),
    "holds all weights": Case(
        Right(), "memory_growth", hygiene.GROWS, verdict=Verdict.PASS, kind=hygiene.QUADRATIC
    ),
    "a block at a time": Case(
        blockwise, "memory_growth", hygiene.GROWS, verdict=Verdict.PASS, kind=hygiene.LINEAR
    ),
    "too slow to measure": Case(
        slow, "memory_growth", hygiene.TOO_SLOW, verdict=Verdict.NOT_CLAIMED
    ),
    "computes in a thread": Case(
        in_a_thread,
        "memory_growth",
        hygiene.UNMEASURED,
        verdict=Verdict.NOT_CLAIMED,
        error=hygiene.UNSEEN,
    ),
    "too long to measure": Case(
        long_ones_fail, "memory_growth", hygiene.UNMEASURED, verdict=Verdict.NOT_CLAIMED
    ),
}


@pytest.mark.claim("checker-names-the-defect")
@pytest.mark.parametrize("name", CASES)
def test_the_property_that_names_the_defect_catches_it(name):
    case = CASES[name]
    settings = {"dtype": case.dtype, "mask_means": case.mask_means}
    report = check(case.function, only=[case.rule], limit=None, **settings)
    (result,) = report.results
    assert result.verdict is case.verdict, result.diagnosis()
    assert result.finding.text[0].startswith(case.text.en), result.diagnosis()
    for key, value in case.values.items():
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


def shown(name, seed=0):
    """What a mutant's property says of it, and the call that stands below."""
    case = CASES[name]
    (result,) = check(case.function, only=[case.rule], limit=None, seed=seed).results
    return result.finding.values, result.counterexample


def test_the_call_that_is_shown_has_the_option_that_is_spoken_of():
    assert "attn_mask" in shown("scales the mask too")[1].arguments
    assert "softcap" in shown("swallows softcap")[1].arguments


def test_the_weight_that_is_spoken_of_is_one_of_the_call_that_is_shown():
    values, example = shown("sees one key ahead", seed=3)
    query, key = (torch.tensor(example.arguments[name]) for name in ("query", "key"))
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    seen = ones(*scores.shape[-2:], 1)
    weights = torch.softmax(scores.masked_fill(~seen, -math.inf), -1)
    found = weights[..., values["i"], values["j"]].max()
    assert float(found) == pytest.approx(values["weight"])


def test_a_factor_of_another_call_names_that_call():
    for name in ("does not scale", "an odd factor", "ignores scale", "scale on top"):
        values, example = shown(name)
        assert values["d_k"] == 64 != torch.tensor(example.arguments["query"]).shape[-1], name
        assert all("{d_k}" in sentence for sentence in CASES[name].text)


@pytest.mark.parametrize("name", FAILURES)
def test_what_has_nothing_to_do_with_the_defect_passes(name):
    # All of them leak, hide NaN behind a query, or overflow in float16.
    asked = set(PROPERTIES) - {"memory_growth", "nan_behind_mask", "half_precision"}
    report = check(CASES[name].function, only=asked, limit=None)
    bad = [each for each in report.results if each.verdict in (Verdict.WRONG, Verdict.UNSAFE)]
    assert {result.property for result in bad} == FAILURES[name]


def test_what_always_answers_nan_does_not_differ_from_itself():
    itself = {
        *("determinism", "strided", "batch_independence", "head_independence", "causality"),
        *("key_permutation", "rectangular", "value_linearity", "own_token", "alignment"),
    }
    report = check(CASES["answers NaN"].function, only=["row_sums", "oracle", *itself], limit=None)
    assert {each.property for each in report.failures} == {"row_sums", "oracle"}
    assert [each.property for each in report.causes] == ["row_sums"]


def test_the_query_that_is_named_is_one_that_fits_no_alignment():
    values, _ = shown("loses its own key at the end of a block")
    assert values["i"] == 2
    (result,) = check(
        CASES["loses its own key at the end of a block"].function, only=["alignment"], limit=None
    ).results
    assert result.finding.values["i"] == 2
    assert result.finding.values["keys"] == [0, 1]


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
        with subtests.test(way.en):
            # Read as PyTorch's function is: one that is always causal could be recognised as that.
            about, said = subject(function), Reading(complete=True)
            (result,) = judge(about, said, only=["oracle"], limit=None).results
            assert result.verdict is Verdict.WRONG
            assert result.finding.text == weights.AS_IF
            assert result.finding.values["way"] == way
            assert way.pt in result.diagnosis("pt")


def test_an_output_on_another_device_breaks_no_property():
    report = check(CASES["returns on another device"].function, limit=None)
    assert len(report.results) == len(PROPERTIES)
    assert {result.finding.text for result in report.failures} == {trial.WRONG_DEVICE}


def test_there_are_more_than_forty_mutants():
    assert sum(case.verdict is Verdict.WRONG for case in CASES.values()) > 40


def test_every_text_of_the_properties_is_said_of_some_mutant():
    said = {case.text for case in CASES.values()} | {weights.AS_IF}
    for case in CASES.values():
        said |= {value for value in case.values.values() if isinstance(value, Text)}
    for module in MODULES:
        for name, value in vars(module).items():
            texts = value.values() if isinstance(value, dict) else [value]
            for text in texts:
                assert not isinstance(text, Text) or text in said, f"{module.__name__}.{name}"
