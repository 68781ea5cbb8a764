"""What limits a method, on a machine of round numbers that nobody has built."""

import pytest
import torch

from attnref.cost import Cost, Operations
from attnref.roofline import Machine, bound

MACHINE = Machine("example", {torch.float16: 1e13, torch.float32: 1e12}, bytes_per_second=1e11)


@pytest.mark.parametrize(
    ("dtype", "matmul", "verdict"),
    [
        (torch.float16, 5450, "compute-bound on example: 110 operations per byte, balance 100, "
                              "at least 5.5e-10 s"),
        (torch.float16, 4900, "memory-bound on example: 99 operations per byte, balance 100, "
                              "at least 5e-10 s"),
        (torch.float32, 4850, "compute-bound on example: 98 operations per byte, balance 10, "
                              "at least 4.9e-09 s"),
    ],
)  # fmt: skip
def test_roofline(dtype, matmul, verdict):
    spent = Cost(Operations(matmul, 40, 10), bytes_read=48, bytes_written=2)
    found = bound(spent, MACHINE, dtype=dtype)
    assert str(found) == verdict
    assert found.intensity == spent.intensity == (matmul + 50) / 50
    speed = MACHINE.operations_per_second[dtype]
    assert found.seconds == max((matmul + 50) / speed, 50 / MACHINE.bytes_per_second)


def test_roofline_at_the_balance_is_compute_bound():
    spent = Cost(Operations(matmul=100), bytes_read=1)
    assert bound(spent, MACHINE, dtype=torch.float16).bound == "compute"


def test_roofline_names_what_it_lacks():
    with pytest.raises(
        ValueError,
        match=r"^dtype: expected one for which machine 'example' has a "
        r"speed \(torch.float16, torch.float32\), got torch.float64. Add it",
    ):
        bound(Cost(bytes_read=1), MACHINE, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"^cost: expected one that moves bytes, got 0 of them"):
        bound(Cost(), MACHINE, dtype=torch.float16)
