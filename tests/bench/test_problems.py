"""The tasks, and the exact answers that methods are measured against."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnref import oracle
from attnref.bench import problems
from attnref.bench.problems import TASKS, BenchError, Shape, checked_rows, exact, relative_error


@pytest.fixture
def shape(device):
    return Shape(n=53, heads=4, head_dim=7, dtype=torch.float32, device=device, seed=3)


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
    query, key, value = (
        side.double().cpu().numpy() for side in (problem.query, problem.key, problem.value)
    )
    mask = None if problem.mask is None else problem.mask.dense().cpu().numpy()
    expected, _ = oracle.scaled_dot_product_attention(
        query, key.repeat(groups, axis=1), value.repeat(groups, axis=1), mask
    )
    found = exact(problem).cpu()
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, torch.as_tensor(expected), rtol=0, atol=1e-13)


def test_the_exact_answer_of_latents_reads_keys_and_values_out_of_them(shape):
    """Rounded once less than the keys and values that are kept."""
    problem = TASKS["latent"].make(shape)
    latents = problem["latent"].double().cpu().numpy()[:, None]
    key, value = (
        latents @ up.double().cpu().numpy().swapaxes(1, 2)
        for up in (problem["key_up"], problem["value_up"])
    )
    query = problem.query.double().cpu().numpy()
    expected, _ = oracle.scaled_dot_product_attention(query, key, value)
    found = exact(problem).cpu()
    torch.testing.assert_close(found, torch.as_tensor(expected), rtol=0, atol=1e-13)
    assert abs(key - problem.key.double().cpu().numpy()).max() < 1e-5


def test_the_exact_answer_beside_sinks_is_the_oracles(shape):
    problem = TASKS["sink"].make(shape)
    tensors = (problem.query, problem.key, problem.value, problem["sink"])
    query, key, value, sink = (x.double().cpu().numpy() for x in tensors)
    expected, weights = oracle.scaled_dot_product_attention(
        query, key, value, is_causal=True, sink=sink
    )
    found = exact(problem).cpu()
    torch.testing.assert_close(found, torch.as_tensor(expected), rtol=0, atol=1e-13)
    left = weights[..., -1, :].sum(-1)
    assert left.max() - left.min() > 0.2  # the heads' sinks take different shares


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_exact_answer_of_the_delta_rule_is_the_oracles(shape, dtype):
    """Of the numbers as they are, rounded."""
    problem = TASKS["delta"].make(Shape(**{**vars(shape), "dtype": dtype}))
    tensors = {"query": problem.query, "key": problem.key, "value": problem.value, **problem.given}
    given = {name: one.double().cpu().numpy() for name, one in tensors.items()}
    assert (given["log_decay"] < 0).all()
    assert ((given["beta"] > 0) & (given["beta"] < 1)).all()
    expected, _ = oracle.gated_delta_attention(**given)
    found = exact(problem).cpu()
    torch.testing.assert_close(found, torch.as_tensor(expected), rtol=0, atol=1e-13)


def test_the_exact_answer_of_distances_adds_their_table(shape):
    problem = TASKS["distance"].make(shape)
    query, key, value, bias = (
        x.double().cpu().numpy()
        for x in (problem.query, problem.key, problem.value, problem["bias"])
    )
    i, j = np.arange(shape.n)[:, None], np.arange(shape.n)
    expected, _ = oracle.scaled_dot_product_attention(
        query, key, value, bias[:, j - i + shape.n - 1]
    )
    rows = checked_rows(shape.n)
    found = exact(problem).cpu()
    torch.testing.assert_close(found, torch.as_tensor(expected[..., rows, :]), rtol=0, atol=1e-13)


def test_the_exact_answer_of_two_maps_is_their_difference(shape):
    problem = TASKS["differential"].make(shape)
    assert problem.query.shape == problem.value.shape
    query, key, value = (
        x.double().cpu().numpy() for x in (problem.query, problem.key, problem.value)
    )
    d = query.shape[-1] // 2
    first, second = (
        oracle.scaled_dot_product_attention(query[..., half], key[..., half], value)[0]
        for half in (slice(0, d), slice(d, 2 * d))
    )
    rows = checked_rows(shape.n)
    expected = (first - problem["lambd"] * second)[..., rows, :]
    found = exact(problem).cpu()
    torch.testing.assert_close(found, torch.as_tensor(expected), rtol=0, atol=1e-13)


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


def test_gradients_reach_leaves(shape):
    for task in TASKS:
        problem = TASKS[task].make(shape).with_gradients()
        given = (one for one in problem.given.values() if isinstance(one, torch.Tensor))
        tensors = [problem.query, problem.key, problem.value, *given]
        tensors = [one for one in tensors if one.is_floating_point()]
        assert all(one.requires_grad and one.is_leaf for one in tensors)


def test_the_exact_answer_of_a_layer_is_pytorchs_own_in_float64(shape):
    problem = TASKS["layer"].make(shape)
    module, tokens = copy.deepcopy(problem.layer).double(), problem.query.double()
    expected, _ = module(tokens, tokens, tokens)
    torch.testing.assert_close(exact(problem), expected.detach(), rtol=0, atol=1e-13)


def test_inputs_are_the_same_numbers_in_every_dtype(shape):
    half = Shape(**{**vars(shape), "dtype": torch.bfloat16})
    for task in TASKS.values():
        one, other = task.make(shape), task.make(half)
        assert torch.equal(one.query.bfloat16(), other.query)
        assert torch.equal(one.value.bfloat16(), other.value)


def test_every_query_of_the_sparse_tasks_sees_itself(device):
    shape = Shape(n=1500, heads=1, head_dim=2, dtype=torch.float32, device=device, seed=0)
    for task in ("window", "blocks", "chosen", "packed"):
        assert TASKS[task].make(shape).mask.dense().diagonal(dim1=-2, dim2=-1).all()


def test_one_block_in_ten_is_seen(device):
    shape = Shape(n=20 * 128, heads=1, head_dim=2, dtype=torch.float32, device=device, seed=0)
    assert int(TASKS["blocks"].make(shape)["layout"].sum()) == 40


def test_packed_lengths_are_the_given_ones_at_their_own_total(device):
    for n, expected in ((2900, problems.LENGTHS), (8, (1,) * 8)):
        shape = Shape(n=n, heads=1, head_dim=2, dtype=torch.float32, device=device, seed=0)
        assert TASKS["packed"].make(shape).lengths == expected


def test_too_few_tokens_cannot_be_packed(device):
    shape = Shape(n=7, heads=1, head_dim=2, dtype=torch.float32, device=device, seed=0)
    with pytest.raises(BenchError, match=r"^n: expected at least 8 for task 'packed', got 7\."):
        TASKS["packed"].make(shape)


def test_drafts_are_a_binary_tree_behind_the_other_keys(device):
    shape = Shape(n=53, heads=8, head_dim=2, dtype=torch.float32, device=device, seed=0)
    problem = TASKS["drafts"].make(shape)
    assert problem.query.shape == (1, 8, 16, 2)
    assert problem.key.shape == problem.value.shape == (1, 2, 53, 2)
    # 2^k nodes of the depth k see k + 1 nodes, and one of the depth 4.
    assert problem.mask.count() == 16 * 37 + 1 + 2 * 2 + 4 * 3 + 8 * 4 + 5
    with pytest.raises(BenchError, match=r"^n: expected at least 16 for task 'drafts', got 15\."):
        TASKS["drafts"].make(replace(shape, n=15))


def test_decoding_shares_key_heads_where_they_divide(device):
    for heads, key_heads in ((8, 2), (3, 3)):
        shape = Shape(n=5, heads=heads, head_dim=2, dtype=torch.float32, device=device, seed=0)
        problem = TASKS["decode"].make(shape)
        assert problem.query.shape == (1, heads, 1, 2)
        assert problem.key.shape == problem.value.shape == (1, key_heads, 5, 2)


def test_gradients_reach_new_leaves(shape):
    problem = TASKS["dense"].make(shape)
    copied = problem.with_gradients()
    assert torch.equal(copied.key, problem.key)
    assert copied.key.requires_grad
    assert copied.key.is_leaf
    assert not problem.key.requires_grad


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
    expected = exact(TASKS["dense"].make(shape))
    assert relative_error(expected, expected) == 0.0
    assert relative_error(1.5 * expected, expected) == pytest.approx(0.5)
