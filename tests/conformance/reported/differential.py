"""Differential attention, from public reports."""

import torch

LAMBDA = 0.8  # initially, and here for all


# Jaykef/ai-algorithms#1 (2024): what follows the difference of the two softmaxes is missing: each
# head is normalized and multiplied by 1 - lambda_init; right: with both.
def bad_difference(query, key, value, is_causal=False):
    return _difference(query, key, value, is_causal)


def good_difference(query, key, value, is_causal=False):
    output = _difference(query, key, value, is_causal)
    return (1 - LAMBDA) * output * (output.square().mean(-1, keepdim=True) + 1e-5).rsqrt()


def _difference(query, key, value, is_causal):
    weights = []
    for q, k in zip(query.chunk(2, -1), key.chunk(2, -1), strict=True):
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if is_causal:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            scores = scores.masked_fill(~seen, -torch.inf)
        weights.append(torch.softmax(scores, -1))
    return (weights[0] - LAMBDA * weights[1]) @ value
