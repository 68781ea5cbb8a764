"""Paged caches, from public reports; key and value of (pages, page size, h, d)."""

import torch


def _read(key, block_table):
    """The pages of each sample in order, (b, h, m, d)."""
    return key[block_table].flatten(1, 2).transpose(1, 2)


def _attend(query, key, value, cache_seqlens, is_causal=True, bounded=True):
    n, j = query.shape[-2], torch.arange(key.shape[-2])
    length = cache_seqlens[:, None, None, None]
    i = length - n + torch.arange(n)[:, None]
    seen = j < length if bounded else j >= 0
    seen = seen & (j <= i) if is_causal else seen
    scores = query @ key.mT * query.shape[-1] ** -0.5
    return torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ value


# hw-native-sys/pypto#470 (2026): two logical pages are read as neighbours in memory, which holds
# only for a table in order; right: each page is looked up.
def bad_table(query, key, value, block_table, cache_seqlens):
    table = block_table.clone()
    pairs = table.shape[1] // 2 * 2
    table[:, 1:pairs:2] = (table[:, 0:pairs:2] + 1) % len(key)
    return _attend(query, _read(key, table), _read(value, table), cache_seqlens)


def good_table(query, key, value, block_table, cache_seqlens):
    return _attend(query, _read(key, block_table), _read(value, block_table), cache_seqlens)


# flashinfer-ai/flashinfer#3716 (2026): without causality the end of the last page is not masked, so
# what lies behind the sample joins the denominator; right: cache_seqlens ends it in both cases.
def bad_last_page(query, key, value, block_table, cache_seqlens, is_causal=True):
    key, value = _read(key, block_table), _read(value, block_table)
    return _attend(query, key, value, cache_seqlens, is_causal, bounded=is_causal)


def good_last_page(query, key, value, block_table, cache_seqlens, is_causal=True):
    key, value = _read(key, block_table), _read(value, block_table)
    return _attend(query, key, value, cache_seqlens, is_causal)


PAGE = 4


# pegainfer-project/pegainfer#291 (2026): the next page is taken as soon as one is full, and the
# length is reckoned from the number of pages, so each full page brings a page of zeros (or of
# another request) into the step; right: pages count only up to the length.
def bad_eager_page(query, key, value, cache=None):
    return _step(query, key, value, cache, eager=True)


def good_eager_page(query, key, value, cache=None):
    return _step(query, key, value, cache, eager=False)


def _step(query, key, value, cache, eager):
    cache = cache or {"k": key[..., :0, :], "v": value[..., :0, :]}
    held = {"k": torch.cat([cache["k"], key], -2), "v": torch.cat([cache["v"], value], -2)}
    n, m = query.shape[-2], held["k"].shape[-2]
    fresh = PAGE if eager and m % PAGE == 0 else 0
    key, value = (torch.nn.functional.pad(x, (0, 0, 0, fresh)) for x in held.values())
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    seen = torch.cat([seen, torch.ones(n, fresh, dtype=torch.bool)], -1)
    scores = query @ key.mT * query.shape[-1] ** -0.5
    return torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ value, held
