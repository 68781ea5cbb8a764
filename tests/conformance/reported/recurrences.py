"""Linear attention, gated delta rule and state spaces, from public reports."""

import torch
import torch.nn.functional as F
from torch import nn


def _features(x):
    return F.elu(x) + 1


# fla-org/flash-linear-attention#594 (2025): the denominator sums the keys over the heads instead of
# the positions; right: query i is divided by phi(q_i) times the sum of phi(k_j), j <= i.
def bad_normalizer_axis(q, k, v):  # (b, n, h, d)
    return _normalized(q, k, v, axis=2)


def good_normalizer_axis(q, k, v):
    return _normalized(q, k, v, axis=1)


def _normalized(q, k, v, axis):
    q, k = _features(q), _features(k)
    weights = torch.einsum("bihd,bjhd->bhij", q, k).tril()
    output = torch.einsum("bhij,bjhe->bihe", weights, v)
    return output / (q * k.cumsum(axis)).sum(-1, keepdim=True)


# fla-org/flash-linear-attention#268 (2025): the state holds the earlier keys, the denominator only
# those of the call, so a decoding step is divided by too little; right: it holds their sum too.
def bad_normalizer_step(query, key, value, state=None):
    return _normalized_step(query, key, value, state, keeps=False)


def good_normalizer_step(query, key, value, state=None):
    return _normalized_step(query, key, value, state, keeps=True)


def _normalized_step(query, key, value, state, keeps):
    q, k = _features(query), _features(key)
    kv, total = state if state is not None else (0.0, 0.0)
    weights = (q @ k.mT).tril()
    sums = k.cumsum(-2) + (total if keeps else 0.0)
    output = (weights @ value + (q @ kv if state is not None else 0.0)) / (q * sums).sum(
        -1, keepdim=True
    )
    return output, (kv + k.mT @ value, total + k.sum(-2, keepdim=True))


def _delta(q, k, v, g, beta, state=None):
    """S = exp(g) S + beta k (v - exp(g) S^T k)^T, o = S^T q / sqrt(d); (n, h, d), g of (n, h)."""
    n, h, d = q.shape
    state = q.new_zeros(h, d, v.shape[-1]) if state is None else state
    outputs = []
    for t in range(n):
        state = g[t].exp()[:, None, None] * state
        error = v[t] - torch.einsum("hde,hd->he", state, k[t])
        state = state + torch.einsum("hd,he->hde", beta[t, :, None] * k[t], error)
        outputs.append(torch.einsum("hde,hd->he", state, q[t]) * d**-0.5)
    return torch.stack(outputs) if outputs else v


# NVIDIA-NeMo/Automodel#2147 (2026): packed samples without their borders, so the state of one
# sample runs on into the next; right: each sample begins with an empty state.
def bad_packed_state(q, k, v, g, beta, cu_seqlens):  # (n_1 + n_2 + ..., h, d)
    return _delta(q, k, v, g, beta)


def good_packed_state(q, k, v, g, beta, cu_seqlens):
    sizes = cu_seqlens.diff().tolist()
    samples = zip(*(x.split(sizes) for x in (q, k, v, g, beta)), strict=True)
    return torch.cat([_delta(*sample) for sample in samples])


# flashinfer-ai/flashinfer#5255 (2026): use_qk_l2norm_in_kernel is ignored, so long keys make the
# state explode; right: queries and keys of length one.
def bad_l2norm(query, key, value, g, beta, use_qk_l2norm_in_kernel=True):
    return _batched(query, key, value, g, beta)


def good_l2norm(query, key, value, g, beta, use_qk_l2norm_in_kernel=True):
    if use_qk_l2norm_in_kernel:
        query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)
    return _batched(query, key, value, g, beta)


def _batched(query, key, value, g, beta):  # (b, h, n, d), g and beta of (b, h, n)
    turned = [x.transpose(1, 2) for x in (query, key, value, g, beta)]
    samples = zip(*turned, strict=True)
    return torch.stack([_delta(*sample) for sample in samples]).transpose(1, 2)


CHUNK = 8


# vllm-project/vllm#23279 (2025): the decay of the initial state is counted from the border of the
# chunk, so it includes tokens of the sample before; right: from the first token of the sample.
def bad_decay_start(q, k, v, log_decay, initial_state, cu_seqlens):
    return _scanned(q, k, v, log_decay, initial_state, cu_seqlens, CHUNK)


def good_decay_start(q, k, v, log_decay, initial_state, cu_seqlens):
    return _scanned(q, k, v, log_decay, initial_state, cu_seqlens, 1)


def _scanned(q, k, v, log_decay, initial_state, cu_seqlens, grid):
    """(n_1 + n_2 + ..., h, d), log_decay of (..., h), initial_state of (samples, h, d, d_v)."""
    outputs = []
    borders = cu_seqlens.unfold(0, 2, 1).tolist()
    for state, (start, end) in zip(initial_state, borders, strict=True):
        a = log_decay[start:end].cumsum(0)  # (n, h)
        before = log_decay[start // grid * grid : start].sum(0)
        seen = torch.ones(len(a), len(a), dtype=torch.bool).tril()[..., None]
        decay = (a[:, None] - a).masked_fill(~seen, -torch.inf).exp()
        weights = torch.einsum("ihd,jhd->ijh", q[start:end], k[start:end]) * decay
        past = torch.einsum("ihd,hde->ihe", q[start:end], state) * (a + before).exp()[..., None]
        outputs.append(torch.einsum("ijh,jhe->ihe", weights, v[start:end]) + past)
    return torch.cat(outputs)


# AI-Hypercomputer/maxtext#5295 (2026): padding on the left reaches the first tokens through the
# short convolution before the recurrence; right: zeros go into it where the mask says padding.
class _DeltaLayer(nn.Module):
    zeroed = True

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.beta = nn.Linear(width, 3 * width), nn.Linear(width, heads)
        self.conv = nn.Conv1d(3 * width, 3 * width, 4, groups=3 * width, bias=False)

    def forward(self, x, attention_mask=None):  # (b, n, width), (b, n) with 1 for tokens
        kept = x.new_ones(x.shape[:2]) if attention_mask is None else attention_mask.to(x.dtype)
        qkv = self.qkv(x) * (kept[..., None] if self.zeroed else 1)
        qkv = F.silu(self.conv(F.pad(qkv.mT, (3, 0))).mT)
        q, k, v = (y.unflatten(-1, (self.heads, -1)) for y in qkv.chunk(3, -1))
        beta = self.beta(x).sigmoid() * kept[..., None]
        gate = torch.zeros_like(beta)
        k = F.normalize(k, dim=-1)
        output = [_delta(*sample) for sample in zip(q, k, v, gate, beta, strict=True)]
        return torch.stack(output).flatten(2)


class GoodPadded(_DeltaLayer):
    pass


class BadPadded(_DeltaLayer):
    zeroed = False
