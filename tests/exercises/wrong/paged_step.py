"""What goes wrong in paged_step."""

import torch


def attend(query, keys, values, held, *, width=None, clean=True):
    """Over rows ``(b, places, h, d)`` that have been looked up."""
    if clean:
        values = torch.where(held[:, :, None, None], values, 0.0)
    scores = torch.einsum("bhd,bjhd->bhj", query, keys) / (width or query.shape[-1]) ** 0.5
    scores = scores.masked_fill(~held[:, None], -torch.inf)
    return torch.einsum("bhj,bjhd->bhd", torch.softmax(scores, -1), values)


def looked_up(pages, table):
    size = pages.shape[1]
    j = torch.arange(table.shape[1] * size)
    return pages[table[:, j // size], j % size]


def places(pages, table, lengths):
    return torch.arange(table.shape[1] * pages.shape[1]) < lengths[:, None]


def page_and_place_swapped(query, key_pages, value_pages, block_table, lengths):
    size = key_pages.shape[1]
    j = torch.arange(block_table.shape[1] * size)
    keys, values = (
        pages[j % size, block_table[:, j // size]] for pages in (key_pages, value_pages)
    )
    return attend(query, keys, values, places(key_pages, block_table, lengths))


def without_the_table(query, key_pages, value_pages, block_table, lengths):
    straight = torch.arange(block_table.numel()).view_as(block_table)
    return right(query, key_pages, value_pages, straight, lengths)


def whole_pages(query, key_pages, value_pages, block_table, lengths):
    size = key_pages.shape[1]
    return right(query, key_pages, value_pages, block_table, -(-lengths // size) * size)


def one_too_many(query, key_pages, value_pages, block_table, lengths):
    return right(query, key_pages, value_pages, block_table, lengths + 1)


def one_short(query, key_pages, value_pages, block_table, lengths):
    return right(query, key_pages, value_pages, block_table, (lengths - 1).clamp(min=1))


def table_of_the_first(query, key_pages, value_pages, block_table, lengths):
    return right(query, key_pages, value_pages, block_table[:1].expand_as(block_table), lengths)


def length_of_the_longest(query, key_pages, value_pages, block_table, lengths):
    return right(query, key_pages, value_pages, block_table, lengths.amax().expand_as(lengths))


def no_scale(query, key_pages, value_pages, block_table, lengths):
    keys, values = (looked_up(pages, block_table) for pages in (key_pages, value_pages))
    return attend(query, keys, values, places(key_pages, block_table, lengths), width=1)


def places_and_heads_mixed(query, key_pages, value_pages, block_table, lengths):
    keys, values = (
        looked_up(pages, block_table).flatten(1, 2).unflatten(1, (pages.shape[2], -1))
        for pages in (key_pages, value_pages)
    )  # (b, h, places, d) by name, of rows in the order (places, h)
    return attend(
        query,
        keys.transpose(1, 2),
        values.transpose(1, 2),
        places(key_pages, block_table, lengths),
    )


def scores_alone(query, key_pages, value_pages, block_table, lengths):
    keys, values = (looked_up(pages, block_table) for pages in (key_pages, value_pages))
    return attend(query, keys, values, places(key_pages, block_table, lengths), clean=False)


def right(query, key_pages, value_pages, block_table, lengths):
    """With another table or other lengths than were asked for."""
    keys, values = (looked_up(pages, block_table) for pages in (key_pages, value_pages))
    return attend(query, keys, values, places(key_pages, block_table, lengths))


WRONG = {
    page_and_place_swapped: "finds_the_pages",
    without_the_table: "finds_the_pages",
    whole_pages: "stops_at_the_length",
    one_too_many: "stops_at_the_length",
    one_short: "sees_the_newest",
    table_of_the_first: "each_its_own",
    length_of_the_longest: "each_its_own",
    no_scale: "scale",
    places_and_heads_mixed: "heads",
    scores_alone: "nothing_leaks",
}
