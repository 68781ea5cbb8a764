"""What goes wrong in tree_mask."""

import torch


def walked(parents, start=lambda node: node):
    n = len(parents)
    own = torch.zeros(n, n, dtype=torch.bool)
    for node in range(n):
        seen = start(node)
        while seen != -1:
            own[node, seen] = True
            seen = parents[seen]
    return own


def before(n, past):
    return torch.ones(n, past, dtype=torch.bool)


def behind(own, past):
    return torch.cat([before(len(own), past), own], dim=-1)


def without_itself(parents, past):
    return behind(walked(parents, start=lambda node: parents[node]), past)


def meaning_reversed(parents, past):
    return ~behind(walked(parents), past)


def descendants(parents, past):
    return behind(walked(parents).T, past)


def causal(parents, past):
    n = len(parents)
    return torch.ones(n, past + n, dtype=torch.bool).tril(diagonal=past)


def both_ways(parents, past):
    own = walked(parents)
    return behind(own | own.T, past)


def parents_only(parents, past):
    own = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent != -1:
            own[node, parent] = True
    return behind(own, past)


def without_the_cache(parents, past):
    own = walked(parents)
    return torch.cat([~before(len(own), past), own], dim=-1)


def nodes_alone(parents, past):
    return walked(parents)


def cache_at_the_end(parents, past):
    own = walked(parents)
    return torch.cat([own, before(len(own), past)], dim=-1)


def cache_for_roots_only(parents, past):
    own, roots = walked(parents), torch.tensor(parents)[:, None] == -1
    return torch.cat([before(len(own), past) & roots, own], dim=-1)


def parents_first(parents, past):
    own = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent != -1:
            own[node] |= own[parent]
    return behind(own, past)


def earlier_nodes_only(parents, past):
    return behind(walked(parents).tril(), past)


WRONG = {
    without_itself: "itself",
    meaning_reversed: "itself",
    descendants: "upwards",
    causal: "upwards",
    both_ways: "upwards",
    parents_only: "all_the_way",
    without_the_cache: "cache",
    nodes_alone: "cache: shape",
    cache_at_the_end: "cache",
    cache_for_roots_only: "cache",
    parents_first: "any_order",
    earlier_nodes_only: "any_order",
}
