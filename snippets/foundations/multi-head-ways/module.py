"""Multi-head attention by PyTorch's layer, without asking for its weights."""

# --8<-- [start:attention]
import torch
from torch import nn


def attention(x, w_qkv, w_o, num_heads):
    """Causal: x (b, n, D), w_qkv (D, 3D), w_o (D, D) -> (b, n, D)."""
    n, width = x.shape[-2:]
    # On "meta" it has no numbers of its own; functional_call lends it ours.
    layer = nn.MultiheadAttention(
        width, num_heads, bias=False, batch_first=True, device="meta"
    )
    # True = may NOT attend
    future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
    output, _ = torch.func.functional_call(
        layer,
        {"in_proj_weight": w_qkv.mT, "out_proj.weight": w_o.mT},
        (x, x, x),
        {"attn_mask": future, "is_causal": True, "need_weights": False},
    )
    return output  # (b, n, D)


# --8<-- [end:attention]


if __name__ == "__main__":
    from parameters import NUM_HEADS, parameters

    output = attention(*parameters(), NUM_HEADS)
    print(tuple(output.shape))
    print(output[0, -1, :4])
