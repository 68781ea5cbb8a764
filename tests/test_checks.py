import math
import re

import numpy as np
import pytest

from attnref import checks
from tests.variants.every import every


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


ORDER = r"Check the order of the dimensions: \(batch, heads, length, d_k\)\.$"


@every(
    ("query", "key", "enable_gqa", "message"),
    [
        ((3,), (7, 3), False, r"query: .* at least 2 .* got shape \(3,\)\. .* example"),
        ((2, 5, 3), (7, 3), True, r"key: .* at least 3 .* heads, .* \(7, 3\)\. .* key\[None\]"),
        ((5, 3), (7, 2), False, r"key: expected last dimension 3, .* \(7, 2\) beside query"),
        ((5, 0), (7, 0), False, r"query: expected d_k of at least 1, got shape \(5, 0\)\."),
        ((5, 7, 3), (3, 11, 3), True, r"key: .* heads .* divides query's 5, got 3 in shape"),
        ((5, 7, 3), (0, 11, 3), True, r"key: .* heads .* divides query's 5, got 0 in shape"),
        ((2, 6, 5, 3), (2, 3, 7, 3), False, r"key: .* \(2, 6\), got \(2, 3\) .* enable_gqa=True"),
        ((2, 5, 3), (3, 7, 3), False, rf"key: .* query's \(2,\), got \(3,\) .* {ORDER}"),
        ((2, 6, 5, 3), (5, 3, 7, 3), False, rf"key: .* \(2, 6\), got \(5, 3\) .* {ORDER}"),
        ((2, 6, 5, 3), (5, 3, 7, 3), True, rf"key: .* \(2, 6\), got \(5, 3\) .* {ORDER}"),
    ],
)
def test_shapes_that_make_no_scores(query, key, enable_gqa, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        checks.scores_shape(query, key, enable_gqa=enable_gqa)


@pytest.mark.parametrize("value", [(2, 7, 11), (2, 7, 0)])
def test_values_may_have_a_width_of_their_own(value):
    checks.check_value((2, 7, 3), value)


@every("value", [(2, 5, 3), (3, 7, 3), (7, 3), (1, 7, 3), (1, 2, 7, 3)])
def test_each_key_has_one_value(value):
    text = f"value: expected shape (2, 7, 'd_v'), one row for each key, got {value}. "
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        checks.check_value((2, 7, 3), value)


@every("mask", [(), (7,), (5, 1), (5, 7), (1, 1), (3, 1, 7), (2, 3, 5, 7)])
def test_masks_that_fit(mask):
    checks.check_mask(mask, (2, 3, 5, 7))


@every(
    ("mask", "scores", "advice"),
    [
        ((2, 7), (2, 3, 5, 7), "For one row of keys a sample write attn_mask[:, None, None, :]."),
        ((2, 5, 7), (2, 3, 5, 7), "For one mask a sample write attn_mask[:, None]."),
        ((7, 5), (2, 3, 5, 7), "Its last two dimensions are queries and keys."),
        ((1, 2, 3, 5, 7), (2, 3, 5, 7), "Its last two dimensions are queries and keys."),
        ((11, 1, 5, 7), (2, 3, 5, 7), "Its last two dimensions are queries and keys."),
        ((2, 1, 5, 7), (1, 1, 5, 7), "Its last two dimensions are queries and keys."),
    ],
)
def test_masks_that_do_not_fit(mask, scores, advice):
    """One that would enlarge the scores is among them."""
    text = f"{scores}, (..., queries, keys), got {mask}. {advice}"
    with pytest.raises(ValueError, match=rf"^attn_mask: .* broadcasts .*{re.escape(text)}$"):
        checks.check_mask(mask, scores)


def scale(number):
    return checks.check_scale(number, 64)


def test_scale():
    assert checks.check_scale(None, 97) == pytest.approx(1 / math.sqrt(97), rel=1e-15)
    for number in (1, 0.25, 0, -2.0, np.float64(0.5), np.float32(0.5), np.int64(3)):
        scale = checks.check_scale(number, 97)
        assert scale == number
        assert type(scale) is float


def test_softcaps_and_dropouts_that_are_right():
    for softcap in (None, 50, 0.5, np.float64(30.0)):
        checks.check_softcap(softcap)
    for dropout_p in (0, 0.0, 0.1, 0.999):
        checks.check_dropout(dropout_p)


SHARE, NUMBER = "It is the share of weights to drop", "a number or None"
NAN, INF = math.nan, math.inf


@every(
    ("check", "kind", "wrong", "expected", "advice"),
    [
        (scale, TypeError, (True, "0.5", [0.5], np.bool_(True)), NUMBER, "factor per head"),
        (scale, ValueError, (NAN, INF, -INF), "a finite number", "The usual choice is None"),
        (checks.check_softcap, TypeError, (True, "50", [50.0]), NUMBER, "None means no bound"),
        (checks.check_softcap, ValueError, (0, -50.0, INF, NAN), "a positive", "bound pass None"),
        (checks.check_dropout, TypeError, (True, "0.1", None), "a number", SHARE),
        (checks.check_dropout, ValueError, (-0.1, 1, 1.5, NAN), "a probability", SHARE),
    ],
)
def test_numbers_that_are_wrong(check, kind, wrong, expected, advice):
    for one in wrong:
        came = type(one).__name__ if kind is TypeError else one
        with pytest.raises(kind, match=rf"^\w+: expected {expected}.* got {came}\. .*{advice}"):
            check(one)
