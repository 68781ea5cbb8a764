"""Multi-head attention with one fused projection for query, key and value."""

# --8<-- [start:attention]
import torch


def attention(x, w_qkv, w_o, num_heads):
    """Causal: x (b, n, D), w_qkv (D, 3D), w_o (D, D) -> (b, n, D)."""
    b, n, width = x.shape
    d = width // num_heads
    future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
    qkv = (x @ w_qkv).view(b, n, 3, num_heads, d)  # a split without copying
    q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (b, h, n, d) each
    scores = q @ k.mT * d**-0.5  # (b, h, n, n)
    scores = scores.masked_fill(future, -torch.inf)
    heads = torch.softmax(scores, dim=-1) @ v  # (b, h, n, d)
    return heads.transpose(1, 2).reshape(b, n, width) @ w_o  # (b, n, D)


# --8<-- [end:attention]


if __name__ == "__main__":
    from parameters import NUM_HEADS, parameters

    output = attention(*parameters(), NUM_HEADS)
    print(tuple(output.shape))
    print(output[0, -1, :4])
