"""Multi-head attention in Einstein's notation: each dimension has a name."""

# --8<-- [start:attention]
import torch


def attention(x, w_qkv, w_o, num_heads):
    """Causal: x (b, n, D), w_qkv (D, 3D), w_o (D, D) -> (b, n, D)."""
    n, width = x.shape[-2:]
    d = width // num_heads
    future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
    w_qkv = w_qkv.reshape(width, 3, num_heads, d)
    w_q, w_k, w_v = w_qkv.unbind(1)  # (D, h, d) each
    q = torch.einsum("bnD,Dhd->bnhd", x, w_q)
    k = torch.einsum("bmD,Dhd->bmhd", x, w_k)
    v = torch.einsum("bmD,Dhd->bmhd", x, w_v)
    scores = torch.einsum("bnhd,bmhd->bhnm", q, k) * d**-0.5
    scores = scores.masked_fill(future, -torch.inf)
    weights = torch.softmax(scores, dim=-1)  # (b, h, n, m)
    heads = torch.einsum("bhnm,bmhd->bnhd", weights, v)
    w_o = w_o.reshape(num_heads, d, width)
    return torch.einsum("bnhd,hdD->bnD", heads, w_o)


# --8<-- [end:attention]


if __name__ == "__main__":
    from parameters import NUM_HEADS, parameters

    output = attention(*parameters(), NUM_HEADS)
    print(tuple(output.shape))
    print(output[0, -1, :4])
