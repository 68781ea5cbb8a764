"""What each property must have."""

import pickle
import re

from attnref.conformance.properties import PROPERTIES, STEP_PROPERTIES, WHOLE_PROPERTIES

NAMES = """shape, dtype, row_sums, convexity, oracle, scale, key_permutation, rescaling,
shift_invariance, value_linearity, batch_independence, head_independence, mask_polarity,
float_mask, mask_broadcast, mask_with_causal, causality, own_token, alignment, causal_scale,
window_width, fully_masked, fully_masked_gradient, lowest_mask, nan_behind_mask, nan_seen,
very_negative_scores, large_scores, half_precision, scaling_order, softcap_order,
options_together, grouped_queries, dropout_off, dropout_scale, gradients, mask_gradient,
gradient_penalty, inputs_unchanged, strided, determinism, rectangular, value_width,
single_token, empty, other_sizes, padding_amount, silent_arguments, memory_growth"""


def test_the_properties_and_their_order():
    assert list(PROPERTIES) == re.split(r",\s+", NAMES)
    assert all(name == prop.name for name, prop in PROPERTIES.items())


def test_a_property_has_a_statement_and_a_formula():
    """Those of functions, of steps and of layers; and each is known again by its name."""
    odd = {
        prop.name
        for kinds in (PROPERTIES, STEP_PROPERTIES, WHOLE_PROPERTIES)
        for prop in kinds.values()
        if prop.formula.count("{") != prop.formula.count("}")
        or "{" in prop.statement.english
        or pickle.loads(pickle.dumps(prop)) is not prop
    }
    assert odd == set()
