"""A causal window that is counted from the first query of the call."""

# --8<-- [start:example]
import torch


def attention(query, key, value, window=128):
    n, m = query.shape[-2], key.shape[-2]
    i, j = torch.arange(n)[:, None], torch.arange(m)
    seen = (j <= i + m - n) & (j > i - window)
    scores = (query / query.shape[-1] ** 0.5) @ key.mT
    return scores.masked_fill(~seen, -torch.inf).softmax(dim=-1) @ value


# --8<-- [end:example]

if __name__ == "__main__":
    from pathlib import Path

    from shell import typed

    typed("attnref check window.py:attention", Path(__file__).parent, head=18)
