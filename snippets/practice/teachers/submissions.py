"""Three solutions of one task, which an example does not tell apart."""

# --8<-- [start:example]
import torch


def ana(query, key, value, attn_mask=None):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value


def bia(query, key, value, attn_mask=None):
    scores = query @ key.mT / query.shape[1] ** 0.5
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value


def caio(query, key, value, attn_mask=None):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1)
    if attn_mask is not None:
        weights = weights * attn_mask
    return weights @ value


if __name__ == "__main__":
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    theirs = torch.nn.functional.scaled_dot_product_attention(x, x, x)
    for solution in (ana, bia, caio):
        same = torch.allclose(solution(x, x, x), theirs)
        print(f"{solution.__name__:4}  as PyTorch: {same}")
# --8<-- [end:example]
