"""A program that reads numbers of few bits runs under a counter of what it really does."""

import math

import pytest
import torch

from attnref import cost
from attnref.cost import Sizes
from attnref.variants.quantized import quantize
from tests.cost.counter import Counter

SIZES = Sizes(n=5, m=17, d_k=12, d_v=8, batch=1, num_heads=1)
FORMATS = {
    "int8": (torch.int8, 8, None),
    "e4m3": (torch.float8_e4m3fn, 8, None),
    "groups": (torch.float8_e4m3fn, 8, 4),
}


@pytest.fixture
def given(generator):
    shapes = (SIZES.n, SIZES.d_k), (SIZES.m, SIZES.d_k), (SIZES.m, SIZES.d_v)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


@pytest.mark.claim("quantised-costs-what-is-counted")
@pytest.mark.parametrize("name", FORMATS)
def test_it_costs_what_the_program_does(name, given):
    """Numbers and steps are in main memory, and what they stand for is on the chip alone."""
    dtype, bits, group_size = FORMATS[name]
    query, *tokens = given
    stored = [quantize(x, dtype=dtype, group_size=group_size) for x in tokens]
    numbers = [x.values.unflatten(-1, (x.step.shape[-1], -1)) for x in stored]
    steps = [x.step[..., None] for x in stored]  # (m, groups, 1)
    with Counter(query, *numbers, *steps) as counter:
        key, value = (
            (wide.float() * step).flatten(-2) for wide, step in zip(numbers, steps, strict=True)
        )
        output = torch.empty(SIZES.n, SIZES.d_v)
        scores = (query * 0.3) @ key.mT
        powers = (scores - scores.amax(-1, keepdim=True)).exp()
        output.copy_((powers @ value) / powers.sum(-1, keepdim=True))
    found = cost.of("quantized", SIZES, bits=bits, group_size=group_size)
    assert found.operations == counter.cost.operations
    assert found.bytes_read == counter.cost.bytes_read
    assert found.bytes_written == counter.cost.bytes_written


@pytest.mark.parametrize("kind", ["mxfp4", "nvfp4"])
def test_numbers_of_four_bits_take_what_their_tensors_take(kind, given):
    key, value = given[1:]
    group, step = {"mxfp4": (4, torch.float8_e8m0fnu), "nvfp4": (2, torch.float8_e4m3fn)}[kind]
    four = {"dtype": torch.float4_e2m1fn_x2, "group_size": group, "step_dtype": step}
    found = cost.of("quantized", SIZES, bits=4, step_bits=8, group_size=group)
    plain = cost.of("fused", SIZES)
    taken = 0
    for tokens in (key, value):
        kept = quantize(tokens, **four)
        steps = math.ceil(tokens.shape[-1] / group) * len(tokens)
        taken += kept.values.nbytes + steps
        assert kept.nbytes - kept.values.nbytes - steps in (0, 4)  # the outer step of NVFP4
    assert found.bytes_read - plain.bytes_read == taken - 4 * (key.numel() + value.numel())


@pytest.mark.parametrize("name", ["bits", "step_bits", "group_size"])
def test_a_size_below_one_is_named(name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        cost.of("quantized", SIZES, **{"bits": 8, name: 0})
