"""Multi-head attention by FlexAttention: the mask is a function of positions.

Called as it stands it forms all scores, and warns of that;
torch.compile(attention) makes the fused kernel. On a CPU PyTorch gives it no
backward pass: there it serves inference only.
"""

# --8<-- [start:attention]
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def past(sample, head, i, j):
    """True where query i may attend to key j."""
    return j <= i


def attention(x, w_qkv, w_o, num_heads):
    """Causal: x (b, n, D), w_qkv (D, 3D), w_o (D, D) -> (b, n, D)."""
    b, n, width = x.shape
    qkv = (x @ w_qkv).view(b, n, 3, num_heads, width // num_heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (b, h, n, d) each
    # One mask for all samples and heads.
    mask = create_block_mask(past, None, None, n, n, device=x.device)
    heads = flex_attention(q, k, v, block_mask=mask)  # (b, h, n, d)
    return heads.transpose(1, 2).reshape(b, n, width) @ w_o  # (b, n, D)


# --8<-- [end:attention]


if __name__ == "__main__":
    from parameters import NUM_HEADS, parameters

    output = attention(*parameters(), NUM_HEADS)
    print(tuple(output.shape))
    print(output[0, -1, :4])
