"""Multi-head attention by PyTorch's fused function, told that it is causal."""

# --8<-- [start:attention]
from torch.nn import functional as F


def attention(x, w_qkv, w_o, num_heads):
    """Causal: x (b, n, D), w_qkv (D, 3D), w_o (D, D) -> (b, n, D)."""
    b, n, width = x.shape
    qkv = (x @ w_qkv).view(b, n, 3, num_heads, width // num_heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (b, h, n, d) each
    # No mask is made, and fused kernels leave out blocks in the future.
    heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return heads.transpose(1, 2).reshape(b, n, width) @ w_o  # (b, n, D)


# --8<-- [end:attention]


if __name__ == "__main__":
    from parameters import NUM_HEADS, parameters

    output = attention(*parameters(), NUM_HEADS)
    print(tuple(output.shape))
    print(output[0, -1, :4])
