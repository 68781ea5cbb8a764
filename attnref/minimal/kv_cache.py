"""One step of decoding with a cache of keys and values.

Explained in foundations/kv-cache; with every option: attnref.kv_cache_attention.
"""

import torch


def cached_attention_step(query, key, value, cache=None):
    """The new tokens see what is in the cache and themselves up to their place.

        K = [K_cache; K_new],   V = [V_cache; V_new]

    ``query``, ``key``: ``(..., t, d)``; ``value``: ``(..., t, d_v)``, of the t new tokens;
    ``cache``: what the last step returned. Returns the output ``(..., t, d_v)`` and the cache.
    Left out: a buffer of fixed size; ``cat`` copies the cache at every step.
    Source: Shazeer 2019, arXiv 1911.02150, section 2.4.

    >>> x = torch.ones(1, 2)
    >>> output, cache = cached_attention_step(x, x, x)
    >>> cached_attention_step(x, x, 3 * x, cache)[0]
    tensor([[2., 2.]])
    """
    if cache is not None:
        key, value = (torch.cat(both, dim=-2) for both in zip(cache, (key, value), strict=True))
    t, m = query.shape[-2], key.shape[-2]
    scores = (query / query.shape[-1] ** 0.5) @ key.mT  # (..., t, m)
    later = torch.ones(t, m, dtype=torch.bool, device=query.device).triu(m - t + 1)
    output = torch.softmax(scores.masked_fill(later, float("-inf")), dim=-1) @ value
    return output, (key, value)
