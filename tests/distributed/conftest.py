"""What the tests across ranks ask for: processes that take jobs, or one rank in this process."""

import pytest
import torch.distributed as dist
from processes import Pool


@pytest.fixture(scope="session")
def pools():
    """Pools by their size, each started when it is first asked for."""
    found = {}

    def pool(size):
        if size not in found:
            found[size] = Pool(size)
        return found[size]

    yield pool
    for one in found.values():
        one.close()


@pytest.fixture(params=[2, 4, *(pytest.param(size, marks=pytest.mark.audit) for size in (3, 8))])
def ranks(request, pools):
    """Runs a job on 2 and 4 gloo processes, and on 3 and 8 in an audit."""
    return pools(request.param)


@pytest.fixture
def one_rank():
    """A group of this process alone, in which nothing is sent."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
