"""Bugs of attention code that were reported in public, each in a wrong and a right version.

The reports stand above the pairs; facts come from there, code was written anew. ``CASES`` says how
each is asked, ``NOT_YET`` what the checker does not tell apart so far.
"""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple


class Case(NamedTuple):
    """A report, a pair in a file, the property that names the fault, and words that it says then.

    ``options`` are those of the check: ``cache`` and ``against`` are names in the file, and a
    ``strict`` check fails for what is unsafe.
    """

    place: str
    asked: str
    rule: str
    mentions: str
    options: Mapping[str, Any] = {}

    def load(self, kind: str) -> Any:
        """The version that is ``"bad"`` or ``"good"``."""
        name = self.place.split(".")[1]
        return self.find(f"{kind.title()}{name}" if name.istitle() else f"{kind}_{name}")

    def find(self, name: str) -> Any:
        """What has that name in the file of the pair."""
        return getattr(importlib.import_module(f"{__name__}.{self.place.split('.')[0]}"), name)


_BESIDE = {"against": "good"}
CASES = [
    Case("windows.single_query", "step", "window_default", "the window is dropped"),
    Case("windows.prompt", "step", "pieces", "Fed in pieces of 13"),
    Case("sinks.split", "function", "sink_share", "beside attn_mask"),
    Case("sinks.streaming", "step", "pieces", "Fed in pieces of"),
    Case(
        *("recurrences.normalizer_axis", "function", "head_independence", "the other heads"),
        {**_BESIDE, "layout": "bnhd"},
    ),
    Case("recurrences.packed_state", "function", "borders", "notices the one before it"),
    Case(
        *("latent.mscale", "function", "scale", "as a factor of 0.125, stated is 0.199"),
        {"scale": "lambda d: (1 + 0.0707 * math.log(40)) ** 2 / d**0.5"},
    ),
    Case("latent.absorbed_pairs", "function", "switches", "With absorbed=True", _BESIDE),
    Case("latent.rotated_part", "function", "oracle", "", _BESIDE),
    Case(
        *("recurrences.decay_start", "function", "borders", "before it"),
        {**_BESIDE, "draw": {"initial_state": "normal(b, k, d, e)"}},
    ),
    Case("recurrences.l2norm", "function", "silent_arguments", "use_qk_l2norm_in_kernel"),
    Case("recurrences.Padded", "layer", "mask_polarity", "is hidden from position"),
    Case("recurrences.normalizer_step", "step", "pieces", "one position at a time", _BESIDE),
    Case(
        *("packed.borders", "function", "borders", "notices the one before it"),
        {"draw": {"is_token": "ones(n)"}},
    ),
    Case("paged.table", "function", "batch_independence", "the other samples"),
    Case("paged.last_page", "function", "lengths_of_keys", "sees keys beyond its length"),
    Case("paged.eager_page", "step", "row_sums", "expected 1"),
    Case("steps.slots", "step", "row_sums", "expected 1", {"cache": "make_slots"}),
    Case("steps.ring", "step", "pieces", "Fed in pieces of 9 + 4"),
    Case("steps.prompt", "step", "pieces", "a causal mask is missing", {"cache": "make_list"}),
    Case("steps.mask", "step", "mask_polarity", "attn_mask is accepted but ignored"),
    Case("rope.position", "step", "pieces", "one position at a time"),
    Case(
        *("rope.angles", "function", "other_sizes", "though small inputs are answered right"),
        {**_BESIDE, "dtype": "bfloat16"},
    ),
    Case("bias.sign", "function", "slopes", "the slopes of ALiBi, upwards"),
    Case("heads.head_map", "function", "grouped_queries", "head 1 does not read key head 0"),
    Case("masks.flash_mask", "function", "switches", "With flash=True"),
    Case("masks.Causal", "layer", "row_sums", "sum to 0"),
    Case(
        *("masks.encoder_mask", "function", "mask_polarity", "attn_mask is accepted but ignored"),
        {"names": {"attn_mask": "encoder_attention_mask"}},
    ),
    Case("masks.softcap", "function", "softcap_order", "softcap=0.5 is accepted but ignored"),
    Case("merging.empty", "function", "fully_masked", "gets NaN", {"strict": True}),
    Case("merging.start", "function", "very_negative_scores", "all exponentials vanish"),
    Case("merging.overflow", "function", "large_scores", "the exponential overflows"),
    Case("merging.base", "function", "scale", "not exponentials of the scores"),
    Case("precision.scales", "function", "descaling", "k_scale and v_scale are accepted but"),
    Case("precision.head_scales", "function", "descaling", "the first sample and head"),
    Case(
        *("precision.int8", "step", "oracle", "relative error"),
        {"approximate": True, "bound": 0.05},
    ),
    Case("branches.Dropping", "layer", "determinism", "draws random numbers"),
    Case("branches.weights", "function", "switches", "need_weights=True is_causal is dropped"),
    Case("differential.difference", "function", "oracle", "", _BESIDE),
    Case("sparse.own_block", "function", "causality", "in its future", _BESIDE),
    Case(
        *("sparse.chosen", "function", "causality", "after position 1 change"),
        {**_BESIDE, "layout": "bhnd"},
    ),
    Case("sparse.short", "function", "causality", "in its future", _BESIDE),
    Case("cross.window", "function", "oracle", "small inputs are answered right"),
]

NOT_YET = {
    "windows.bound": "good: sliding_window=0, which leaves no key, counts as wrong",
    "steps.lengths": "both: cache_seqlens, without which it fails, is not given",
    "bias.bias_step": "good: it takes minutes",
}
