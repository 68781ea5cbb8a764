"""Attention sinks, from public reports: a learned logit, and first tokens that are kept."""

import torch
import torch.nn.functional as F

SPLIT = 4


# ROCm/rocm-libraries#12227 (2026): a row whose first split of the keys is hidden counts the sink
# twice, so all its weights are too small; right: exp(sink) joins the denominator once.
def bad_split(query, key, value, sinks, attn_mask=None):
    return _split(query, key, value, sinks, attn_mask, twice=True)


def good_split(query, key, value, sinks, attn_mask=None):
    return _split(query, key, value, sinks, attn_mask, twice=False)


def _split(query, key, value, sinks, attn_mask, twice):
    scores = query @ key.mT * query.shape[-1] ** -0.5  # (b, h, n, m)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    sink = sinks.reshape(1, -1, 1, 1)
    top = torch.maximum(scores.amax(-1, keepdim=True), sink)
    powers, extra = (scores - top).exp(), (sink - top).exp()
    sums = [part.sum(-1, keepdim=True) for part in powers.split(SPLIT, -1)]
    times = 1 + (sums[0] == 0) if twice else 1
    return powers @ value / (sum(sums) + times * extra)


SINKS, RECENT = 4, 8


# rajveer43/VeloxQuant-MLX#370 (2026): evicted keys leave gaps, and a causal mask by place instead
# of position then hides recent keys from several new queries (or shows them the future);
# right: query i sees the first 4 keys and its last 8, by position, before anything is evicted.
def bad_streaming(query, key, value, cache=None):
    key, value, position = _append(key, value, cache)
    key, value, position = _evict(key, value, position)
    n, m = query.shape[-2], key.shape[-2]
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    return output, (key, value, position)


def good_streaming(query, key, value, cache=None):
    key, value, position = _append(key, value, cache)
    i = position[-query.shape[-2] :, None]
    seen = (position <= i) & ((position < SINKS) | (position > i - RECENT))
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    return output, _evict(key, value, position)


def _append(key, value, cache):
    """The keys, the values and the positions of all that is kept, the new ones last."""
    k, v, position = cache or (key[..., :0, :], value[..., :0, :], torch.arange(0))
    past = 0 if cache is None else position[-1] + 1
    new = torch.arange(key.shape[-2]) + past
    return torch.cat([k, key], -2), torch.cat([v, value], -2), torch.cat([position, new])


def _evict(key, value, position):
    kept = (position < SINKS) | (position > position[-1] - RECENT)
    return key[..., kept, :], value[..., kept, :], position[kept]
