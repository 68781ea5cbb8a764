"""Multi-head attention as a loop: one head after the other, by the formula."""

# --8<-- [start:attention]
import torch


def attention(x, w_qkv, w_o, num_heads):
    """Causal: x (b, n, D), w_qkv (D, 3D), w_o (D, D) -> (b, n, D)."""
    n, width = x.shape[-2:]
    d = width // num_heads
    future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
    w_q, w_k, w_v = w_qkv.chunk(3, dim=-1)  # (D, D) each
    heads = []
    for h in range(num_heads):
        own = slice(h * d, (h + 1) * d)  # the columns of this head
        # (b, n, d) each
        q, k, v = x @ w_q[:, own], x @ w_k[:, own], x @ w_v[:, own]
        scores = q @ k.mT * d**-0.5  # (b, n, n)
        scores = scores.masked_fill(future, -torch.inf)
        heads.append(torch.softmax(scores, dim=-1) @ v)  # (b, n, d)
    return torch.cat(heads, dim=-1) @ w_o  # (b, n, D)


# --8<-- [end:attention]


if __name__ == "__main__":
    from parameters import NUM_HEADS, parameters

    output = attention(*parameters(), NUM_HEADS)
    print(tuple(output.shape))
    print(output[0, -1, :4])
