"""A causal attention of one's own, whose mask is off by one."""

# --8<-- [start:example]
import torch


def attention(query, key, value, is_causal=False):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu()
        scores = scores.masked_fill(future, -torch.inf)
    return torch.softmax(scores, dim=-1) @ value


if __name__ == "__main__":
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    output = attention(x, x, x, is_causal=True)
    print(
        "of",
        len(x),
        "rows",
        int(output.isfinite().all(-1).sum()),
        "are finite",
    )
# --8<-- [end:example]
