"""What the page on grouped queries claims beside the tests of the layer: copies."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

B, HEADS, KV_HEADS, N, M, D = 2, 6, 3, 5, 7, 11


class Copies(TorchDispatchMode):
    """The numbers of each tensor that is a copy of another."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in (torch.ops.aten.clone, torch.ops.aten._to_copy):
            self.sizes.append(result.numel())
        return result


@pytest.mark.claim("grouped-rows-copy-nothing")
def test_stacked_rows_copy_no_key(randn):
    """The matrix product broadcasts by copying; a group of rows needs no broadcast."""
    query = randn(B, HEADS, N, D)
    key = randn(B, KV_HEADS, M, D)
    group = HEADS // KV_HEADS
    grouped = query.unflatten(1, (KV_HEADS, group))  # (b, h_kv, group, n, d)
    found, scores = {}, {}
    for name, product in {
        "repeat_interleave": lambda: query @ key.repeat_interleave(group, dim=1).mT,
        "broadcast": lambda: (grouped @ key[:, :, None].mT).flatten(1, 2),
        "rows": lambda: (grouped.flatten(2, 3) @ key.mT).view(B, HEADS, N, M),
    }.items():
        with Copies() as copies:
            scores[name] = product()
        found[name] = copies.sizes
    every_copy = B * HEADS * M * D
    assert found == {"repeat_interleave": [every_copy], "broadcast": [every_copy], "rows": []}
    for other in scores.values():
        # Sums of 11 products of numbers near 1, in another order: some 100 eps at the most.
        torch.testing.assert_close(other, scores["rows"], rtol=0, atol=1e-13)
    # The dimension of length 1 is itself a view; it is the product that copies.
    spread = key[:, :, None].expand(B, KV_HEADS, group, M, D)
    assert spread.untyped_storage().data_ptr() == key.untyped_storage().data_ptr()
