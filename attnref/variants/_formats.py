"""Number formats of eight and four bits: how a number becomes the nearest one that they have."""

import torch
from torch import Tensor

FOUR_BITS = torch.float4_e2m1fn_x2

# The largest number of each format.
LARGEST = {
    torch.int8: 127.0,
    torch.float8_e4m3fn: 448.0,
    torch.float8_e5m2: 57344.0,
    FOUR_BITS: 6.0,
}


def round_to_format(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """The nearest numbers of a format, the even one of two, the largest for what is beyond."""
    largest = LARGEST[dtype]
    if dtype == torch.int8:
        return numbers.round().clamp(-largest, largest).to(dtype)
    numbers = numbers.clamp(-largest, largest)
    return pack(numbers) if dtype == FOUR_BITS else numbers.float().to(dtype)


def to_numbers(values: Tensor) -> Tensor:
    """What is stored, as numbers to compute with: those of four bits two for one."""
    if values.dtype == FOUR_BITS:
        return unpack(values)
    return values if values.dtype == torch.int8 else values.float()


def to_four_bits(numbers: Tensor) -> Tensor:
    """The nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, with sign, for numbers from -6 to 6."""
    size = numbers.abs()
    gap = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return (numbers / gap).round() * gap


def pack(numbers: Tensor) -> Tensor:
    """Numbers from -6 to 6, an even number of them, as pairs of four bits: the first one low."""
    exact = to_four_bits(numbers)
    size = exact.abs()
    # 0 0.5 1 1.5 | 2 3 | 4 6 have the codes 0 to 7, in this order.
    code = torch.where(size < 2, 2 * size, torch.where(size < 4, size + 2, size / 2 + 4))
    code = code.nan_to_num().to(torch.uint8) | (exact.signbit().to(torch.uint8) << 3)
    return (code[..., ::2] | (code[..., 1::2] << 4)).view(FOUR_BITS)  # (..., d / 2)


def unpack(pairs: Tensor) -> Tensor:
    """The numbers of pairs of four bits, in float32, twice as many."""
    both = pairs.view(torch.uint8)
    code = torch.stack([both & 15, both >> 4], dim=-1).flatten(-2)  # (..., d)
    size = (code & 7).float()
    size = torch.where(size < 4, size / 2, torch.where(size < 6, size - 2, 2 * size - 8))
    return torch.where(code < 8, size, -size)


def power_of_two_above(steps: Tensor) -> Tensor:
    """The smallest power of two that is not below a positive number, as eight bits of exponent."""
    near = steps.float().to(torch.float8_e8m0fnu).float()
    return torch.where(near < steps, 2 * near, near).to(torch.float8_e8m0fnu)
