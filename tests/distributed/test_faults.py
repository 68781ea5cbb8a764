"""Ranks that are lost or late. Each group here is of its own, with a short timeout."""

import time

import pytest

from tests.distributed import rank_jobs
from tests.distributed.processes import Failure, Pool

LOST = (
    "A rank of this group has died, has left with an error, or is later than the group's timeout: "
    "read what it printed last. If it was only slow, pass a longer timeout to "
    "torch.distributed.init_process_group. The backend says: "
)


def outcomes(pool, job, *arguments, **options):
    pool.begin([(job, arguments, options)] * len(pool.connections))
    return pool.outcomes()


@pytest.mark.claim("lost-rank-ends-the-others")
@pytest.mark.parametrize("before_backward", [False, True])
def test_a_rank_that_dies_ends_the_others_with_an_error(before_backward):
    pool = Pool(3, timeout=20.0)
    try:
        start = time.monotonic()
        found = outcomes(pool, rank_jobs.die, 1, before_backward=before_backward)
        assert time.monotonic() - start < 20.0  # the group's timeout
        assert found[1] is None
        for rank in (0, 2):
            assert found[rank].kind == "DistError"
            beginning = f"ring_attention: rank {rank} gave up while it "
            assert found[rank].message.startswith(beginning)
            assert LOST in found[rank].message
    finally:
        pool.close()


@pytest.mark.claim("lost-rank-ends-the-others")
def test_a_rank_that_is_late_is_waited_for_until_the_timeout():
    pool = Pool(2, timeout=4.0)
    try:
        assert pool(rank_jobs.attend, rank=1, late=1.0) == [True, True]
        found = outcomes(pool, rank_jobs.attend, rank=1, late=6.0)
        for failure in found:
            assert isinstance(failure, Failure)
            assert failure.kind == "DistError"
            assert LOST in failure.message
    finally:
        pool.close()
