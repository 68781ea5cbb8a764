"""The properties, a few files by idea; ``PROPERTIES`` holds all by name, in their order."""

from attnref.conformance.properties.backward import gradient_penalty, gradients, mask_gradient
from attnref.conformance.properties.causal import alignment, causality, own_token
from attnref.conformance.properties.dropout import dropout_off, dropout_scale
from attnref.conformance.properties.forbidden import (
    fully_masked,
    fully_masked_gradient,
    lowest_mask,
    nan_behind_mask,
)
from attnref.conformance.properties.half import half_precision
from attnref.conformance.properties.heads import grouped_queries
from attnref.conformance.properties.hygiene import (
    determinism,
    inputs_unchanged,
    memory_growth,
    silent_arguments,
    strided,
)
from attnref.conformance.properties.lengths import empty, rectangular, single_token, value_width
from attnref.conformance.properties.masks import (
    float_mask,
    mask_broadcast,
    mask_polarity,
    mask_with_causal,
    padding_amount,
)
from attnref.conformance.properties.numerics import large_scores, nan_seen, very_negative_scores
from attnref.conformance.properties.scaling import causal_scale, scale, scaling_order
from attnref.conformance.properties.shapes import dtype, shape
from attnref.conformance.properties.softcap import softcap_order
from attnref.conformance.properties.steps import (
    cache_owns,
    cache_unchanged,
    long_caches,
    past_kept,
    pieces,
    sequences_apart,
    step_gradients,
)
from attnref.conformance.properties.symmetries import (
    batch_independence,
    head_independence,
    key_permutation,
    rescaling,
    shift_invariance,
    value_linearity,
)
from attnref.conformance.properties.together import options_together, other_sizes
from attnref.conformance.properties.weights import convexity, oracle, row_sums
from attnref.conformance.properties.wholes import whole_property
from attnref.conformance.properties.windows import window_width
from attnref.conformance.property import Property

PROPERTIES: dict[str, Property] = {
    each.name: each
    for each in (
        shape,
        dtype,
        row_sums,
        convexity,
        oracle,
        scale,
        key_permutation,
        rescaling,
        shift_invariance,
        value_linearity,
        batch_independence,
        head_independence,
        mask_polarity,
        float_mask,
        mask_broadcast,
        mask_with_causal,
        causality,
        own_token,
        alignment,
        causal_scale,
        window_width,
        fully_masked,
        fully_masked_gradient,
        lowest_mask,
        nan_behind_mask,
        nan_seen,
        very_negative_scores,
        large_scores,
        half_precision,
        scaling_order,
        softcap_order,
        options_together,
        grouped_queries,
        dropout_off,
        dropout_scale,
        gradients,
        mask_gradient,
        gradient_penalty,
        inputs_unchanged,
        strided,
        determinism,
        rectangular,
        value_width,
        single_token,
        empty,
        other_sizes,
        padding_amount,
        silent_arguments,
        memory_growth,
    )
}
"""Every property by its name, in the order in which they are asked."""

# A step is asked for its past alone, one position at a time, so these say nothing of it, or say it
# in words for other functions; its own properties follow.
_NOT_OF_STEPS = (
    *("key_permutation", "causality", "own_token", "alignment", "causal_scale", "window_width"),
    *("fully_masked_gradient", "gradients", "gradient_penalty", "rectangular", "empty"),
    "memory_growth",
)

STEP_PROPERTIES: dict[str, Property] = {
    name: each for name, each in PROPERTIES.items() if name not in _NOT_OF_STEPS
} | {
    each.name: each
    for each in (
        past_kept,
        pieces,
        sequences_apart,
        long_caches,
        cache_owns,
        cache_unchanged,
        step_gradients,
    )
}
"""What a decoding step with a cache is asked for, by name and in order."""

WHOLE_PROPERTIES: dict[str, Property] = {
    name: whole_property(each) for name, each in PROPERTIES.items()
}
"""What a layer is asked whose query, key and value cannot be had apart, by the same names."""
