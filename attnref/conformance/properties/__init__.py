"""The properties, a few files by idea; ``PROPERTIES`` holds them by name, in the order of a check."""

from attnref.conformance.properties.causal import causality
from attnref.conformance.properties.gradients import gradients
from attnref.conformance.properties.masks import mask_polarity
from attnref.conformance.properties.scale import scale
from attnref.conformance.properties.shapes import dtype, shape
from attnref.conformance.properties.weights import convexity, oracle, row_sums
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
        mask_polarity,
        causality,
        gradients,
    )
}
