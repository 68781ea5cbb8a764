"""The second opinion is checked without the first: by hand, by identities, by differences."""

import math
import re
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from attnref import oracle
from tests.variants.every import every

INF = math.inf
close = partial(np.testing.assert_allclose, rtol=1e-13, atol=1e-13)


@pytest.fixture
def normal():
    return np.random.default_rng(0).standard_normal


def test_by_hand():
    """exp(log 3) : exp(log 1) = 3 : 1, so the weights are 3/4 and 1/4."""
    query, key, value = [[math.log(3.0)]], [[1.0], [0.0]], [[8.0, 0.0], [0.0, 4.0]]
    output, weights, lse = oracle.attend(query, key, value)
    close(weights, [[0.75, 0.25]])
    close(output, [[6.0, 1.0]])
    close(lse, [math.log(4.0)])
    found = oracle.attend([[1e5]], [[1.0], [1.0]], value, scale=1.0)
    assert found.lse == 1e5 + math.log(2.0)


def test_equal_keys_are_averaged(normal):
    value = normal((7, 3))
    output, weights, _ = oracle.attend(normal((5, 2)), np.ones((7, 2)), value)
    close(weights, np.full((5, 7), 1 / 7))
    close(output, np.tile(value.mean(0), (5, 1)))


def test_the_scale_is_one_over_the_root_of_the_width():
    """Query and key of ones have the product d_k, so the score is its root, or d_k * scale."""
    query, key = np.ones((1, 5)), np.array([np.ones(5), np.zeros(5)])
    close(oracle.attend(query, key, key).lse, [math.log(math.exp(math.sqrt(5)) + 1)])
    close(oracle.attend(query, key, key, scale=-0.2).lse, [math.log(math.exp(-1) + 1)])


def test_a_mask_leaves_the_other_keys_as_if_alone(normal):
    """A row equals attention over just its allowed keys, however they are forbidden."""
    query, key, value = normal((5, 3)), normal((7, 3)), normal((7, 2))
    allowed = normal((5, 7)) > 0
    allowed[2] = False
    added = np.where(allowed, 0.0, -INF)
    output, weights, lse = oracle.attend(query, key, value, allowed)
    found = oracle.attend(query, key, value, added)
    close(found.output, output)
    close(found.weights, weights)
    for i in range(5):
        keys = np.flatnonzero(allowed[i])
        if i == 2:
            assert len(keys) == 0
            assert lse[i] == -INF
            assert not output[i].any()
            assert not weights[i].any()
            continue
        alone = oracle.attend(query[[i]], key[keys], value[keys])
        close(output[i], alone.output[0])
        close(weights[i, keys], alone.weights[0])
        assert weights[i].sum() == pytest.approx(1.0)
        assert not weights[i, ~allowed[i]].any()


@every(("n", "m"), [(5, 5), (5, 3), (3, 7)])
def test_causal_rows_see_the_keys_up_to_their_own(n, m, normal):
    query, key, value = normal((n, 2)), normal((m, 2)), normal((m, 3))
    output, weights, _ = oracle.attend(query, key, value, is_causal=True)
    for i in range(n):
        seen = min(i + 1, m)
        alone = oracle.attend(query[[i]], key[:seen], value[:seen]).output
        close(output[i], alone[0])
        assert not weights[i, seen:].any()


@pytest.mark.claim("added-number-multiplies-the-odds")
def test_a_float_mask_multiplies_the_odds(normal):
    """Adding log 2 to a score doubles its power."""
    query, key, value = normal((3, 2)), normal((5, 2)), normal((5, 2))
    plain = oracle.attend(query, key, value).weights
    mask = np.zeros(5)
    mask[3] = math.log(2.0)
    weights = oracle.attend(query, key, value, mask).weights
    plain[:, 3] *= 2
    close(weights, plain / plain.sum(1, keepdims=True))


def test_softcap_bounds_the_odds_and_stays_off_the_mask():
    """Scores 1e6 and -1e6 become 2 and -2: odds of e⁴; -inf in the mask still forbids."""
    query, key, value = [[1e6]], [[1.0], [-1.0], [5.0]], [[1.0], [0.0], [100.0]]
    mask = [0.0, 0.0, -INF]
    _, weights, lse = oracle.attend(query, key, value, mask, softcap=2.0)
    odds = math.exp(4.0)
    close(weights, [[odds / (1 + odds), 1 / (1 + odds), 0.0]])
    close(lse, [math.log(2 * math.cosh(2.0))])


def test_leading_dimensions_broadcast_and_masks_with_them(normal):
    query, key, value = normal((2, 1, 3, 2)), normal((5, 7, 2)), normal((5, 7, 3))
    mask = normal((2, 1, 1, 7))
    output, weights, lse = oracle.attend(query, key, value, mask)
    assert output.shape == (2, 5, 3, 3)
    for b in range(2):
        for h in range(5):
            alone = oracle.attend(query[b, 0], key[h], value[h], mask[b, 0])
            close(output[b, h], alone.output)
            close(weights[b, h], alone.weights)
            close(lse[b, h], alone.lse)


def test_consecutive_query_heads_share_a_key_head(normal):
    query, key, value = normal((2, 6, 3, 2)), normal((2, 3, 5, 2)), normal((2, 3, 5, 7))
    output = oracle.attend(query, key, value, enable_gqa=True).output
    for head, shared in enumerate([0, 0, 1, 1, 2, 2]):
        alone = oracle.attend(query[:, head], key[:, shared], value[:, shared]).output
        close(output[:, head], alone)


@every(("n", "m", "b"), [(0, 3, 2), (3, 0, 2), (3, 5, 0), (0, 0, 1)])
def test_empty_sequences(n, m, b):
    query, key, value = np.ones((b, n, 2)), np.ones((b, m, 2)), np.ones((b, m, 5))
    output, weights, lse = oracle.attend(query, key, value)
    assert output.shape == (b, n, 5)
    assert not output.any()
    assert weights.shape == (b, n, m)
    assert lse.shape == (b, n)
    assert (lse == -INF).all()
    found = oracle.gradients(output, query, key, value)
    for gradient, array in zip(found[:3], (query, key, value), strict=True):
        assert gradient.shape == array.shape
        assert not gradient.any()


def test_gradients_by_hand():
    """Two keys with equal scores: p = 1/2, so dS = ±(1/4)(v₀ - v₁) dO, exactly."""
    query, key, value = [[1.0]], [[2.0], [2.0]], [[3.0], [7.0]]
    found = oracle.gradients([[1.0]], query, key, value, [[0.0, 0.0]], scale=0.5)
    slope = Fraction(1, 4) * (3 - 7)
    assert found.attn_mask.tolist() == [[slope, -slope]]
    assert found.query.tolist() == [[0.0]]  # 0.5 · (2 · slope - 2 · slope)
    assert found.key.tolist() == [[slope / 2], [-slope / 2]]
    assert found.value.tolist() == [[0.5], [0.5]]


PROBLEMS = {
    "plain": {},
    "causal": {"is_causal": True},
    "bool": {"attn_mask": "bool"},
    "float": {"attn_mask": "float"},
    "float, causal, softcap, scale": {
        "attn_mask": "float",
        "is_causal": True,
        "softcap": 1.5,
        "scale": 0.7,
    },
    "grouped": {"enable_gqa": True, "softcap": 2.0},
    "bool, a sink for each head": {"attn_mask": "bool", "sink": (2,)},
    "float, causal, a sink for each sample": {
        "attn_mask": "float",
        "is_causal": True,
        "sink": (2, 1),
    },
    "grouped, one sink": {"enable_gqa": True, "sink": ()},
}


@every("name", PROBLEMS)
def test_gradients_are_the_slopes_of_the_values(name, normal):
    """Every derivative against a central difference.

    With the step h = 1e-5 the difference errs by h²/6 times a third derivative (below 100 here)
    and by about eps/h = 2e-11 from rounding: 1e-8 bounds both.
    """
    options = dict(PROBLEMS[name])
    heads = 1 if "enable_gqa" in options else 2
    # Keys, values and a float mask serve both samples, so their gradients are sums over them.
    arrays = [normal((2, 2, 3, 2)), normal((1, heads, 5, 2)), normal((1, heads, 5, 3))]
    kind = options.pop("attn_mask", None)
    allowed = normal((2, 1, 3, 5)) > -0.5
    allowed[0, 0, 1] = False
    if kind == "float":
        arrays.append(np.where(allowed[0], normal((3, 5)), -INF)[None])
    else:
        arrays.append(allowed if kind else None)
    shape = options.pop("sink", None)
    arrays.append(None if shape is None else np.array(normal(shape)))
    grad_output, grad_lse = normal((2, 2, 3, 3)), normal((2, 2, 3))

    def loss() -> float:
        query, key, value, mask, sink = arrays
        output, _, lse = oracle.attend(query, key, value, mask, sink=sink, **options)
        reached = np.where(np.isfinite(lse), lse, 0.0)  # -inf, without a slope, for no keys
        return float((grad_output * output).sum() + (grad_lse * reached).sum())

    *tensors, sink = arrays
    found = oracle.gradients(grad_output, *tensors, sink=sink, **options, grad_lse=grad_lse)
    assert (found.attn_mask is None) == (kind != "float")
    assert (found.sink is None) == (shape is None)
    for array, gradient in zip(arrays, found, strict=True):
        if gradient is None:
            continue
        assert gradient.shape == array.shape
        for place in np.ndindex(*array.shape):
            kept, step = array[place], 1e-5
            array[place] = kept + step
            above = loss()
            array[place] = kept - step
            below = loss()
            array[place] = kept
            assert (above - below) / (2 * step) == pytest.approx(gradient[place], abs=1e-8)


def test_gradients_without_a_path_are_zero(normal):
    """A key that nobody may see, and a query that may see nobody, move nothing."""
    query, key, value = normal((3, 2)), normal((5, 2)), normal((5, 2))
    allowed = np.ones((3, 5), dtype=bool)
    allowed[:, 4] = allowed[1] = False
    key[4] = value[4] = query[1] = math.nan  # left out of every sum, so never even read
    found = oracle.gradients(normal((3, 2)), query, key, value, allowed)
    for gradient, row in zip(found[:3], (1, 4, 4), strict=True):
        assert np.isfinite(gradient).all()
        assert not gradient[row].any()
        assert gradient[0].any()


def test_inputs_are_left_as_they_were(normal):
    arrays = [normal((3, 2)), normal((5, 2)), normal((5, 2)), normal((3, 5))]
    copies = [array.copy() for array in arrays]
    oracle.attend(*arrays, softcap=2.0)
    oracle.gradients(np.ones((3, 2)), *arrays, softcap=2.0)
    for array, copy in zip(arrays, copies, strict=True):
        assert (array == copy).all()


WRONG = {
    "key: expected last dimension 2": {"key": np.ones((5, 3)), "value": np.ones((5, 3))},
    "value: expected shape (5, 'd_v')": {"value": np.ones((7, 2))},
    "attn_mask: expected a shape that broadcasts to the scores (3, 5)": {
        "attn_mask": np.ones((5, 3), dtype=bool)
    },
    "scale: expected a finite number": {"scale": math.nan},
    "softcap: expected a positive finite number": {"softcap": 0.0},
    "query: expected at least 3 dimensions": {"enable_gqa": True},
}


@every("text", WRONG)
def test_errors_name_the_argument(text):
    arguments = {"query": np.ones((3, 2)), "key": np.ones((5, 2)), "value": np.ones((5, 2))}
    arguments |= WRONG[text]
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        oracle.attend(**arguments)
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        oracle.gradients(np.ones((3, 2)), **arguments)


def test_a_gradient_has_the_shape_of_its_result():
    given = {"query": np.ones((3, 2)), "key": np.ones((5, 2)), "value": np.ones((5, 2))}
    for name, shape, expected in (("grad_output", (3, 5), "(3, 2)"), ("grad_lse", (3, 1), "(3,)")):
        gradients = {"grad_output": np.ones((3, 2)), name: np.ones(shape)}
        text = f"{name}: expected shape {expected}, as the result has whose change it weighs, got"
        with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
            oracle.gradients(**given, **gradients)


def test_inf_under_a_vanished_weight_is_still_inf():
    """e^-1000 is 0 in float64, but a key that is allowed has some weight."""
    key, value = [[0.0], [1.0]], [[math.inf], [1.0]]
    output, weights, _ = oracle.attend([[1000.0]], key, value, scale=1.0)
    assert weights.tolist() == [[0.0, 1.0]]
    assert output.tolist() == [[math.inf]]


def test_a_gated_delta_state_by_hand():
    """Halved, then the key's value replaced by three quarters: 8 -> 4 -> 1 + 3 * 20 / 4 = 16."""
    key, value = [[1.0, 0.0], [1.0, 0.0]], [[8.0], [20.0]]
    output, state = oracle.gated_delta_attention(
        [[1.0, 0.0], [1.0, 1.0]],
        key,
        value,
        log_decay=np.log([0.5, 0.5]),
        beta=[1.0, 0.75],
        state=[[100.0], [4.0]],
        scale=1.0,
    )
    close(state, [[16.0], [1.0]])
    close(output, [[8.0], [17.0]])


def test_a_gate_forgets_by_component_and_a_decay_alike():
    start, token, zero = np.ones((2, 3)), np.ones((1, 2)), np.zeros((1, 3))
    for log_decay, kept in (([[0.0, -np.inf]], [1.0, 0.0]), ([math.log(0.5)], [0.5, 0.5])):
        given = {"log_decay": log_decay, "state": start}
        output, state = oracle.gated_delta_attention(token, 0 * token, zero, **given)
        close(state, np.outer(kept, np.ones(3)))
        close(output, sum(kept) / math.sqrt(2) * np.ones((1, 3)))


def test_without_decay_and_rate_a_state_is_a_sum(normal):
    query, key, value = normal((2, 5, 3)), normal((1, 5, 3)), normal((1, 5, 2))
    output, state = oracle.gated_delta_attention(query, key, value, scale=2.0)
    close(state, np.stack([key[0].T @ value[0]] * 2))
    close(output, 2.0 * np.tril(query @ key.swapaxes(1, 2)) @ value)
    assert (output.shape, state.shape) == ((2, 5, 2), (2, 3, 2))


def test_a_gated_delta_of_misfits_is_refused(normal):
    with pytest.raises(ValueError, match=r"^key: expected last dimension 3, as query has"):
        oracle.gated_delta_attention(normal((5, 3)), normal((5, 2)), normal((5, 2)))
    with pytest.raises(ValueError, match=r"^value: expected shape \(5, 'd_v'\)"):
        oracle.gated_delta_attention(normal((5, 3)), normal((5, 3)), normal((4, 2)))
