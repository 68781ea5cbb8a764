"""What goes wrong in chosen_blocks."""

import torch


def rated(query, key, block_size, rate=lambda blocks: blocks.mean(-2)):
    blocks = torch.unflatten(key, -2, (-1, block_size))  # (..., blocks, block_size, d)
    return query @ rate(blocks).mT  # (..., n, blocks)


def order(gates, block_size, own=torch.inf, ahead=-torch.inf):
    position = torch.arange(gates.shape[-2])[:, None] // block_size
    block = torch.arange(gates.shape[-1])
    if ahead is not None:
        gates = gates.masked_fill(block > position, ahead)
    return gates if own is None else gates.masked_fill(block == position, own)


def written(gates, block_size, count, causal=True):
    best, places = gates.topk(count, dim=-1)
    chosen = torch.zeros_like(gates, dtype=torch.bool).scatter(-1, places, best > -torch.inf)
    allowed = chosen.repeat_interleave(block_size, dim=-1)
    return allowed.tril() if causal else allowed


def few(gates, count):
    return min(count, gates.shape[-1])


def own_block_competes(query, key, block_size, count):
    gates = order(rated(query, key, block_size), block_size, own=None)
    return written(gates, block_size, few(gates, count))


def own_block_whole(query, key, block_size, count):
    gates = order(rated(query, key, block_size), block_size)
    return written(gates, block_size, few(gates, count), causal=False)


def only_its_own(query, key, block_size, count):
    gates = order(rated(query, key, block_size), block_size)
    return written(gates, block_size, 1)


def blocks_ahead_compete(query, key, block_size, count):
    gates = order(rated(query, key, block_size), block_size, ahead=None)
    return written(gates, block_size, few(gates, count))


def by_the_largest_key(query, key, block_size, count):
    blocks = torch.unflatten(key, -2, (-1, block_size))
    scores = query[..., None, :, :] @ blocks.mT  # (..., blocks, n, block_size)
    gates = order(scores.amax(-1).mT, block_size)
    return written(gates, block_size, few(gates, count))


def by_the_last_blocks(query, key, block_size, count):
    gates = rated(query, key, block_size)
    gates = order(torch.zeros_like(gates) + torch.arange(gates.shape[-1]), block_size)
    return written(gates, block_size, few(gates, count))


def by_the_length_of_the_mean(query, key, block_size, count):
    means = torch.unflatten(key, -2, (-1, block_size)).mean(-2).norm(dim=-1)
    gates = means[..., None, :].expand(*query.shape[:-1], means.shape[-1])
    return written(order(gates, block_size), block_size, few(gates, count))


def count_beyond_the_blocks(query, key, block_size, count):
    return written(order(rated(query, key, block_size), block_size), block_size, count)


def one_choice_for_all(query, key, block_size, count):
    mean_query, mean_key = (x.reshape(-1, *x.shape[-2:]).mean(0) for x in (query, key))
    gates = order(rated(mean_query, mean_key, block_size), block_size)
    allowed = written(gates, block_size, few(gates, count))
    return allowed.expand(*query.shape[:-1], allowed.shape[-1])


WRONG = {
    own_block_competes: "own_block",
    own_block_whole: "own_block",
    blocks_ahead_compete: "no_future",
    only_its_own: "best_mean",
    by_the_largest_key: "best_mean",
    by_the_last_blocks: "best_mean",
    by_the_length_of_the_mean: "best_mean",
    count_beyond_the_blocks: "fewer_blocks: RuntimeError",
    one_choice_for_all: "batch",
}
