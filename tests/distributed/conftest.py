"""What the tests across ranks ask for: processes that take jobs."""

import pytest

from tests.distributed.processes import Pool


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
