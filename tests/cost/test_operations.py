"""Amounts add up."""

from attnref.cost import Cost, Operations


def test_costs_add_up():
    one = Cost(Operations(1, 2, 3), 4, 5, 6)
    other = Cost(Operations(10, 20, 30), 40, 50, 3)
    assert one + other == Cost(Operations(11, 22, 33), 44, 55, 6)
    assert one * 3 == one + one + one
    assert Cost() == Cost(Operations(0, 0, 0), 0, 0, 0)
    assert (one.operations.total, one.bytes_moved) == (6, 9)
