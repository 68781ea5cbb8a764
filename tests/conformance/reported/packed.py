"""Packed sequences, from public reports; (n_1 + n_2 + ..., h, d)."""

import torch
import torch.nn.functional as F


# fla-org/flash-linear-attention#842 (2026): a mask of ones, as trainers add it, replaces the given
# borders by one sequence of all; right: given borders count.
def bad_borders(q, k, v, cu_seqlens_q, cu_seqlens_k, is_token=None, causal=False):
    if is_token is not None:
        cu_seqlens_q, cu_seqlens_k = (torch.tensor([0, len(x)]) for x in (q, k))
    return _varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, causal)


def good_borders(q, k, v, cu_seqlens_q, cu_seqlens_k, is_token=None, causal=False):
    return _varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, causal)


def _varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, causal):
    sizes = [borders.diff().tolist() for borders in (cu_seqlens_q, cu_seqlens_k, cu_seqlens_k)]
    outputs = []
    for sample in zip(*map(torch.split, (q, k, v), sizes), strict=True):
        query, key, value = (x.transpose(0, 1) for x in sample)  # (h, n, d)
        n, m = query.shape[1], key.shape[1]
        seen = torch.ones(n, m, dtype=torch.bool)
        seen = seen.tril(m - n) if causal else seen
        output = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        outputs.append(output.transpose(0, 1))
    return torch.cat(outputs)
