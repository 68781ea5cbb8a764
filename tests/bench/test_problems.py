"""The tasks, and the exact answers that methods are measured against."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnref import oracle
from attnref.bench import problems
from attnref.bench.problems import (
    TASKS,
    BenchError,
    Shape,
    checked_rows,
    exact_output,
    relative_error,
)


@pytest.fixture
def shape(device):
    return Shape(n=53, heads=4, head_dim=7, dtype=torch.float32, device=device, seed=3)


def in_numpy(problem, *names):
    """Query, key and value, and what else is named, as the oracle takes them."""
    tensors = (problem.query, problem.key, problem.value, *map(problem.__getitem__, names))
    return [one.double().cpu().numpy() for one in tensors]


def assert_exact(problem, expected):
    found = exact_output(problem).cpu()
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, torch.as_tensor(expected), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "task", ["dense", "causal", "window", "blocks", "chosen", "packed", "decode", "drafts"]
)
def test_the_exact_answer_is_the_oracles(shape, task, monkeypatch):
    monkeypatch.setattr(problems, "WINDOW", 5)
    monkeypatch.setattr(problems, "BLOCK_SIZE", 11)
    monkeypatch.setattr(problems, "CHOSEN_SIZE", 7)
    monkeypatch.setattr(problems, "_ROWS_AT_ONCE", 5)
    problem = TASKS[task].make(shape)
    groups = problem.query.shape[1] // problem.key.shape[1]
    query, key, value = in_numpy(problem)
    mask = None if problem.mask is None else problem.mask.dense().cpu().numpy()
    key, value = key.repeat(groups, axis=1), value.repeat(groups, axis=1)
    assert_exact(problem, oracle.attend(query, key, value, mask).output)


def test_the_exact_answer_of_latents_reads_keys_and_values_out_of_them(shape):
    """Rounded once less than the keys and values that are kept."""
    problem = TASKS["latent"].make(shape)
    query, rounded, _, latent, *ups = in_numpy(problem, "latent", "key_up", "value_up")
    key, value = (latent[:, None] @ up.swapaxes(1, 2) for up in ups)
    assert_exact(problem, oracle.attend(query, key, value).output)
    assert abs(key - rounded).max() < 1e-5


def test_the_exact_answer_beside_sinks_is_the_oracles(shape):
    problem = TASKS["sink"].make(shape)
    *tensors, sink = in_numpy(problem, "sink")
    expected, weights, _ = oracle.attend(*tensors, is_causal=True, sink=sink)
    assert_exact(problem, expected)
    left = weights[..., -1, :].sum(-1)
    assert left.max() - left.min() > 0.2  # the heads' sinks take different shares


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_exact_answer_of_the_delta_rule_is_the_oracles(shape, dtype):
    """Of the numbers as they are, rounded."""
    problem = TASKS["delta"].make(replace(shape, dtype=dtype))
    names = ("query", "key", "value", *problem.given)
    given = dict(zip(names, in_numpy(problem, *problem.given), strict=True))
    assert (given["log_decay"] < 0).all()
    assert ((given["beta"] > 0) & (given["beta"] < 1)).all()
    assert_exact(problem, oracle.gated_delta_attention(**given)[0])


def test_the_exact_answer_of_distances_adds_their_table(shape):
    problem = TASKS["distance"].make(shape)
    *tensors, bias = in_numpy(problem, "bias")
    i, j = np.arange(shape.n)[:, None], np.arange(shape.n)
    expected = oracle.attend(*tensors, bias[:, j - i + shape.n - 1]).output
    assert_exact(problem, expected[..., checked_rows(shape.n), :])


def test_the_exact_answer_of_two_maps_is_their_difference(shape):
    problem = TASKS["differential"].make(shape)
    query, key, value = in_numpy(problem)
    assert query.shape == value.shape
    d = query.shape[-1] // 2
    first, second = (
        oracle.attend(query[..., half], key[..., half], value).output
        for half in (slice(0, d), slice(d, 2 * d))
    )
    expected = first - float(problem["lambd"]) * second
    assert_exact(problem, expected[..., checked_rows(shape.n), :])


def test_pages_hold_what_the_padded_cache_does_before_the_ends(shape):
    problem = TASKS["paged"].make(shape)
    assert problem.lengths[0] == shape.n
    assert len(problem["block_table"].unique()) == len(problem["key"]) + 1  # and -1
    for row, length in enumerate(problem.lengths):
        for j in range(length):
            page = problem["block_table"][row, j // problems.PAGE_SIZE]
            place = page, j % problems.PAGE_SIZE
            assert torch.equal(problem["key"][place], problem.key[row, :, j])
            assert torch.equal(problem["value"][place], problem.value[row, :, j])


def test_gradients_reach_new_leaves(shape):
    for task in TASKS.values():
        problem = task.make(shape)
        copied = problem.with_gradients()
        given = (one for one in copied.given.values() if isinstance(one, torch.Tensor))
        tensors = [copied.query, copied.key, copied.value, *given]
        tensors = [one for one in tensors if one.is_floating_point()]
        assert all(one.requires_grad and one.is_leaf for one in tensors)
        assert torch.equal(copied.key, problem.key)
        assert not problem.key.requires_grad


def test_the_exact_answer_of_a_layer_is_pytorchs_own_in_float64(shape):
    problem = TASKS["layer"].make(shape)
    module, tokens = copy.deepcopy(problem.layer).double(), problem.query.double()
    expected, _ = module(tokens, tokens, tokens)
    torch.testing.assert_close(exact_output(problem), expected.detach(), rtol=0, atol=1e-13)


def test_inputs_are_the_same_numbers_in_every_dtype(shape):
    half = replace(shape, dtype=torch.bfloat16)
    for task in TASKS.values():
        one, other = task.make(shape), task.make(half)
        assert torch.equal(one.query.bfloat16(), other.query)
        assert torch.equal(one.value.bfloat16(), other.value)


def make(task, device, n, heads=1):
    shape = Shape(n=n, heads=heads, head_dim=2, dtype=torch.float32, device=device, seed=0)
    return TASKS[task].make(shape)


def test_every_query_of_the_sparse_tasks_sees_itself(device):
    for task in ("window", "blocks", "chosen", "packed"):
        assert make(task, device, 1500).mask.dense().diagonal(dim1=-2, dim2=-1).all()


def test_one_block_in_ten_is_seen(device):
    assert int(make("blocks", device, 20 * 128)["layout"].sum()) == 40


def test_packed_lengths_are_the_given_ones_at_their_own_total(device):
    for n, expected in ((2900, problems.LENGTHS), (8, (1,) * 8)):
        assert make("packed", device, n).lengths == expected


def test_drafts_are_a_binary_tree_behind_the_other_keys(device):
    problem = make("drafts", device, 53, heads=8)
    assert problem.query.shape == (1, 8, 16, 2)
    assert problem.key.shape == problem.value.shape == (1, 2, 53, 2)
    # 2^k nodes of the depth k see k + 1 nodes, and one of the depth 4.
    assert problem.mask.count() == 16 * 37 + 1 + 2 * 2 + 4 * 3 + 8 * 4 + 5


@pytest.mark.parametrize(("task", "fewest"), [("packed", 8), ("drafts", 16)])
def test_too_few_tokens_are_refused(device, task, fewest):
    message = rf"^n: expected at least {fewest} for task '{task}', got {fewest - 1}\."
    with pytest.raises(BenchError, match=message):
        make(task, device, fewest - 1, heads=8)


def test_decoding_shares_key_heads_where_they_divide(device):
    for heads, key_heads in ((8, 2), (3, 3)):
        problem = make("decode", device, 5, heads)
        assert problem.query.shape == (1, heads, 1, 2)
        assert problem.key.shape == problem.value.shape == (1, key_heads, 5, 2)


@pytest.mark.claim("bench-checks-every-place")
def test_checked_rows_fall_on_every_place_in_a_block():
    """Every power of two, what lies beside it, and the lengths between that are measured too."""
    powers = [2**k for k in range(7, 15)]
    for n in [n + beside for n in powers for beside in (-1, 0, 1)] + [725, 1450, 2900]:
        rows = range(n)[checked_rows(n)]
        assert {row % 128 for row in rows} == set(range(min(n, 128)))
        assert len(rows) == min(n, 128)
        assert rows[-1] == n - 1
        assert n < 512 or rows[0] < 0.3 * n
    assert list(range(97)[checked_rows(97)]) == list(range(97))


def test_the_error_is_relative_and_sees_every_checked_row(shape):
    expected = exact_output(TASKS["dense"].make(shape))
    assert relative_error(expected, expected) == 0.0
    assert relative_error(1.5 * expected, expected) == pytest.approx(0.5)
