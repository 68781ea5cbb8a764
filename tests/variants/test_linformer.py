"""Linformer: attention to mixtures of keys, and its error against their number."""

import itertools
import math
import re

import pytest
import torch

import attnref
from attnref.variants.linformer import METHOD, linformer_attention, mean_projection
from tests.variants.every import every

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


@pytest.mark.claim("linformer-exact-for-a-permutation")
def test_it_is_exact_for_a_permutation(device, generator, randn):
    query, key, value = randn(2, 7, 5), randn(2, 11, 5), randn(2, 11, 3)
    exact = attnref.scaled_dot_product_attention(query, key, value)
    order = torch.randperm(11, generator=generator, device=device)
    permutation = torch.eye(11, device=device, dtype=torch.float64)[order]
    ours = linformer_attention(
        query, key, value, key_projection=permutation, value_projection=permutation
    )
    torch.testing.assert_close(ours, exact, **CLOSE)
    # Keys and values in two different orders are another matter.
    apart = linformer_attention(
        query, key, value, key_projection=permutation, value_projection=permutation.roll(1, 0)
    )
    assert (apart - exact).abs().max() > 0.1


@pytest.mark.claim("runs-have-a-causal-form")
@pytest.mark.parametrize("run", [1, 4, 16])
def test_runs_of_their_own_read_no_future_and_can_be_cached(run, randn):
    """Each finished run is one key, with ln w on its score; the open run has its keys singly."""
    n, d = 64, 5
    query, key, value = randn(n, d), randn(n, d), randn(n, 3)
    means = mean_projection(n // run, n, dtype=key.dtype, device=key.device)

    def whole(key, value):
        i = torch.arange(n, device=key.device)[:, None]
        j, r = (torch.arange(count, device=key.device) for count in (n, n // run))
        # Runs that ended before i's own began.
        weigh = ((r + 1) * run <= i // run * run).to(key.dtype)
        single = ((j // run == i // run) & (j <= i)).to(key.dtype)
        bias = torch.cat([weigh.log() + math.log(run), single.log()], -1)
        return attnref.scaled_dot_product_attention(
            query, torch.cat([means @ key, key]), torch.cat([means @ value, value]), bias
        )

    ours = whole(key, value)
    changed = [x.clone() for x in (key, value)]
    for x in changed:
        x[40:] = randn(*x[40:].shape)
    assert torch.equal(whole(*changed)[:40], ours[:40])
    assert (whole(*changed)[40:] - ours[40:]).abs().amax(-1).min() > 1e-3
    # Token by token, from a cache to which one mixed key a run is appended and none is changed.
    mixed_key, mixed_value = key[:0], value[:0]
    for i in range(n):
        start = i // run * run
        open_run = slice(start, i + 1)
        weight = key.new_tensor([run] * (start // run) + [1] * (i + 1 - start))
        step = attnref.scaled_dot_product_attention(
            query[i : i + 1],
            torch.cat([mixed_key, key[open_run]]),
            torch.cat([mixed_value, value[open_run]]),
            weight.log()[None],
        )
        torch.testing.assert_close(step[0], ours[i], **CLOSE)
        if i + 1 - start == run:
            mixed_key = torch.cat([mixed_key, key[open_run].mean(0, keepdim=True)])
            mixed_value = torch.cat([mixed_value, value[open_run].mean(0, keepdim=True)])
    assert len(mixed_key) == n // run
    # Where the keys of a run are equal, the softmax over all keys up to one's own is what it is.
    equal = key[::run].repeat_interleave(run, 0)
    exact = attnref.scaled_dot_product_attention(query, equal, value, is_causal=True)
    torch.testing.assert_close(whole(equal, value), exact, **CLOSE)


@pytest.mark.claim("linformer-error-needs-structure")
def test_the_error_falls_with_the_rank_on_smooth_data_and_not_on_random(device, generator, randn):
    n, d = 256, 8
    place = torch.arange(n, device=device, dtype=torch.float64)[:, None] / n
    numbers = torch.rand(3, 2, d, device=device, generator=generator, dtype=torch.float64)
    path = [
        2 * torch.sin(2 * math.pi * (1 + speed) * place + 7 * phase) for phase, speed in numbers
    ]

    def errors(query, key, value, ranks):
        exact = attnref.scaled_dot_product_attention(query, key, value)
        for rank in ranks:
            means = mean_projection(rank, len(key), dtype=key.dtype, device=device)
            ours = linformer_attention(
                query, key, value, key_projection=means, value_projection=means
            )
            yield ((ours - exact).norm() / exact.norm()).item()

    smooth = list(errors(*path, (4, 8, 16, 32, 64)))
    # Means of runs half as long are off by half as much, and their square is what remains.
    for longer, shorter in itertools.pairwise(smooth):
        assert shorter == pytest.approx(longer / 4, rel=0.2)
    assert min(errors(randn(n, d), randn(n, d), randn(n, d), (4, 8, 16, 32, 64))) > 0.5


@pytest.mark.claim("mixtures-weigh-alike")
def test_a_run_of_equal_keys_weighs_as_one_key(device):
    """Why it is another function: mixtures of 3 tokens and of 1 count alike."""
    tokens = torch.ones(4, 1, device=device)
    value = torch.tensor([[0.0], [0.0], [0.0], [1.0]], device=device)
    mixing = torch.tensor([[1 / 3, 1 / 3, 1 / 3, 0], [0, 0, 0, 1]], device=device)
    ours = linformer_attention(
        tokens, tokens, value, key_projection=mixing, value_projection=mixing
    )
    assert (ours == 0.5).all()
    assert (attnref.scaled_dot_product_attention(tokens, tokens, value) == 0.25).all()
    # Where the scores differ too: one key of each kind, and not three of the first.
    query, key = 2 * tokens[:1], torch.tensor([[1.0], [1.0], [1.0], [1.5]], device=device)
    ours = linformer_attention(query, key, value, key_projection=mixing, value_projection=mixing)
    assert ours.item() == pytest.approx(1 / (1 + math.exp(2 * 1.0 - 2 * 1.5)))
    exact = attnref.scaled_dot_product_attention(query, key, value).item()
    assert exact == pytest.approx(1 / (1 + 3 * math.exp(2 * 1.0 - 2 * 1.5)))


@every(("rank", "length"), [(1, 7), (3, 7), (7, 7), (4, 12)])
def test_the_mean_projection_takes_means_of_runs(rank, length, device, randn):
    means = mean_projection(rank, length, dtype=torch.float64, device=device)
    tokens = randn(length, 3)
    edges = [-(-i * length // rank) for i in range(rank + 1)]
    expected = torch.stack([tokens[a:b].mean(0) for a, b in itertools.pairwise(edges)])
    torch.testing.assert_close(means @ tokens, expected, rtol=0, atol=1e-15)
    lengths = (means > 0).sum(-1)
    assert lengths.max() - lengths.min() <= 1


@every(
    ("change", "message"),
    [
        ({"value": (7, 3)}, "value: expected shape (5, 'd_v')"),
        ({"key_projection": (4, 7)}, "key_projection: expected shape (..., r, 5)"),
        ({"key_projection": (5,)}, "key_projection: expected shape (..., r, 5)"),
        ({"value_projection": (4, 7)}, "value_projection: expected shape (..., r, 5), "),
        ({"value_projection": (3, 5)}, "value_projection: expected 4 rows, as key_projection"),
    ],
)
def test_what_does_not_fit_is_named(change, message, randn):
    shapes = {"query": (7, 3), "key": (5, 3), "value": (5, 3)}
    shapes |= {"key_projection": (4, 5), "value_projection": (4, 5)} | change
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        linformer_attention(**{name: randn(*shape) for name, shape in shapes.items()})


def test_projections_have_the_dtype_of_the_query(randn):
    one, e = randn(5, 3), randn(4, 5)
    with pytest.raises(TypeError, match=r"^key_projection: expected torch\.float64, the dtype"):
        linformer_attention(one, one, one, key_projection=e.float(), value_projection=e)


def test_a_rank_is_at_most_the_length():
    for wrong, kind in ((0, ValueError), (8, ValueError), (True, TypeError), (2.0, TypeError)):
        with pytest.raises(kind, match=r"^rank: expected an integer between 1 and 7"):
            mean_projection(wrong, 7)


def test_keys_and_values_have_projections_of_their_own(randn, assert_same):
    """Those of a head too; learned in the model, they get gradients."""
    inputs = [randn(2, 3, n, d).requires_grad_() for n, d in ((7, 5), (11, 5), (11, 2))]
    e, f = randn(4, 11).requires_grad_(), randn(3, 4, 11).requires_grad_()
    options = {"key_projection": e, "value_projection": f, "scale": 0.7}
    expected = METHOD.formula(*inputs, **options)
    assert_same(linformer_attention(*inputs, **options), expected, [*inputs, e, f])
