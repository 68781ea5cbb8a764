"""What the page on the Nyström method derives: the law of the remainder."""

import pytest
import torch

from attnref.variants.nystrom import _pseudo_inverse


@pytest.mark.claim("remainder-to-the-third-power")
@pytest.mark.parametrize("size", [3, 7])
def test_a_step_takes_the_remainder_to_three_quarters_of_its_cube(size, device, randn):
    scores = randn(size, size)
    matrix = (2 * scores).softmax(-1)
    unit = torch.eye(size, device=device, dtype=torch.float64)
    for steps in range(6):
        before, after = (
            unit - matrix @ _pseudo_inverse(matrix, count) for count in (steps, steps + 1)
        )
        law = 0.75 * before @ before @ before + 0.25 * before @ before @ before @ before
        # A step is four products of matrices whose entries stay near 1, or those of the inverse.
        torch.testing.assert_close(after, law, rtol=0, atol=1e-12)
    # At the start all eigenvalues of A Z lie between 0 and 1.
    start = torch.linalg.eigvalsh(matrix @ _pseudo_inverse(matrix, 0))
    assert start.min() > 0
    assert start.max() <= 1
