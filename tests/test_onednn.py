"""The product by oneDNN, and what stands in for it."""

import torch
from every import every
from torch.utils._python_dispatch import TorchDispatchMode

from attnref import onednn
from attnref.onednn import product_with_transpose


@every("available", [True, False])
@every("dtype", [torch.float32, torch.float64, torch.bfloat16])
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


class Watch(TorchDispatchMode):
    """Notes the strides of the weights that oneDNN is given."""

    def __init__(self):
        super().__init__()
        self.strides = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.mkldnn._linear_pointwise.default:
            self.strides.append(args[1].stride())
        return function(*args, **(kwargs or {}))


def test_a_weight_in_strides_is_copied_first(generator):
    """OneDNN takes it too, but some thousand times as long, and says nothing."""
    one = torch.randint(-3, 4, (5, 7), generator=generator).float()
    wide = torch.randint(-3, 4, (11, 14), generator=generator).float()
    weights = {"rows": wide[:, :7], "both": wide[:, ::2], "columns": wide[:, :7].mT.contiguous().mT}
    with Watch() as watch:
        products = {name: product_with_transpose(one, weight) for name, weight in weights.items()}
    for name, weight in weights.items():
        assert torch.equal(products[name], one @ weight.mT)
    if onednn.AVAILABLE:
        assert watch.strides == [(7, 1), (7, 1), (1, 11)]  # copied, copied, as it was


@every(("n", "d", "m"), [(0, 5, 3), (2, 0, 3), (2, 5, 0)])
def test_of_nothing(n, d, m):
    product = product_with_transpose(torch.ones(n, d), torch.ones(m, d))
    assert product.shape == (n, m)
    assert (product == 0).all()
