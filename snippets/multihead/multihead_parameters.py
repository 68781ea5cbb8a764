"""The input and the weights that the nine ways of multi-head attention share."""

import torch

BATCH, LENGTH, NUM_HEADS, HEAD_DIM = 2, 7, 3, 5
EMBED_DIM = NUM_HEADS * HEAD_DIM


def parameters(dtype=torch.float32, device=None):
    """Draw x (b, n, D), w_qkv (D, 3D) = [W_Q | W_K | W_V] and w_o (D, D).

    Each head is a block of columns of W_Q, W_K, W_V. Drawn on the CPU and in float64,
    so that every dtype and device sees the same numbers.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, LENGTH, EMBED_DIM, generator=generator, dtype=torch.float64)
    w_qkv = torch.randn(
        EMBED_DIM, 3 * EMBED_DIM, generator=generator, dtype=torch.float64
    )
    w_o = torch.randn(EMBED_DIM, EMBED_DIM, generator=generator, dtype=torch.float64)
    scale = EMBED_DIM**-0.5  # keeps the variance of what is projected
    return tuple(tensor.to(device, dtype) for tensor in (x, w_qkv * scale, w_o * scale))
