"""What the page on the ways not taken says of four methods, at equal cost."""

import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import attnref
from attnref.variants.linformer import linformer_attention, mean_projection
from attnref.variants.lsh import lsh_attention, random_rotations
from attnref.variants.nystrom import nystrom_attention
from attnref.variants.performer import performer_attention, random_projection


def waves(n, d, generator):
    place = torch.arange(n, device=generator.device)[:, None] / n
    options = {"generator": generator, "device": generator.device, "dtype": torch.float64}
    phase, speed = torch.rand(2, d, **options)
    return 2 * torch.sin(2 * torch.pi * ((1 + 2 * speed) * place + phase))


def tokens(kind, n, d, generator):
    """Query, key and value; those of the page."""
    options = {"generator": generator, "device": generator.device, "dtype": torch.float64}
    if kind == "smooth":
        return [waves(n, d, generator) for _ in "qkv"]
    query, key, value = torch.randn(3, n, d, **options)
    if kind == "flat":
        return [query / 4, key / 4, value]
    order = torch.randperm(n, generator=generator, device=generator.device)
    return [1.5 * key[order] + 0.5 * query, 1.5 * key, value]


def low_rank(r, n, d, generator):
    """The methods whose weights have a rank of at most r; Nyström's landmarks are fewer."""
    options = {"device": generator.device, "dtype": torch.float64}
    projection = random_projection(r, d, generator=generator).double()
    means = mean_projection(r, n, **options)
    return {
        "performer": lambda *x: performer_attention(*x, projection=projection),
        "linformer": lambda *x: linformer_attention(
            *x, key_projection=means, value_projection=means
        ),
        "nystrom": lambda *x: nystrom_attention(*x, num_landmarks=r * 33 // 64),
    }


@pytest.mark.claim("low-rank-cannot-be-sharp")
@pytest.mark.parametrize("name", ["performer", "linformer", "nystrom"])
def test_no_low_rank_comes_close_to_sharp_weights(name, generator, device):
    """Eckart and Young: what the singular values beyond r leave is the least error of rank r."""
    n, d, r = 128, 64, 16
    query, key, _ = tokens("peaked", n, d, generator)
    exact = attnref.attention_weights(query, key)
    unit = torch.eye(n, device=device, dtype=torch.float64)
    found = low_rank(r, n, d, generator)[name](query, key, unit)
    assert torch.linalg.matrix_rank(found) <= r
    values = torch.linalg.svdvals(exact)
    least = values[r:].norm() / values.norm()
    assert least > 0.8
    assert (found - exact).norm() / exact.norm() >= least
    # With as many mixtures as keys there is nothing to be lost.
    whole = linformer_attention(query, key, unit, key_projection=unit, value_projection=unit)
    torch.testing.assert_close(whole, exact, rtol=0, atol=1e-12)


@pytest.mark.claim("weights-and-outputs-err-alike")
@pytest.mark.parametrize("name", ["performer", "linformer", "nystrom"])
def test_weights_and_outputs_err_alike_for_independent_values(name, generator, device, randn):
    """Relative errors, over so many columns of values that an average is near its expectation."""
    n, d, r = 128, 64, 16
    query, key, _ = tokens("peaked", n, d, generator)
    value = randn(n, 2000)
    method = low_rank(r, n, d, generator)[name]
    unit = torch.eye(n, device=device, dtype=torch.float64)

    def error(value):
        exact = attnref.scaled_dot_product_attention(query, key, value)
        return ((method(query, key, value) - exact).norm() / exact.norm()).item()

    assert error(value) == pytest.approx(error(unit), rel=0.02)
    assert error(value + 3) < 0.7 * error(unit)  # not so if they have something in common


@pytest.mark.claim("rank-of-a-permutation")
@pytest.mark.parametrize(("n", "r"), [(24, 3), (37, 5), (64, 63)])
def test_a_permutation_is_as_far_from_low_rank_as_can_be(n, r, generator, device):
    table = torch.eye(n, device=device, dtype=torch.float64)
    table = table[torch.randperm(n, generator=generator, device=device)]
    left, values, right = torch.linalg.svd(table)
    best = left[:, :r] * values[:r] @ right[:r]
    error = (best - table).norm() / table.norm()
    assert error.item() == pytest.approx(math.sqrt(1 - r / n), abs=1e-12)


@pytest.mark.claim("a-quarter-of-the-products")
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.audit) for n in (1, 2))])
def test_at_a_quarter_of_the_products(seed, device):
    """The settings of the page; the counter sees every product, for no kernel is fused."""
    n, d = 1024, 64
    generator = torch.Generator(device).manual_seed(seed)
    turns = random_rotations(4, d, num_buckets=16, generator=generator)
    methods = low_rank(128, n, d, generator)
    methods["lsh"] = lambda *x: lsh_attention(*x, rotations=turns, block_size=18)
    errors = {}
    for kind in ("smooth", "flat", "peaked"):
        query, key, value = tokens(kind, n, d, generator)
        exact = attnref.scaled_dot_product_attention(query, key, value)
        mean = (value.mean(0, keepdim=True) - exact).norm()
        for name, method in methods.items():
            with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
                found = method(query, key, value)
            assert 0.23 < counter.get_total_flops() / (4 * n**2 * d) <= 0.255, name
            errors[kind, name] = ((found - exact).norm() / mean).item()
    for name in ("performer", "linformer", "nystrom"):
        assert errors["peaked", name] > 0.98
        assert errors["flat", name] > 0.9
    assert 0.4 < errors["peaked", "lsh"] < 0.6
    assert errors["flat", "lsh"] > 10
    for name in ("linformer", "nystrom"):
        assert errors["smooth", name] < 0.02
    for name in ("performer", "lsh"):
        assert errors["smooth", name] > 0.7
