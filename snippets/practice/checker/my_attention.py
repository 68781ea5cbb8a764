"""An attention of one's own, which looks right."""

# --8<-- [start:example]
import torch


def attention(query, key, value, attn_mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    if attn_mask is not None:
        scores = scores.masked_fill(attn_mask == 0, -1e9)
    return torch.softmax(scores, dim=-1) @ value


if __name__ == "__main__":
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    theirs = torch.nn.functional.scaled_dot_product_attention(x, x, x, mask)
    print("as PyTorch:", torch.allclose(attention(x, x, x, mask), theirs))
# --8<-- [end:example]
