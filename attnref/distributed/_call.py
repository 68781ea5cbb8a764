"""One call by all ranks: checked where it came in, compared, and cut into what each computes."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from attnref import checks
from attnref._door import Call, check_mask_type, enter
from attnref.checks import Shape
from attnref.distributed._agreement import Terms, agree, check_untransformed, number_of_call
from attnref.distributed._blocks import Tiles, tiles
from attnref.distributed._masks import check_same_mask
from attnref.distributed._ranks import Ranks
from attnref.distributed.layouts import all_rank_positions
from attnref.layouts import Held, check_layout, length
from attnref.masks import Mask
from attnref.variants._tiled import is_derived


class Shared(NamedTuple):
    """A call that all ranks agree on.

    Attributes:
        ranks: those that make it.
        tiles: what this rank computes, by the rank whose keys they are.
        keys: how many keys each rank holds.
        lead: the leading dimensions of the output.
        number: which call of these ranks this is.
    """

    ranks: Ranks
    tiles: Tiles
    keys: list[int]
    lead: Shape
    number: int

    def shapes(self, rank: int, *like: Tensor) -> list[Shape]:
        """Of such tensors as that rank holds them."""
        count = self.keys[rank % self.ranks.size]
        return [(*x.shape[:-2], count, x.shape[-1]) for x in like]


def enter_shared(
    ranks: Ranks,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Mask | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    layout: str,
) -> Shared:
    """The call, once all ranks are known to make the same one on the parts of one sequence."""

    def check() -> tuple[Call, Terms]:
        call = enter(query, key, value, None, dropout_p, is_causal, scale, enable_gqa)
        return call, terms(call, attn_mask, layout)

    call, lengths = agree(check, ranks)
    queries, keys = query_and_key_positions(ranks, lengths, layout)
    check_mask_of_all(call, lengths, attn_mask, ranks)
    return plan_share(ranks, call, queries, keys, attn_mask)


def terms(call: Call, attn_mask: Mask | None, layout: str) -> Terms:
    """What has to be the same on all ranks; the lengths of query and key, which need not."""
    check_layout(layout)
    check_untransformed(query=call.query, key=call.key, value=call.value)
    if attn_mask is not None:
        check_mask_object(attn_mask)
    same = {
        "dtype": str(call.query.dtype),
        **{
            f"shape of {name} (length apart)": [*x.shape[:-2], x.shape[-1]]
            for name, x in zip(("query", "key", "value"), call[:3], strict=True)
        },
        "is_causal": call.is_causal,
        "scale": call.scale,
        "enable_gqa": call.enable_gqa,
        "layout": layout,
        "shape of attn_mask": None if attn_mask is None else attn_mask.shape,
        "need of gradients": is_derived(*call[:3]),
    }
    n, m = call.shape[-2:]
    return Terms(same, (n, m))


def check_mask_object(attn_mask: Mask) -> None:
    """A rule can be asked for parts of it."""
    check_mask_type(attn_mask)
    if isinstance(attn_mask, Tensor):
        raise TypeError(
            "attn_mask: expected a mask of attnref.masks over the whole sequence, got a "
            "torch.Tensor. A rule needs no memory: take masks.packed(lengths), "
            "masks.sliding_window(n, window=w) or an attnref.Mask of your own."
        )


def query_and_key_positions(
    ranks: Ranks, lengths: Sequence[Sequence[int]], layout: str
) -> tuple[list[Held], list[Held]]:
    """Which positions of query and of key each rank holds; its lengths must be those of them."""
    counts = zip(("query", "key"), zip(*lengths, strict=True), strict=True)
    queries, keys = (all_rank_positions(name, ranks, own, layout) for name, own in counts)
    return queries, keys


def check_mask_of_all(
    call: Call, lengths: Sequence[Sequence[int]], attn_mask: Mask | None, *groups: Ranks
) -> None:
    """The mask is over the queries and keys of all ranks, and the same on each of them."""
    if attn_mask is not None:
        n, m = (sum(own) for own in zip(*lengths, strict=True))
        checks.check_mask(attn_mask.shape, (*call.shape[:-2], n, m))
        check_same_mask(attn_mask, *groups)


def plan_share(
    ranks: Ranks, call: Call, queries: list[Held], keys: list[Held], attn_mask: Mask | None
) -> Shared:
    """What this rank computes of it."""
    if attn_mask is not None:  # with all its rows and keys, so that parts can be cut from it
        n, m = (sum(map(length, parts)) for parts in (queries, keys))
        attn_mask = attn_mask.expand((*attn_mask.shape[:-2], n, m))
    found = [
        tiles(queries[ranks.rank], part, is_causal=call.is_causal, mask=attn_mask) for part in keys
    ]
    counts = [length(part) for part in keys]
    work = Tiles(found, call.scale, call.enable_gqa)
    return Shared(ranks, work, counts, call.shape[:-2], number_of_call(ranks))
