"""Biases by distance, from public reports."""

import torch


def _attend(query, key, value, bias):
    n, m = query.shape[-2], key.shape[-2]
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    scores = query @ key.mT * query.shape[-1] ** -0.5 + bias
    return torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ value


# meta-pytorch/attention-gym#86 (2024): ALiBi's bias has the wrong sign, so far keys are preferred;
# right: slope * (j - i), which is at most zero.
def bad_sign(query, key, value, alibi_slopes):
    return _attend(query, key, value, -_alibi(query, key, alibi_slopes))


def good_sign(query, key, value, alibi_slopes):
    return _attend(query, key, value, _alibi(query, key, alibi_slopes))


def _alibi(query, key, slopes):
    n, m = query.shape[-2], key.shape[-2]
    return slopes.reshape(-1, 1, 1) * (torch.arange(m) - torch.arange(m - n, m)[:, None])


# huggingface/candle#899 (2023): with a cache, T5's bias takes the new query for position 0, so all
# old keys lie ahead of it; right: its position counts the cache.
def bad_bias_step(query, key, value, cache=None):
    return _step(query, key, value, cache, counted=False)


def good_bias_step(query, key, value, cache=None):
    return _step(query, key, value, cache, counted=True)


def _step(query, key, value, cache, counted):
    past = 0 if cache is None else cache[0].shape[-2]
    held = cache or (key[..., :0, :], value[..., :0, :])
    key, value = (torch.cat(pair, -2) for pair in zip(held, (key, value), strict=True))
    i = torch.arange(query.shape[-2])[:, None] + (past if counted else 0)
    bucket = (i - torch.arange(key.shape[-2])).clamp(0, 31)
    table = torch.cos(torch.arange(32.0)).to(query.dtype)  # stands for what is learned
    return _attend(query, key, value, table[bucket]), (key, value)
