"""Powers of two by a polynomial, beside the rounding of bfloat16."""

# --8<-- [start:example]
import torch


def coefficients(degree):
    """Of the polynomial that equals 2**f at 0 and at `degree` other points."""
    nodes = torch.arange(degree + 1, dtype=torch.float64)
    nodes = torch.cos(torch.pi * (nodes + 0.5) / (degree + 1)).flip(0)
    nodes = (nodes - nodes[0]) / (1 - nodes[0])  # 0, …, slightly below 1
    powers = torch.linalg.vander(nodes)
    return torch.linalg.solve(powers, torch.exp2(nodes)).float()


def exp2(x, degree=3):
    """2**x in float32, for -126 <= x < 128, without an exponential."""
    whole = x.floor()
    f = x - whole  # exact, in [0, 1)
    *lower, result = coefficients(degree)
    for coefficient in reversed(lower):
        result = result * f + coefficient  # one multiply-add
    # The bits of the exponent are those above the 23 of the fraction.
    bits = result.view(torch.int32) + (whole.to(torch.int32) << 23)
    return bits.view(torch.float32)


def error(found, expected):
    return ((found.double() - expected) / expected).abs().max().item()


if __name__ == "__main__":
    x = torch.linspace(-60, 8, 1_000_003)
    expected = torch.exp2(x.double())
    rounded = expected.bfloat16()
    print(f"2**x, rounded to bfloat16:     {error(rounded, expected):.1e}")
    for degree in (1, 2, 3, 4):
        found = exp2(x, degree)
        agree = (found.bfloat16() == rounded).double().mean().item()
        print(
            f"degree {degree}: {error(found, expected):.1e}, "
            f"rounded to bfloat16: {error(found.bfloat16(), expected):.1e}, "
            f"{agree:.1%} the same"
        )
# --8<-- [end:example]
