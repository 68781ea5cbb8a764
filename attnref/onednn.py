"""Matrix products in float32 by oneDNN, without a setting for the whole process."""

import torch
from torch import Tensor


def product_with_transpose(one: Tensor, other: Tensor) -> Tensor:
    r"""``one @ other.mT``, on a processor in float32 by oneDNN.

    .. math:: c_{ij} = \sum_l a_{il} b_{jl}

    PyTorch gives a matrix product on a processor to MKL, which on some processors is half as
    fast, unless ``torch.set_float32_matmul_precision`` says otherwise for the whole process. The
    operator behind ``torch.compile``'s linear layers always asks oneDNN. It is a private one, so
    where it is missing, and for other dtypes and devices, this is ``one @ other.mT``.

    Args:
        one: ``(..., n, d)``.
        other: ``(m, d)``, same dtype and device; ``(..., m, d)`` where oneDNN is not asked. If
            neither its rows nor its columns lie side by side in memory, it is copied first:
            oneDNN would take a thousand times as long.

    Returns:
        ``(..., n, m)``; no gradient goes through it.

    Exact up to rounding in the dtype. Time ``2 n m d`` operations.

    Examples:
        >>> product_with_transpose(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]))
        tensor([[11.]])
    """
    asked = one.dtype == torch.float32 and one.device.type == "cpu" and AVAILABLE
    if not asked or 0 in (*one.shape, *other.shape):  # of nothing it makes no product
        return one @ other.mT
    if not (other.is_contiguous() or other.mT.is_contiguous()):
        other = other.contiguous()
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(one, other, None, "none", [], "")
    return product


AVAILABLE = torch.backends.mkldnn.is_available() and hasattr(  # type: ignore[no-untyped-call]
    torch.ops.mkldnn, "_linear_pointwise"
)
