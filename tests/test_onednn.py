"""The product by oneDNN, and what stands in for it."""

import pytest
import torch

from attnref import onednn
from attnref.onednn import product_with_transpose


@pytest.mark.parametrize("available", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_it_is_the_product(dtype, available, device, generator, monkeypatch):
    monkeypatch.setattr(onednn, "AVAILABLE", onednn.AVAILABLE and available)
    # Small integers, whose products and sums every dtype holds exactly.
    one, other = (
        torch.randint(-3, 4, size, device=device, generator=generator).to(dtype)
        for size in ((7, 5), (11, 5))
    )
    expected = (one.long()[:, None] * other.long()).sum(-1)
    product = product_with_transpose(one, other)
    assert product.dtype == dtype
    assert torch.equal(product.long(), expected)


def test_transposed_operands(generator):
    one = torch.randint(-3, 4, (5, 7), generator=generator).float()
    other = torch.randint(-3, 4, (5, 11), generator=generator).float()
    assert torch.equal(product_with_transpose(one.mT, other.mT), one.mT @ other)
