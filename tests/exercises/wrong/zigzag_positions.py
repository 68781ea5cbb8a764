"""What goes wrong in zigzag_positions."""

import torch


def chunk(n, ranks, index):
    return torch.arange(index * n // (2 * ranks), (index + 1) * n // (2 * ranks))


def contiguous(n, ranks, rank):
    return torch.arange(rank * n // ranks, (rank + 1) * n // ranks)


def dealt_like_cards(n, ranks, rank):
    return torch.arange(rank, n, ranks)


def one_too_far_from_the_end(n, ranks, rank):
    return torch.cat([chunk(n, ranks, rank), chunk(n, ranks, 2 * ranks - rank)])


def end_first(n, ranks, rank):
    return torch.cat([chunk(n, ranks, 2 * ranks - 1 - rank), chunk(n, ranks, rank)])


def second_chunk_reversed(n, ranks, rank):
    return torch.cat([chunk(n, ranks, rank), chunk(n, ranks, 2 * ranks - 1 - rank).flip(0)])


def one_length_for_all(n, ranks, rank):
    size = n // (2 * ranks)
    return torch.cat([i * size + torch.arange(size) for i in (rank, 2 * ranks - 1 - rank)])


def counted_from_the_end(n, ranks, rank):
    first = chunk(n, ranks, rank)
    return torch.cat([first, n - 1 - first.flip(0)])


def a_list_of_nothing(n, ranks, rank):
    chunks = (chunk(n, ranks, i) for i in (rank, 2 * ranks - 1 - rank))
    return torch.tensor([int(position) for part in chunks for position in part])


WRONG = {
    contiguous: "both_ends",
    dealt_like_cards: "both_ends",
    one_too_far_from_the_end: "both_ends",
    end_first: "both_ends",
    second_chunk_reversed: "in_order",
    one_length_for_all: "uneven: shape",
    counted_from_the_end: "uneven: shape",
    a_list_of_nothing: "nothing: dtype",
}
