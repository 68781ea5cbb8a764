"""What is suspicious about a call, in words that say how to fix it, each with its page."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import torch

from attnref.text import Text
from attnref.watching.call import FUSED, LAYER, OWN, Call
from attnref.watching.kernels import NEED_WEIGHTS
from attnref.watching.masks import Mask
from attnref.watching.patterns import ALL
from attnref.watching.statistics import SOME, Statistics, is_finite

ERROR = 8.0  # times what rounding explains: what lies below may still be another order of sums
_LARGE = 0.25  # of the largest number of half precision
_SINK, _EVEN = 0.3, 4.0  # mass on one key, and so many times an even share
_SATURATED, _SPREAD = 0.95, 4.0  # largest weight, and spread of the scores, in the mean


class Level(IntEnum):
    """The worst first."""

    WRONG = 0
    UNSAFE = 1
    COSTLY = 2
    OBSERVED = 3


LEVELS = {
    Level.WRONG: Text("wrong"),
    Level.UNSAFE: Text("unsafe"),
    Level.COSTLY: Text("costly"),
    Level.OBSERVED: Text("observed"),
}


@dataclass(frozen=True)
class Finding:
    """What was found, in one sentence or two, where, and the page that explains it."""

    level: Level
    text: Text
    page: str
    values: Mapping[str, object] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def say(self, lang: str = "en") -> str:
        """The sentence."""
        return self.text.say(lang, self.values)


TOP_LEFT = Text(
    "is_causal with n = {n} and m = {m}: PyTorch aligns the first query with the first key, so "
    "even the last query sees only {n} of the {m} keys. With a cache, omit is_causal for a single "
    "query, or pass a mask aligned at the bottom right."
)
ONLY_FUTURE = Text(
    "The mask hides from each query its own key and all earlier ones, apart from padding. In this "
    "function True means “may attend”; the mask was probably made for a function in which True "
    "means “forbidden”. Pass ~mask."
)
FAR = Text(
    "Head {head}, query {query}: the output is {times:.3g} times as far from the definition as "
    "rounding explains."
)
DROPPING = Text(
    "Weights are dropped (p = {share:.2g}) while the module is in evaluation mode. "
    "scaled_dot_product_attention does not know the mode: pass dropout_p={share:.2g} only in "
    "training."
)
DROPPING_ITSELF = Text(
    "Weights are dropped (p ≈ {share:.2g}) while the module is in evaluation mode. Use nn.Dropout, "
    "which knows the mode, or pass training=self.training to dropout."
)
NOT_FINITE = Text(
    "Its output contains NaN or inf, but query, key and value do not: {where}. This is the first "
    "place where that happens."
)
SCORES_INF = Text("its scores overflow {dtype}")
BLIND_ROW = Text("a query has no key to attend to")
ITSELF = Text("they arise in its own computation")
FIRST_OUT = Text(
    "NaN or inf first appears in the output of this module ({kind}), which is not attention."
)
FIRST_AFTER = Text(
    "NaN or inf first appears in the output of this module ({kind}). The output of {before}, which"
    " ended before it, is still finite, so it arises in this module or in what is computed between"
    " the two."
)
BEHIND = Text(
    "{name} holds NaN or inf at a key that the mask hides: a weight of 0 times NaN is NaN. Fill "
    "unused memory with zeros."
)
BLIND = Text(
    "Queries that may attend to nothing, although they are not padding: {count}. {what} Let each "
    "query see itself, or return zeros if a row is empty."
)
LOST = Text(
    "All keys of sample {sample} are hidden, so that none of its queries may attend to anything. "
    "{what} If True means “padding” in this mask, pass ~mask: here True means “may attend”."
)
ZEROS = Text("PyTorch returns zeros for them, older versions NaN.")
NAN = Text("A softmax over -inf alone is NaN.")
MEAN = Text(
    "A large negative number added to a whole row hides nothing: the query gets a mean of values "
    "that it must not see."
)
ALIGNED = Text(
    "The mask lets query i see keys 0 to i, and there are more keys ({m}) than queries ({n}). With"
    " a cache the queries are the last tokens, so align it at the bottom right. This mask is right"
    " only at the beginning of a cache whose remaining slots are unused."
)
NUMBERS = Text(
    "The mask consists of the numbers 0 and 1, which are added to the scores: 0 hides nothing. If "
    "1 means “may attend”, pass mask.bool(); if it means “forbidden”, pass ~mask.bool()."
)
DIFFERENT = Text(
    "Other layers hide the padding, but this one does not: in sample {sample}, it sees {count} "
    "keys that {other} hides. Pass the padding mask to every layer."
)
NEAR_OVERFLOW = Text(
    "The products of queries and keys reach {highest:.3g}, and float16 ends at 65504. Scale the "
    "queries before the product, or compute the scores in float32."
)
NEEDLESS = Text(
    "A mask of shape {shape} ({bytes}) has the same effect as {instead}, which costs less: with a "
    "mask, the kernel reads a number per pair, and PyTorch has fewer kernels to choose from."
)
SLOW = Text("Computed by products and a softmax, not by a fused kernel: {why} {inferred}")
INFERRED = Text("(Inferred from the call; PyTorch was not asked.)")
SINKS = Text(
    "{share:.0%} of the weight lies on the first key; equal weights would put {even:.1%} there: an"
    " attention sink (head {head})."
)
SATURATED = Text(
    "On average, the largest weight of a row is {largest:.2f}, and the standard deviation of its "
    "scores is {spread:.3g} (it would be 1 for independent queries and keys of variance 1). Little"
    " gradient reaches the scores (head {head})."
)
UNIFORM = Text(
    "{count} of {heads} heads spread their weight evenly, so they simply average the values."
)
COPIES = Text("Heads {one} and {other} have the same weights.")

Rule = Callable[[Call, Mask, Statistics | None], Iterator[Finding]]


def _causal(call: Call, mask: Mask, found: Statistics | None) -> Iterator[Finding]:
    *_, n, m = call.sizes
    if mask.top_left:
        _, key, _ = call.inputs()
        if bool((key[..., n:, :] != 0).any()):  # else these are empty places of a cache
            level, text = (Level.WRONG, TOP_LEFT)
            if call.attn_mask is not None:
                level, text = (Level.UNSAFE if call.grown else Level.OBSERVED, ALIGNED)
            yield Finding(level, text, "pitfalls/positions-and-cache", {"n": n, "m": m})
    if mask.numbers:
        yield Finding(Level.UNSAFE, NUMBERS, "pitfalls/masks")
    if mask.future:
        yield Finding(Level.WRONG, ONLY_FUTURE, "pitfalls/masks")


def _right(call: Call, mask: Mask, found: Statistics | None) -> Iterator[Finding]:
    if found is not None and found.error is not None and ERROR < found.error < math.inf:
        head, query = found.place
        about = {"head": head, "query": query, "times": found.error}
        yield Finding(Level.WRONG, FAR, "foundations/matrix-form", about)


def _dropout(call: Call, mask: Mask, found: Statistics | None) -> Iterator[Finding]:
    if call.dropout and call.training is False:
        text = DROPPING_ITSELF if call.function == OWN else DROPPING
        yield Finding(Level.WRONG, text, "foundations/dropout", {"share": call.dropout})


def _numbers(call: Call, mask: Mask, found: Statistics | None) -> Iterator[Finding]:
    tensors = dict(zip(("query", "key", "value"), call.inputs(), strict=True))
    bad = [name for name, x in tensors.items() if not is_finite(x)]
    if mask.hidden is not None and bool(mask.hidden.any()):
        behind = mask.hidden.to(call.device)
        for name in [each for each in bad if each != "query"]:
            x = tensors[name][: len(behind)]
            where = ~x.isfinite().all(-1).all(1)  # (b, m)
            if bool(where.any()) and not bool((where & ~behind).any()):
                yield Finding(Level.UNSAFE, BEHIND, "foundations/mask-traps", {"name": name})
    output = call.output if call.after is None else call.after
    if output is not None and not bad and not is_finite(output):
        why = BLIND_ROW if mask.empty or mask.lost else ITSELF
        if _overflows(call, found):
            why = SCORES_INF.fill({"dtype": str(call.dtype).removeprefix("torch.")})
        yield Finding(Level.WRONG, NOT_FINITE, "foundations/mask-traps", {"where": why})


def _overflows(call: Call, found: Statistics | None) -> bool:
    """Whether its scores did, which the model itself computed; they may be gone by now."""
    if call.scores is not None and bool((call.scores == math.inf).any()):
        return True
    highest = 0.0 if found is None or call.function != OWN else found.highest
    return highest > torch.finfo(call.dtype).max


def _blind(call: Call, mask: Mask, found: Statistics | None) -> Iterator[Finding]:
    what = MEAN if mask.finite else NAN if call.function in (OWN, LAYER) else ZEROS
    page = "foundations/mask-traps"
    handled = call.function == OWN and not call.known  # its weights were changed afterwards
    if mask.blind and not mask.future and not handled:
        yield Finding(Level.UNSAFE, BLIND, page, {"count": mask.blind, "what": what})
    if mask.lost:
        yield Finding(Level.UNSAFE, LOST, page, {"sample": mask.lost[0], "what": what})


def _overflow(call: Call, mask: Mask, found: Statistics | None) -> Iterator[Finding]:
    limit = torch.finfo(torch.float16).max
    if found is None or call.function != OWN or call.dtype != torch.float16:
        return
    if found.highest > _LARGE * limit:
        about = {"highest": found.highest}
        yield Finding(Level.UNSAFE, NEAR_OVERFLOW, "pitfalls/numerics", about)


def _mask_cost(call: Call, mask: Mask, found: Statistics | None) -> Iterator[Finding]:
    *_, n, m = call.sizes
    whole = mask.shape is not None and mask.shape[-2:] == (n, m) and n > 1
    learned = mask.pattern == ALL and mask.dtype != torch.bool  # a bias that may still be zero
    if call.function == FUSED and whole and mask.instead is not None and not learned:
        about = {"shape": mask.shape, "bytes": size(mask.bytes), "instead": mask.instead}
        yield Finding(Level.COSTLY, NEEDLESS, "foundations/masks", about)


def _kernel(call: Call, mask: Mask, found: Statistics | None) -> Iterator[Finding]:
    if call.reason is not None:
        asked = call.device.type != "cpu" or call.reason == NEED_WEIGHTS
        inferred = Text("") if asked else INFERRED
        about = {"why": call.reason, "inferred": inferred}
        yield Finding(Level.COSTLY, SLOW, "pitfalls/shapes", about)


def _weights(call: Call, mask: Mask, found: Statistics | None) -> Iterator[Finding]:
    if found is None or call.sizes[3] < SOME:
        return
    head = int(found.first.argmax())
    share = float(found.first[head])
    if share > max(_SINK, _EVEN * found.even) and found.even:
        about = {"share": share, "even": found.even, "head": head}
        yield Finding(Level.OBSERVED, SINKS, "variants/sinks", about)
    head = int(found.largest.argmax())
    largest, spread = float(found.largest[head]), float(found.spread[head])
    if largest > _SATURATED and spread > _SPREAD:
        about = {"largest": largest, "spread": spread, "head": head}
        yield Finding(Level.OBSERVED, SATURATED, "scale/saturation", about)
    even = int(found.uniform().sum())
    if even:
        about = {"count": even, "heads": len(found.entropy)}
        yield Finding(Level.OBSERVED, UNIFORM, "scale/entropy", about)
    for one, other in () if call.laid else found.copies()[:1]:
        about = {"one": one, "other": other}
        yield Finding(Level.OBSERVED, COPIES, "foundations/multi-head", about)


RULES: tuple[Rule, ...] = (
    *(_causal, _right, _dropout, _numbers, _blind, _overflow, _mask_cost, _kernel, _weights),
)


def judge(call: Call, mask: Mask, found: Statistics | None) -> list[Finding]:
    """All that is suspicious about a call, the worst first."""
    findings = [each for rule in RULES for each in rule(call, mask, found)]
    return sorted(findings, key=lambda each: each.level)


def size(count: int) -> str:
    """Bytes as people write them.

    Examples:
        >>> size(812), size(4_194_304)
        ('812 B', '4.19 MB')
    """
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if count >= 10**power:
            return f"{count / 10**power:.3g} {unit}"
    return f"{count} B"
