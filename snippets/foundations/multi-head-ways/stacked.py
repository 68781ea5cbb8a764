"""Multi-head attention with stacked weights (h, D, d): all heads at once."""

# --8<-- [start:attention]
import torch


def attention(x, w_qkv, w_o, num_heads):
    """Causal: x (b, n, D), w_qkv (D, 3D), w_o (D, D) -> (b, n, D)."""
    n, width = x.shape[-2:]
    d = width // num_heads
    future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
    w_qkv = w_qkv.reshape(width, 3, num_heads, d)
    w_q, w_k, w_v = w_qkv.permute(1, 2, 0, 3)  # (h, D, d) each
    x = x[:, None]  # (b, 1, n, D): the same input for each head
    q, k, v = x @ w_q, x @ w_k, x @ w_v  # (b, h, n, d) each
    scores = q @ k.mT * d**-0.5  # (b, h, n, n)
    scores = scores.masked_fill(future, -torch.inf)
    heads = torch.softmax(scores, dim=-1) @ v  # (b, h, n, d)
    blocks = w_o.reshape(num_heads, d, width)  # the rows of each head
    return (heads @ blocks).sum(dim=1)  # (b, n, D): joined and projected


# --8<-- [end:attention]


if __name__ == "__main__":
    from parameters import NUM_HEADS, parameters

    output = attention(*parameters(), NUM_HEADS)
    print(tuple(output.shape))
    print(output[0, -1, :4])
