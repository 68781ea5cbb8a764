import math
import re

import numpy as np
import pytest
from every import every

from attnref import checks


@every(
    ("shapes", "expected"),
    [
        ([()], ()),
        ([(5,), ()], (5,)),
        ([(2, 1, 7), (3, 1)], (2, 3, 7)),
        ([(1, 1), (5, 7), (1, 7)], (5, 7)),
        ([(0, 5), (1, 5)], (0, 5)),  # 1 stretches to 0 as to any other size
        ([(0,), (3,)], None),
        ([(2, 7), (3, 7)], None),
        ([(2,), (1,), (3,)], None),
    ],
)
def test_broadcast_shape(shapes, expected):
    assert checks.broadcast_shape(*shapes) == expected
    assert checks.broadcast_shape(*reversed(shapes)) == expected
    if expected is None:
        with pytest.raises(ValueError, match="shape mismatch"):
            np.broadcast_shapes(*shapes)
    else:
        assert np.broadcast_shapes(*shapes) == expected


@every(
    ("query", "key", "enable_gqa", "expected"),
    [
        ((5, 3), (7, 3), False, (5, 7)),
        ((2, 1, 5, 3), (11, 7, 3), False, (2, 11, 5, 7)),
        ((6, 5, 3), (2, 7, 3), True, (6, 5, 7)),
        ((1, 6, 5, 3), (11, 6, 7, 3), True, (11, 6, 5, 7)),
        ((0, 5, 3), (0, 7, 3), False, (0, 5, 7)),
        ((2, 0, 3), (2, 0, 3), False, (2, 0, 0)),
    ],
)
def test_scores_shape(query, key, enable_gqa, expected):
    assert checks.scores_shape(query, key, enable_gqa=enable_gqa) == expected


def test_lists_are_shapes_too():
    assert checks.scores_shape([5, 3], [7, 3]) == (5, 7)
    checks.check_value([7, 3], [7, 11])
    checks.check_mask([5, 7], [2, 5, 7])


WRONG_SCORES = {
    "query without length": (
        ((3,), (7, 3), False),
        "query: expected at least 2 dimensions, (..., length, d_k), got shape (3,). "
        "Add the missing leading dimension, for example query[None].",
    ),
    "key without heads": (
        ((2, 5, 3), (7, 3), True),
        "key: expected at least 3 dimensions, (..., heads, length, d_k), got shape (7, 3). "
        "Add the missing leading dimension, for example key[None].",
    ),
    "widths differ": (
        ((5, 3), (7, 2), False),
        "key: expected last dimension 3, as query has, got shape (7, 2) beside query (5, 3). "
        "A dot product needs vectors of one size: project query and key to the same d_k.",
    ),
    "no width": (
        ((5, 0), (7, 0), False),
        "query: expected d_k of at least 1, got shape (5, 0). Vectors without components have no "
        "dot product; check the projection that made them.",
    ),
    "heads do not divide": (
        ((5, 7, 3), (3, 11, 3), True),
        "key: expected a number of heads (dimension -3) that divides query's 5, got 3 in shape "
        "(3, 11, 3). With enable_gqa each key head serves an equal group of query heads.",
    ),
    "no key heads": (
        ((5, 7, 3), (0, 11, 3), True),
        "key: expected a number of heads (dimension -3) that divides query's 5, got 0 in shape "
        "(0, 11, 3). With enable_gqa each key head serves an equal group of query heads.",
    ),
    "fewer heads, perhaps shared": (
        ((2, 6, 5, 3), (2, 3, 7, 3), False),
        "key: expected leading dimensions that broadcast with query's (2, 6), got (2, 3) in shape "
        "(2, 3, 7, 3). If they are fewer heads meant to be shared, pass enable_gqa=True.",
    ),
    "other leading dimensions": (
        ((2, 5, 3), (3, 7, 3), False),
        "key: expected leading dimensions that broadcast with query's (2,), got (3,) in shape "
        "(3, 7, 3). Check the order of the dimensions: (batch, heads, length, d_k).",
    ),
    "batches differ beside heads that could be shared": (
        ((2, 6, 5, 3), (5, 3, 7, 3), False),
        "key: expected leading dimensions that broadcast with query's (2, 6), got (5, 3) in shape "
        "(5, 3, 7, 3). Check the order of the dimensions: (batch, heads, length, d_k).",
    ),
    "batches differ in grouped heads": (
        ((2, 6, 5, 3), (5, 3, 7, 3), True),
        "key: expected leading dimensions that broadcast with query's (2, 6), got (5, 3) in shape "
        "(5, 3, 7, 3). Check the order of the dimensions: (batch, heads, length, d_k).",
    ),
}


@every("case", WRONG_SCORES)
def test_shapes_that_make_no_scores(case):
    (query, key, enable_gqa), text = WRONG_SCORES[case]
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        checks.scores_shape(query, key, enable_gqa=enable_gqa)


@pytest.mark.parametrize("value", [(2, 7, 11), (2, 7, 0)])
def test_values_may_have_a_width_of_their_own(value):
    checks.check_value((2, 7, 3), value)


@every("value", [(2, 5, 3), (3, 7, 3), (7, 3), (1, 7, 3), (1, 2, 7, 3)])
def test_each_key_has_one_value(value):
    text = (
        f"value: expected shape (2, 7, 'd_v'), one row for each key, got {value}. Keys and values "
        "come in pairs: build both from the same sequence; only the last dimension may differ."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        checks.check_value((2, 7, 3), value)


@every("mask", [(), (7,), (5, 1), (5, 7), (1, 1), (3, 1, 7), (2, 3, 5, 7)])
def test_masks_that_fit(mask):
    checks.check_mask(mask, (2, 3, 5, 7))


@every(
    ("mask", "advice"),
    [
        ((2, 7), "For one row of keys a sample write attn_mask[:, None, None, :]."),
        ((2, 5, 7), "For one mask a sample write attn_mask[:, None]."),
        ((7, 5), "Its last two dimensions are queries and keys."),
        ((1, 2, 3, 5, 7), "Its last two dimensions are queries and keys."),
        ((11, 1, 5, 7), "Its last two dimensions are queries and keys."),
    ],
)
def test_masks_that_do_not_fit(mask, advice):
    text = (
        "attn_mask: expected a shape that broadcasts to the scores (2, 3, 5, 7), "
        f"(..., queries, keys), got {mask}. {advice}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        checks.check_mask(mask, (2, 3, 5, 7))


def test_a_mask_may_not_enlarge_the_scores():
    with pytest.raises(ValueError, match=r"broadcasts to the scores \(1, 1, 5, 7\)"):
        checks.check_mask((2, 1, 5, 7), (1, 1, 5, 7))


def test_scale():
    assert checks.check_scale(None, 97) == pytest.approx(1 / math.sqrt(97), rel=1e-15)
    for number in (1, 0.25, 0, -2.0, np.float64(0.5), np.float32(0.5), np.int64(3)):
        scale = checks.check_scale(number, 97)
        assert scale == number
        assert type(scale) is float


@every("scale", [True, "0.5", [0.5], np.bool_(True)])
def test_a_scale_that_is_no_number(scale):
    text = (
        f"scale: expected a number or None, got {type(scale).__name__}. None means 1/sqrt(d_k); "
        "for a factor per head multiply query by it and pass scale=1.0."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        checks.check_scale(scale, 64)


@every("scale", [math.nan, math.inf, -math.inf])
def test_a_scale_that_is_not_finite(scale):
    text = (
        f"scale: expected a finite number, got {scale}. The usual choice is None, here 1/sqrt(64)."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        checks.check_scale(scale, 64)


@every("softcap", [None, 50, 0.5, np.float64(30.0)])
def test_softcap(softcap):
    checks.check_softcap(softcap)


@every("softcap", [True, "50", [50.0]])
def test_a_softcap_that_is_no_number(softcap):
    text = (
        f"softcap: expected a number or None, got {type(softcap).__name__}. It bounds the scores "
        "to (-softcap, softcap); None means no bound."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        checks.check_softcap(softcap)


@every("softcap", [0, 0.0, -50.0, math.inf, math.nan])
def test_a_softcap_that_bounds_nothing(softcap):
    text = (
        f"softcap: expected a positive finite number, got {softcap}. It bounds the scores to "
        "(-softcap, softcap); for no bound pass None."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        checks.check_softcap(softcap)


@every("dropout_p", [0, 0.0, 0.1, 0.999])
def test_dropout(dropout_p):
    checks.check_dropout(dropout_p)


@every("dropout_p", [-0.1, 1, 1.0, 1.5, math.nan])
def test_a_dropout_that_is_no_share(dropout_p):
    text = (
        f"dropout_p: expected a probability in [0, 1), got {dropout_p}. It is the share of weights "
        "to drop, not to keep; in evaluation pass 0.0."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        checks.check_dropout(dropout_p)


@every("dropout_p", [True, "0.1", None])
def test_a_dropout_that_is_no_number(dropout_p):
    text = (
        f"dropout_p: expected a number, got {type(dropout_p).__name__}. It is the share of weights "
        "to drop, not to keep; in evaluation pass 0.0."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        checks.check_dropout(dropout_p)
