"""Results as a record holds them."""

import pytest

from attnref.bench.record import Result


@pytest.fixture
def result():
    """Makes a result of a method, of ranks too."""

    def result(method, n, median, task="dense", *, kind=Result, **of_ranks):
        return kind(
            task=task,
            method=method,
            n=n,
            query=[1, 2, n, 8],
            key=[1, 2, n, 8],
            median=median,
            lower=0.9 * median,
            upper=1.2 * median,
            samples=5,
            error=3e-7,
            peak_bytes=1_500_000,
            sdpa_backend="MATH",
            **of_ranks,
        )

    return result
