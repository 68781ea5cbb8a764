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


@pytest.fixture(params=[2, 3, 4, 8])
def ranks(request, pools):
    """Runs a job on 2, 3, 4 and 8 gloo processes."""
    return pools(request.param)


@pytest.fixture
def one_rank():
    """A group of this process alone, in which nothing is sent."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
