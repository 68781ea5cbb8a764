"""The input and the weights that the nine ways share."""

import torch

BATCH, LENGTH, NUM_HEADS, HEAD_DIM = 2, 7, 3, 5
EMBED_DIM = NUM_HEADS * HEAD_DIM


def parameters(dtype=torch.float32, device=None):
    """Draw x (b, n, D), w_qkv (D, 3D) = [W_Q | W_K | W_V] and w_o (D, D).

    Each head is a block of columns of W_Q, W_K, W_V. Drawn on the CPU and in
    float64, so that every dtype and device sees the same numbers.
    """
    double = {
        "generator": torch.Generator().manual_seed(0),
        "dtype": torch.float64,
    }
    x = torch.randn(BATCH, LENGTH, EMBED_DIM, **double)
    w_qkv = torch.randn(EMBED_DIM, 3 * EMBED_DIM, **double)
    w_o = torch.randn(EMBED_DIM, EMBED_DIM, **double)
    scale = EMBED_DIM**-0.5  # keeps the variance of what is projected
    tensors = (x, w_qkv * scale, w_o * scale)
    return tuple(tensor.to(device, dtype) for tensor in tensors)
