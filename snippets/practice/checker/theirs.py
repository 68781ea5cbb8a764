"""An attention with names, axes and a mask of its own."""

# --8<-- [start:example]
import torch


def attention(q, k, v, hidden=None, causal=False):
    """Tensors (batch, length, heads, width); True in hidden forbids."""
    scores = torch.einsum("bnhd,bmhd->bhnm", q / q.shape[-1] ** 0.5, k)
    n, m = scores.shape[-2:]
    forbidden = torch.ones(n, m, dtype=torch.bool).triu(1) & causal
    if hidden is not None:
        forbidden = forbidden | hidden
    weights = scores.masked_fill(forbidden, -torch.inf).softmax(dim=-1)
    return torch.einsum("bhnm,bmhd->bnhd", weights, v)


if __name__ == "__main__":
    from pathlib import Path

    from shell import typed

    asked = "attnref check theirs.py:attention --only causality,mask_polarity"
    typed(asked, Path(__file__).parent)
    said = "--map attn_mask=hidden"
    typed(f"{asked} {said}", Path(__file__).parent)
# --8<-- [end:example]
