"""What the page on the benchmark claims of errors."""

import math

import pytest
import torch

from attnref.bench.problems import TASKS, Shape, exact_output, relative_error


@pytest.mark.claim("mean-of-values-error")
def test_the_mean_of_the_values_errs_by_eight_tenths(device):
    r"""Against Gaussian scores of variance 1: :math:`\sqrt{1 - 1/e}` as n grows.

    The square of the error is (A - 1)/A, with A the mean of n Σp² over the rows. At n = 4096
    A of one row has a relative standard deviation of sqrt((e⁴ - 1)/n) = 0.11; rows of a head
    share their keys, so only the 8 heads are sure to be independent, which leaves 0.04. That
    moves the error by 0.01; three times this is allowed.
    """
    problem = TASKS["dense"].make(Shape(4096, 8, 64, torch.float32, device, seed=0))
    mean = problem.value.mean(-2, keepdim=True).expand_as(problem.query)
    error = relative_error(mean, exact_output(problem))
    limit = math.sqrt(1 - 1 / math.e)
    assert error == pytest.approx(limit, abs=0.03)
    # It tends there: a row of few keys has a larger share of its own, and a smaller error.
    nearer = []
    for n in (8, 32, 128):
        problem = TASKS["dense"].make(Shape(n, 64, 64, torch.float32, device, seed=0))
        mean = problem.value.mean(-2, keepdim=True).expand_as(problem.query)
        nearer.append(limit - relative_error(mean, exact_output(problem)))
    assert nearer == sorted(nearer, reverse=True)
    assert nearer[0] > 0.05 > 0.03 > abs(nearer[-1])
