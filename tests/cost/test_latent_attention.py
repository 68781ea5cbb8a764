"""Both orders of latent attention run under a counter of what they really do."""

from dataclasses import replace

import pytest
import torch

from attnref import cost
from attnref.cost import Sizes
from tests.cost.counter import Counter
from tests.variants.every import every

D_C, D_R = 11, 3
SIZES = Sizes(n=5, m=13, d_k=7, d_v=2, batch=2, num_heads=3)


def tensors(sizes, generator):
    b, h, n, m = sizes.batch, sizes.num_heads, sizes.n, sizes.m
    shapes = {
        "query": (b, h, n, sizes.d_k),
        "query_rotary": (b, h, n, D_R),
        "latent": (b, m, D_C),
        "key_rotary": (b, m, D_R),
        "key_up": (h, sizes.d_k, D_C),
        "value_up": (h, sizes.d_v, D_C),
    }
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def core(query, key, value):
    return (query @ key.mT).softmax(-1) @ value


def program(given, absorb):
    """As the docstring has it, with the core as it is written; and what lies in memory."""
    q, r, c = given["query"], given["key_rotary"][:, None], given["latent"][:, None]
    if absorb:
        query = q @ given["key_up"]
        key = torch.cat([c, r], -1)
        averages = core(torch.cat([query, given["query_rotary"]], -1), key, c)
        return averages @ given["value_up"].mT, (query, averages)
    key, value = c @ given["key_up"].mT, c @ given["value_up"].mT
    whole = torch.cat([key, r.expand(*key.shape[:-1], D_R)], -1)
    output = core(torch.cat([q, given["query_rotary"]], -1), whole, value)
    return output, (key, value)


@pytest.mark.claim("latent-costs-what-is-counted")
@pytest.mark.parametrize("absorb", [True, False])
@every("n", [1, 5, 13])
def test_products_and_bytes_are_those_of_the_program(absorb, n, generator):
    sizes = replace(SIZES, n=n)
    given = tensors(sizes, generator)
    with Counter() as counter:
        output, made = program(given, absorb)
    found = cost.of("latent", sizes, latent_dim=D_C, rotary_dim=D_R, absorb=absorb)
    assert found.operations.matmul == counter.cost.operations.matmul

    numbers = {name: tensor.numel() for name, tensor in given.items()}
    first, second = (tensor.numel() for tensor in made)
    if absorb:  # query up; core; value up
        read = numbers["query"] + numbers["key_up"]
        read += first + numbers["query_rotary"] + numbers["latent"] + numbers["key_rotary"]
        read += second + numbers["value_up"]
        peak = max(first + second, second + output.numel())
    else:  # the latents twice, for keys and for values; core
        read = 2 * numbers["latent"] + numbers["key_up"] + numbers["value_up"]
        read += numbers["query"] + numbers["query_rotary"] + first + numbers["key_rotary"] + second
        peak = first + second + output.numel()
    assert found.bytes_read == 4 * read
    assert found.bytes_written == 4 * (first + second + output.numel())
    assert found.peak_bytes == 4 * peak


@pytest.mark.claim("two-queries-make-latents-compute")
def test_two_queries_per_sequence_reach_the_ridge_of_an_h100():
    """Operations per byte with the sizes of the page, alone and in a large batch."""

    def intensity(n, batch):
        sizes = Sizes(
            n=n, m=32768, d_k=128, d_v=128, num_heads=128, batch=batch, dtype=torch.bfloat16
        )
        return cost.of("latent", sizes, latent_dim=512, rotary_dim=64, absorb=True).intensity

    ridge = 989e12 / 3.35e12
    assert intensity(1, 1) == pytest.approx(127.6, abs=0.05)
    assert 235 < intensity(1, 4096) < 240 < ridge
    assert intensity(2, 1) < ridge < 1.5 * ridge < intensity(2, 4096)


def test_pairs_that_a_mask_forbids_are_not_counted():
    some, every = (
        cost.of("latent", SIZES, latent_dim=D_C, absorb=True, pairs=pairs).operations.matmul
        for pairs in (20, None)
    )
    assert every - some == 2 * 2 * 3 * (5 * 13 - 20) * 2 * D_C


def test_heads_cannot_share_keys_that_each_reads_for_itself():
    with pytest.raises(ValueError, match=r"^num_kv_heads: expected 4, as many as num_heads, got 2"):
        cost.of("latent", replace(SIZES, num_heads=4, num_kv_heads=2), latent_dim=D_C, absorb=True)


@pytest.mark.parametrize(("name", "value"), [("latent_dim", 0), ("rotary_dim", -1)])
def test_widths_are_checked(name, value):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        cost.of("latent", SIZES, **{"latent_dim": D_C, "absorb": True, name: value})
