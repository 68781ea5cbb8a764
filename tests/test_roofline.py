"""What limits a method, on a machine of round numbers that nobody has built."""

import math
from dataclasses import replace

import pytest
import torch

from attnref.cost import Cost, Operations
from attnref.roofline import Machine
from tests.variants.every import every

MACHINE = Machine("example", {torch.float16: 1e13, torch.float32: 1e12}, bytes_per_second=1e11)


@every(
    ("dtype", "matmul", "limit", "intensity", "balance", "seconds"),
    [
        (torch.float16, 5450, "compute", 110, 100, 5.5e-10),
        (torch.float16, 4900, "memory", 99, 100, 5e-10),
        (torch.float32, 4850, "compute", 98, 10, 4.9e-9),
    ],
)
def test_roofline(dtype, matmul, limit, intensity, balance, seconds):
    spent = Cost(Operations(matmul, 40, 10), bytes_read=48, bytes_written=2)
    found = MACHINE.roofline(spent, dtype=dtype)
    assert str(found) == (
        f"{limit}-bound on example: {intensity} operations per byte, balance {balance}, "
        f"at least {seconds:.2g} s"
    )
    assert found.intensity == spent.intensity == (matmul + 50) / 50
    assert found.seconds == pytest.approx(seconds, rel=1e-14)


def test_roofline_at_the_balance_is_compute_bound():
    spent = Cost(Operations(matmul=100), bytes_read=1)
    assert MACHINE.roofline(spent, dtype=torch.float16).bound == "compute"


@every(
    ("rate", "slowest", "parts"),
    [
        (1e9, "exponential", {"compute": 5e-10, "exponential": 1e-8, "memory": 4.7e-10}),
        (1e11, "compute", {"compute": 5e-10, "exponential": 1e-10, "memory": 4.7e-10}),
        (2e10, "compute", {"compute": 5e-10, "exponential": 5e-10, "memory": 4.7e-10}),
        (None, "compute", {"compute": 5.01e-9 / 10, "memory": 4.7e-10}),
    ],
)
def test_exponentials_have_a_unit_of_their_own(rate, slowest, parts):
    """They leave the other arithmetic; of two equally slow units, arithmetic is named."""
    machine = Machine("example", {torch.float16: 1e13}, 1e11, exponentials_per_second=rate)
    spent = Cost(Operations(4980, 20, 10), bytes_read=40, bytes_written=7)
    found = machine.roofline(spent, dtype=torch.float16)
    assert found.bound == slowest
    assert found.parts == pytest.approx(parts, rel=1e-14)  # one rounding for each quotient
    assert found.seconds == max(found.parts.values())
    assert found.intensity == spent.intensity == 5010 / 47
    assert str(found).startswith(f"{slowest}-bound on example: 106.6 operations per byte")


def test_roofline_names_what_it_lacks():
    with pytest.raises(
        ValueError,
        match=r"^dtype: expected one for which machine 'example' has a "
        r"speed \(torch.float16, torch.float32\), got torch.float64. Add it",
    ):
        MACHINE.roofline(Cost(bytes_read=1), dtype=torch.float64)
    with pytest.raises(ValueError, match=r"^cost: expected one that moves bytes, got 0 of them"):
        MACHINE.roofline(Cost(), dtype=torch.float16)
    with pytest.raises(TypeError, match=r"^cost: expected a Cost, got NoneType\. Take it from"):
        MACHINE.roofline(None, dtype=torch.float16)


@every("wrong", [0, -1e9, math.inf, math.nan, True, "1e9"])
@every("name", ["operations_per_second", "bytes_per_second", "exponentials_per_second"])
def test_a_speed_is_a_positive_number(name, wrong):
    speed = {torch.float16: wrong} if name == "operations_per_second" else wrong
    machine = replace(MACHINE, **{name: speed})
    kind, got = ValueError, str(wrong)
    if isinstance(wrong, bool | str):
        kind, got = TypeError, type(wrong).__name__
    with pytest.raises(kind, match=rf"^{name}: expected a positive number.*, got {got}\. It is"):
        machine.roofline(Cost(Operations(1, 1, 1), bytes_read=1), dtype=torch.float16)
