"""Places counted in a cache that is filled, page by page."""

import pytest
import torch

from attnref import PagedCache
from attnref.cost import Slots, slots
from tests.variants.every import every


def rows(n):
    return torch.zeros(1, n, 2), torch.zeros(1, n, 3)


def places(cache):
    return (cache.num_pages - cache.free_pages) * cache.block_size


@pytest.mark.claim("slots-are-what-a-cache-takes")
@pytest.mark.parametrize("how", ["found", "forked"])
@every("block_size", [1, 3, 4, 16])
@every("prefix", [0, 2, 3, 8, 11])
def test_places_are_those_of_a_cache(how, prefix, block_size):
    lengths = [prefix + more for more in (3, 1, 14, 8)]
    cache = PagedCache(num_pages=200, block_size=block_size)
    common = [*range(prefix)]
    trunk = cache.start()
    if how == "forked":
        trunk.append(*rows(prefix))
    for number, length in enumerate(lengths):
        ids = [*common, *(1000 * (number + 1) + i for i in range(length - prefix))]
        if how == "forked":
            sequence = trunk.fork()
            sequence.append(*rows(length - prefix))
        else:
            sequence = cache.start(ids)
            begin = sequence.length
            sequence.append(*rows(length - begin), ids[begin:])
        assert sequence.length == length
    trunk.free()
    found = slots(lengths, block_size=block_size, prefix=prefix)
    assert found.paged == places(cache)
    assert found.used == len({*common}) + sum(length - prefix for length in lengths)
    assert found.padded == 4 * (prefix + 14)


@pytest.mark.claim("pages-waste-half-a-page")
@every("block_size", [1, 2, 5, 16])
def test_half_a_page_is_empty_on_average(block_size):
    """Over all remainders of a length by the size of a page, each once."""
    empty = []
    for length in range(41, 41 + block_size):
        cache = PagedCache(num_pages=100, block_size=block_size)
        cache.start().append(*rows(length))
        empty.append(places(cache) - length)
    assert sorted(empty) == list(range(block_size))
    assert sum(empty) / len(empty) == (block_size - 1) / 2
    several = slots(range(41, 41 + block_size), block_size=block_size)
    assert several.paged - several.used == sum(empty)


def test_of_no_sequence_there_are_no_places():
    assert slots([], block_size=4) == Slots(0, 0, 0)
    assert slots([0, 0], block_size=4, max_length=7) == Slots(0, 0, 14)


@every(
    ("change", "message"),
    [
        ({"lengths": [3, -1]}, "lengths: expected an integer of 0 or more, got -1. They are num"),
        ({"block_size": 0}, "block_size: expected an integer of 1 or more, got 0"),
        ({"prefix": 6}, "prefix: expected an integer between 0 and 5, got 6. No sequence is sho"),
        ({"max_length": 8}, "max_length: expected an integer of 9 or more, got 8. A padded cach"),
    ],
)
def test_a_number_out_of_its_range_is_named(change, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        slots(**{"lengths": [5, 9], "block_size": 4, **change})
