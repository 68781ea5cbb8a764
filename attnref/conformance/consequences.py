"""What may follow from a fault that is found already, so that the one to fix comes first."""

from collections.abc import Mapping

_MASKS = (
    "options_together",
    *("float_mask", "mask_broadcast", "mask_with_causal", "padding_amount", "fully_masked"),
    *("fully_masked_gradient", "lowest_mask", "nan_behind_mask", "very_negative_scores"),
    *("scaling_order", "softcap_order", "silent_arguments", "single_token", "window_width"),
    "mask_gradient",
)
_CAUSAL = (
    *("own_token", "alignment", "mask_with_causal", "causal_scale", "window_width"),
    *("options_together", "nan_behind_mask", "very_negative_scores", "silent_arguments"),
)
# What looks at numbers of the output, and takes it for an average with the weights of the formula.
_NUMBERS = (
    *("convexity", "oracle", "scale", "key_permutation", "rescaling", "shift_invariance"),
    *("value_linearity", "half_precision", "nan_seen"),
    *("batch_independence", "head_independence", "mask_polarity", "causality", "large_scores"),
    *("grouped_queries", "dropout_off", "dropout_scale", "gradients", "gradient_penalty"),
    *("strided", "rectangular", "value_width", "empty", "other_sizes"),
)
_STEPS = ("past_kept", "pieces", "sequences_apart", "long_caches", "cache_owns", "step_gradients")
_ALL = (*_NUMBERS, *_MASKS, *_CAUSAL, *_STEPS, "row_sums", "dtype", "inputs_unchanged")

# In the order in which to fix them.
CAUSES: Mapping[str, tuple[str, ...]] = {
    "shape": (*_ALL, "determinism", "memory_growth", "padding_amount"),
    "determinism": _ALL,
    "past_kept": (*_NUMBERS, *_MASKS, *_STEPS, "row_sums"),
    "sequences_apart": (*_NUMBERS, "pieces", "cache_owns", "step_gradients"),
    "row_sums": (*_NUMBERS, *_MASKS, *_CAUSAL),
    "batch_independence": ("convexity", "oracle", "gradients", "single_token", "other_sizes"),
    "head_independence": ("convexity", "oracle", "gradients", "single_token", "other_sizes"),
    "long_caches": ("oracle",),
    "scale": (
        *("oracle", "causal_scale", "gradients", "scaling_order", "half_precision"),
        *("shift_invariance", "large_scores", "very_negative_scores", "single_token"),
    ),
    "oracle": ("gradients",),
    "gradients": ("mask_gradient", "gradient_penalty", "fully_masked_gradient"),
    "mask_polarity": _MASKS,
    "causality": _CAUSAL,
    "own_token": _CAUSAL,
    "fully_masked": ("fully_masked_gradient", "options_together"),
    "mask_with_causal": ("options_together", "silent_arguments"),
    "mask_broadcast": ("options_together",),
}
"""By the name of a property, those whose failure may follow from its own."""


def find_causes(failed: list[str]) -> dict[str, str]:
    """For each of ``failed`` that may follow from another of them, that other one.

    Examples:
        >>> find_causes(["scale", "oracle", "strided"])
        {'oracle': 'scale'}
    """
    found: dict[str, str] = {}
    for cause, effects in CAUSES.items():
        if cause in failed and cause not in found:
            mine = (name for name in effects if name in failed and name != cause)
            found |= {name: cause for name in mine if name not in found}
    return found
