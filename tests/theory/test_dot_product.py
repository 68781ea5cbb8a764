"""What the page on the dot product claims, beyond the tests of attnref.similarity."""

import pytest
import torch

import attnref
from attnref import similarity, softmax


@pytest.mark.claim("row-times-column")
def test_a_row_times_a_column_is_a_table_of_one_number(device):
    a, b = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=device)
    number, table = a @ b, a[None] @ b[:, None]
    assert (number.shape, table.shape) == ((), (1, 1))
    assert number.item() == table.item() == 32
    assert torch.dot(a, b).item() == 32
    assert torch.equal(a[:, None] @ b[None], torch.outer(a, b))
    with pytest.raises(RuntimeError, match="1D tensors expected"):
        torch.dot(a[None], b[:, None])


@pytest.mark.claim("attention-is-not-lipschitz")
@pytest.mark.parametrize("t", [10.0, 100.0, 1000.0])
def test_self_attention_stretches_a_change_by_two_thirds_of_t_squared(t, device):
    """At 0, t and -t; beside t², the other eight slopes together stay below 2."""
    x = torch.tensor([[0.0], [t], [-t]], dtype=torch.float64, device=device)
    slopes = torch.autograd.functional.jacobian(
        lambda x: attnref.scaled_dot_product_attention(x, x, x, scale=1.0), x
    ).view(3, 3)
    assert slopes[0, 0].item() == pytest.approx(2 * t**2 / 3 + 1 / 3, rel=1e-12)
    rest = slopes.clone()
    rest[0, 0] = 0.0
    assert rest.norm() < 2
    stretch = torch.linalg.matrix_norm(slopes, ord=2).item()
    assert stretch == pytest.approx(2 * t**2 / 3, abs=2 + 1 / 3)


@pytest.mark.claim("distance-needs-one-projection")
@pytest.mark.parametrize("t", [10.0, 100.0, 1000.0])
def test_attention_by_distances_stretches_little_only_if_keys_are_the_queries(t, device):
    """With k = 2q the word at t is as far from its own key as from the other: it can be tipped."""
    x = torch.tensor([[t], [0.0]], dtype=torch.float64, device=device)

    def stretch(ratio):
        slopes = torch.autograd.functional.jacobian(
            lambda x: softmax.stable(similarity.euclidean_scores(x, ratio * x)) @ x, x
        )
        return torch.linalg.matrix_norm(slopes.view(2, 2), ord=2).item()

    assert stretch(1.0) == pytest.approx(1, rel=1e-12)
    assert stretch(2.0) == pytest.approx(t**2, abs=1)
