"""Packed sequences, from public reports; (n_1 + n_2 + ..., h, d)."""

import torch


# fla-org/flash-linear-attention#842 (2026): a mask of ones, as trainers add it, replaces the given
# borders by one sequence of all; right: given borders count.
def bad_borders(q, k, v, cu_seqlens, attention_mask=None, causal=False):
    if attention_mask is not None:
        cu_seqlens = cu_seqlens.new_tensor([0, int(attention_mask.sum())])
    return _varlen(q, k, v, cu_seqlens, causal)


def good_borders(q, k, v, cu_seqlens, attention_mask=None, causal=False):
    return _varlen(q, k, v, cu_seqlens, causal)


def _varlen(q, k, v, cu_seqlens, causal):
    outputs = []
    for start, end in cu_seqlens.unfold(0, 2, 1).tolist():
        query, key, value = (x[start:end].transpose(0, 1) for x in (q, k, v))
        scores = query @ key.mT * q.shape[-1] ** -0.5  # (h, n, n)
        if causal:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            scores = scores.masked_fill(~seen, -torch.inf)
        outputs.append((torch.softmax(scores, -1) @ value).transpose(0, 1))
    return torch.cat(outputs)
