"""The patterns: a function that makes each mask, and below them all the rule of each."""

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from attnref.checks import (
    check_alignment,
    check_flag,
    check_integer,
    check_integers,
    check_positions,
)
from attnref.masks.mask import Mask, check_block_size


def causal(n: int, m: int | None = None, *, alignment: str | None = None) -> Mask:
    r"""Each query sees no key of its own future.

    With as many queries as keys this is ``j ≤ i``. With ``n ≠ m`` two meanings are
    in use, and you must name one:

    - ``"top-left"``: ``j ≤ i``, both sequences begin together (PyTorch's ``is_causal``);
    - ``"bottom-right"``: ``j ≤ i+m-n``, both end together, as when the last n tokens
      attend to a cache of m. With ``n>m`` the first n - m queries see nothing.

    Args:
        n: number of queries.
        m: number of keys; None means n.
        alignment: required when n != m, without effect when n == m.

    Raises:
        ValueError: when n != m and no alignment is named, or for an unknown name.

    Examples:
        >>> causal(2, 4, alignment="bottom-right").dense()
        tensor([[ True,  True,  True, False],
                [ True,  True,  True,  True]])
    """
    n, m, offset = check_alignment(n, m, alignment)
    return Mask((n, m), partial(_causal_rule, offset))


def sliding_window(
    n: int,
    m: int | None = None,
    *,
    window: int,
    alignment: str | None = None,
    is_causal: bool = False,
) -> Mask:
    r"""Each query sees the ``window`` keys nearest to it, its own included.

        i' - W < j ≤ i' (causal)
        |i' - j| ≤ (W-1)/2 (two-sided, odd W)

    with ``i'=i``, or ``i'=i+m-n`` for the alignment ``"bottom-right"``. At the borders
    fewer keys exist. Other programs count differently: Longformer's two-sided w leaves its own
    key out, so that w = 512 is ``window=513``; FlashAttention's ``window_size`` is the pair
    ``(window - 1, 0)``, or ``(window // 2, window // 2)`` two-sided.

    Args:
        n, m, alignment: as in :func:`causal`.
        window: number of keys W; odd when two-sided, with the query's own key in the middle.
        is_causal: whether the window ends at the query's own key or has it in the middle.

    Raises:
        TypeError, ValueError: for a window below 1, or an even one when two-sided, and where
            ``is_causal`` is no bool; as in :func:`causal`.

    Source: Beltagy et al. 2020, arXiv 2004.05150, section 3.1.

    Examples:
        >>> print(sliding_window(4, window=2, is_causal=True).picture())
        #...
        ##..
        .##.
        ..##
    """
    n, m, offset = check_alignment(n, m, alignment)
    back, ahead = window_reach("window", window, is_causal)
    return Mask((n, m), partial(_band_rule, offset - back, offset + ahead))


def dilated(
    n: int,
    m: int | None = None,
    *,
    window: int,
    dilation: int,
    alignment: str | None = None,
    is_causal: bool = False,
) -> Mask:
    r"""A sliding window with gaps: it sees one in every ``dilation`` keys.

        j = i' - r t
        t = 0, …, W-1 (causal), |t| ≤ (W-1)/2 (two-sided)

    Args:
        n, m, alignment: as in :func:`causal`; it also says what ``i'`` is.
        window, is_causal: as in :func:`sliding_window`; W counts the keys seen, not the gaps.
        dilation: distance r between keys seen; 1 leaves no gap.

    Raises:
        ValueError: for a dilation below 1; as in :func:`sliding_window`.

    Source: Beltagy et al. 2020, arXiv 2004.05150, section 3.1.

    Examples:
        >>> print(dilated(5, window=2, dilation=3, is_causal=True).picture())
        #....
        .#...
        ..#..
        #..#.
        .#..#
    """
    dilation = check_integer(
        "dilation", dilation, 1, "It is the distance between keys; 1 leaves no gap."
    )
    n, m, offset = check_alignment(n, m, alignment)
    back, ahead = (dilation * keys for keys in window_reach("window", window, is_causal))
    return Mask((n, m), partial(_dilated_rule, offset, back, ahead, dilation))


def strided(n: int, m: int | None = None, *, stride: int, alignment: str | None = None) -> Mask:
    r"""The last ``stride`` keys, and before them every ``stride``-th one.

        0 ≤ i'-j < l or i'-j ∈ {l, 2l, 3l, …}

    Two layers carry information from any past position to any later one. With
    ``l ≈ √n`` about ``n(l+n/2l)`` pairs remain, of ``n²/2``.

    Args:
        n, m, alignment: as in :func:`causal`; it also says what ``i'`` is.
        stride: the step l.

    Raises:
        ValueError: for a stride below 1; as in :func:`causal`.

    Source: Child et al. 2019, arXiv 1904.10509, section 4, both of its sets in one mask.

    Examples:
        >>> print(strided(8, stride=3).picture())
        #.......
        ##......
        ###.....
        ####....
        .####...
        ..####..
        #..####.
        .#..####
    """
    stride = check_integer("stride", stride, 1, "The usual choice is near the square root of n.")
    n, m, offset = check_alignment(n, m, alignment)
    return Mask((n, m), partial(_strided_rule, offset, stride))


def dyadic(n: int, m: int | None = None, *, alignment: str | None = None) -> Mask:
    r"""Each query sees its own key and those at distances 1, 2, 4, 8, … before it.

        i'-j ∈ {0} ∪ {2^k : k ≥ 0}

    At most ``n(⌊log_2 n⌋+2)`` pairs are allowed. Layers add distances, so a
    past position is reached after as many layers as its distance has binary ones:
    ``⌊log_2 n⌋`` layers always suffice.

    Args:
        n, m, alignment: as in :func:`causal`; it also says what ``i'`` is.

    Raises:
        ValueError: as in :func:`causal`.

    Source: Li et al. 2019, arXiv 1907.00235 (LogSparse), section 4.2.

    Examples:
        >>> print(dyadic(6).picture())
        #.....
        ##....
        ###...
        .###..
        #.###.
        .#.###
    """
    n, m, offset = check_alignment(n, m, alignment)
    return Mask((n, m), partial(_dyadic_rule, offset))


def padding(lengths: Tensor | Sequence[int], m: int) -> Mask:
    r"""Each sample sees its own first ``lengths[b]`` keys, not the padding behind them.

        j < lengths_b

    The shape ``(b, 1, 1, m)`` broadcasts over heads and queries. It forbids keys only: the rows
    of padded queries still hold numbers, to be left out of the loss. A tensor ``(b, m)`` would
    broadcast differently: where b = n it gives query i the padding of sample i, without an error.

    Args:
        lengths: ``(b,)`` integers between 0 and m.
        m: number of keys, the padded length.

    Raises:
        ValueError: for lengths of another shape or out of range.

    Examples:
        >>> padding([1, 3], 3).dense()[:, 0, 0]
        tensor([[ True, False, False],
                [ True,  True,  True]])
    """
    (m,) = check_positions(m=m)
    advice = "Count the real tokens of each sequence; m is the length of the longest or more."
    counts = _integers("lengths", lengths, {1: "(b,)"}, advice, most=m)
    ends = counts[:, None, None, None]  # (b, 1, 1, 1)
    return Mask((len(counts), 1, 1, m), partial(_prefix_rule, ends))


def prefix_lm(n: int, *, prefix: int) -> Mask:
    r"""The first ``prefix`` tokens see each other both ways, the rest is causal.

        j ≤ i or j < prefix

    For a different prefix in each sample write ``causal(n) | padding(prefixes, n)``, of shape
    ``(b, 1, n, n)``.

    Args:
        n: number of queries and keys.
        prefix: number of tokens, from 0 (causal) to n (every pair).

    Raises:
        ValueError: for a prefix out of range.

    Source: Raffel et al. 2019, arXiv 1910.10683, section 3.2.1.

    Examples:
        >>> print(prefix_lm(4, prefix=2).picture())
        ##..
        ##..
        ###.
        ####
    """
    (n,) = check_positions(n=n)
    advice = "It is the number of tokens that are given, before the first to be predicted."
    prefix = check_integer("prefix", prefix, 0, advice, most=n)
    return Mask((n, n), partial(_prefix, prefix))


def documents(ids: Tensor | Sequence[int] | Sequence[Sequence[int]]) -> Mask:
    r"""Several documents in one row: each token sees its own document only.

        id_i = id_j ≥ 0

    A negative id marks padding, which sees nothing and is seen by nothing. Combine with
    :func:`causal` for a decoder. With the lengths at hand, see :func:`packed`.

    Args:
        ids: ``(n,)`` or ``(b, n)`` integers, the document of each token.

    Returns:
        A mask of the shape ``(n, n)`` or ``(b, 1, n, n)``.

    Raises:
        ValueError: for ids of another shape.

    Source: Krell et al. 2021, arXiv 2107.02027.

    Examples:
        >>> print(documents([0, 0, 1, 1, 1, -1]).picture())
        ##....
        ##....
        ..###.
        ..###.
        ..###.
        ......
    """
    advice = "Number the documents of a row 0, 1, …; give padding -1."
    labels = _integers("ids", ids, {1: "(n,)", 2: "(b, n)"}, advice, least=-math.inf)
    if labels.dim() == 2:
        labels = labels[:, None]  # (b, 1, n): the same for all heads
    n = labels.shape[-1]
    return Mask((*labels.shape[:-1], n, n), partial(_same_document, labels))


def packed(lengths: Tensor | Sequence[int]) -> Mask:
    r"""Documents of these lengths, end to end in one row: :func:`documents` of them.

    Kernels for packed sequences take the borders instead, ``cu_seqlens`` = 0, 3, 5, …; from
    these the lengths are ``cu_seqlens.diff()``.

    Args:
        lengths: ``(documents,)`` integers, 0 or more; n is their sum.

    Raises:
        ValueError: for lengths of another shape or below 0.

    Examples:
        >>> packed([2, 3]).count()  # 2² + 3²
        13
    """
    advice = "They are the tokens of each document; from cu_seqlens take cu_seqlens.diff()."
    counts = _integers("lengths", lengths, {1: "(documents,)"}, advice)
    return documents(torch.repeat_interleave(counts))  # 0, 0, 0, 1, 1 for the lengths 3, 2


def global_tokens(n: int, *, positions: Tensor | Sequence[int]) -> Mask:
    r"""The given positions see every key and are seen by every query; nothing else is allowed.

        i ∈ G or j ∈ G

    It is meant to be joined by ``|`` with another mask, such as a two-sided window.

    Args:
        n: number of queries and keys.
        positions: ``(g,)`` integers between 0 and n - 1, the set G.

    Raises:
        ValueError: for positions of another shape or out of range.

    Source: Beltagy et al. 2020, arXiv 2004.05150, section 3.1.

    Examples:
        >>> print(global_tokens(4, positions=[1]).picture())
        .#..
        ####
        .#..
        .#..
    """
    (n,) = check_positions(n=n)
    advice = "Count from the start: 0 is the first token, n - 1 the last."
    chosen = _integers("positions", positions, {1: "(g,)"}, advice, most=n - 1)
    is_global = torch.zeros(n, dtype=torch.bool, device=chosen.device)  # (n,)
    is_global[chosen] = True
    return Mask((n, n), partial(_is_global, is_global))


def tree(parents: Tensor | Sequence[int] | Sequence[Sequence[int]], *, past: int = 0) -> Mask:
    r"""Drafts that share their beginnings: each token sees its ancestors, itself and the past.

        j < past or j - past ∈ {i, parent_i, parent_(parent_i), …}

    It is asked in another form: a depth-first walk enters each node at one time and has passed
    all its descendants at another, and a is an ancestor of i, or i itself, iff
    ``enter_a ≤ enter_i < leave_a``. The past is the root.

    With the right positions each path gets the rows that it would get alone. Of all that a node
    sees it is the last, so its position is ``tree(parents, past=past).dense().sum(-1) - 1``; nodes
    of one depth share it. Rotations take these positions, and a window or a bias must be given
    them, too: places in the row are no distances.

    Args:
        parents: ``(n,)`` or ``(b, n)`` integers: node i continues ``parents[i]``, or with -1 the
            past itself, as several nodes may. Parents may come after their children. Fill up a
            sample of fewer nodes with -1.
        past: number of tokens before all nodes, as in a cache, which every node sees.

    Returns:
        A mask of the shape ``(n, past + n)`` or ``(b, 1, n, past + n)``.

    Raises:
        ValueError: for parents of another shape, out of range or in a circle, or a negative past.

    Time and memory ``O(n)`` to make; each pair takes two comparisons, however deep the tree. It
    allows ``n (past + 1)`` pairs and the sum of the depths.

    Source: Miao et al. 2023, arXiv 2305.09781 (SpecInfer), section 4; Cai et al. 2024, arXiv
    2401.10774 (Medusa), section 2.

    Examples:
        >>> print(tree([-1, 0, 0, 1], past=2).picture())
        ###...
        ####..
        ###.#.
        ####.#
        >>> tree([-1, 0, 0, 1]).dense().sum(-1) - 1  # how deep each node is
        tensor([0, 1, 1, 2])
    """
    advice = "It counts the tokens before the first node: cache.length before they are appended."
    past = check_integer("past", past, 0, advice)
    enter, leave = _walk(parents)
    n = enter.shape[-1] - 1
    lead = (len(enter), 1) if enter.dim() == 3 else ()
    return Mask((*lead, n, past + n), partial(_is_ancestor, past, enter, leave))


def block_layout(n: int, m: int | None = None, *, layout: Tensor, block_size: int) -> Mask:
    r"""Whole blocks allowed or forbidden, as a small tensor of booleans says.

        layout_(⌊i/B⌋, ⌊j/B⌋)

    Args:
        n: number of queries.
        m: number of keys; None means n.
        layout: bool ``(..., ceil(n / block_size), ceil(m / block_size))``; leading dimensions,
            such as one layout for each head, become those of the mask.
        block_size: side B of a block; those at the end may be smaller.

    Raises:
        TypeError: for a layout that is not a bool tensor.
        ValueError: for a layout of another shape or a block size below 1.

    Examples:
        >>> layout = torch.tensor([[True, False], [True, True]])
        >>> print(block_layout(4, layout=layout, block_size=2).picture())
        ##..
        ##..
        ####
        ####
    """
    n, m = check_positions(n=n, m=n if m is None else m)
    block_size = check_block_size(block_size)
    if not isinstance(layout, Tensor) or layout.dtype != torch.bool:
        found = layout.dtype if isinstance(layout, Tensor) else type(layout).__name__
        raise TypeError(
            f"layout: expected a bool tensor, got {found}. If 1 means may attend, pass "
            "torch.as_tensor(layout).bool()."
        )
    blocks = (math.ceil(n / block_size), math.ceil(m / block_size))
    if layout.shape[-2:] != blocks:
        raise ValueError(
            f"layout: expected shape (..., {blocks[0]}, {blocks[1]}), one entry for each block "
            f"of {block_size} × {block_size} in n={n} and m={m}, got {tuple(layout.shape)}. "
            "Build it for this n, m and block_size."
        )
    return Mask((*layout.shape[:-2], n, m), partial(_laid_out, layout.clone(), block_size))


def bigbird(
    n: int,
    *,
    block_size: int,
    window_blocks: int,
    random_blocks: int,
    global_blocks: int,
    generator: torch.Generator,
) -> Mask:
    r"""Blocks of three kinds: a two-sided window, random ones and global ones.

        |I-J| ≤ (w-1)/2 or J ∈ R_I or min(I, J) < g
        I=⌊i/B⌋, J=⌊j/B⌋

    The random set ``R_I`` is drawn here, uniformly and without repetition from the blocks
    that the row would not see otherwise, as far as there are any. The first g blocks are global.

    Args:
        n: number of queries and keys.
        block_size: side B of a block.
        window_blocks: odd number w of blocks in the window, its own in the middle.
        random_blocks: number of blocks drawn for each row of blocks.
        global_blocks: number g of global blocks.
        generator: source of the random blocks.

    Raises:
        TypeError, ValueError: for a number out of range, an even window, or no generator.

    Source: Zaheer et al. 2020, arXiv 2007.14062, section 2, with existing tokens as global ones.

    Examples:
        >>> numbers = torch.Generator().manual_seed(0)
        >>> drawn = {"random_blocks": 1, "generator": numbers}
        >>> mask = bigbird(12, block_size=2, window_blocks=1, global_blocks=1, **drawn)
        >>> mask.block_summary(2).bool().sum(-1)  # itself, one drawn and the global one
        tensor([6, 3, 3, 3, 3, 3])
    """
    (n,) = check_positions(n=n)
    block_size = check_block_size(block_size)
    blocks = math.ceil(n / block_size)
    reach, _ = window_reach("window_blocks", window_blocks, is_causal=False)
    advice = f"A row of blocks has {blocks}."
    random_blocks = check_integer("random_blocks", random_blocks, 0, advice, most=blocks)
    global_blocks = check_integer("global_blocks", global_blocks, 0, advice, most=blocks)
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator: expected a torch.Generator, got {type(generator).__name__}. Make one with "
            "torch.Generator().manual_seed(0)."
        )

    row = torch.arange(blocks, device=generator.device)[:, None]  # (blocks, 1)
    column = row.mT  # (1, blocks)
    seen = ((row - column).abs() <= reach) | (torch.minimum(row, column) < global_blocks)
    lot = torch.rand(seen.shape, generator=generator, device=generator.device)  # (blocks, blocks)
    drawn = lot.masked_fill(seen, -1.0).topk(random_blocks).indices  # (blocks, random_blocks)
    return block_layout(n, layout=seen.scatter(-1, drawn, True), block_size=block_size)


# The rules are named functions, which a process can send to another: lambdas are not pickled.


def _causal_rule(offset: int, i: Tensor, j: Tensor) -> Tensor:
    return j <= i + offset  # (rows, columns)


def _band_rule(first: int, last: int, i: Tensor, j: Tensor) -> Tensor:
    return (j >= i + first) & (j <= i + last)  # (rows, columns)


def _dilated_rule(
    offset: int, back: int, ahead: int, dilation: int, i: Tensor, j: Tensor
) -> Tensor:
    own = i + offset
    # Remainders are taken of the positions, not of the n × m differences, which costs more.
    return (j >= own - back) & (j <= own + ahead) & (own % dilation == j % dilation)


def _strided_rule(offset: int, stride: int, i: Tensor, j: Tensor) -> Tensor:
    own = i + offset
    return (j <= own) & ((j > own - stride) | (own % stride == j % stride))


def _dyadic_rule(offset: int, i: Tensor, j: Tensor) -> Tensor:
    distance = i + offset - j  # (rows, columns)
    return (distance >= 0) & (distance & (distance - 1) == 0)  # at most one bit is set


def _prefix_rule(ends: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return j < ends.to(j.device)  # (b, 1, 1, columns)


def _prefix(prefix: int, i: Tensor, j: Tensor) -> Tensor:
    return (j <= i) | (j < prefix)  # (rows, columns)


def _same_document(labels: Tensor, i: Tensor, j: Tensor) -> Tensor:
    here = labels.to(i.device)
    return (here[..., i] == here[..., j]) & (here[..., i] >= 0)  # (..., rows, columns)


def _is_global(chosen: Tensor, i: Tensor, j: Tensor) -> Tensor:
    here = chosen.to(i.device)
    return here[i] | here[j]  # (rows, columns)


def _is_ancestor(past: int, enter: Tensor, leave: Tensor, i: Tensor, j: Tensor) -> Tensor:
    first, last = enter.to(i.device), leave.to(i.device)  # (..., n + 1), the past at 0
    key = (j - (past - 1)).clamp(min=0)  # the node of each key, 0 for those of the past
    here = first[..., i + 1]  # (..., rows, 1)
    return (first[..., key] <= here) & (here < last[..., key])  # (..., rows, columns)


def _laid_out(layout: Tensor, block_size: int, i: Tensor, j: Tensor) -> Tensor:
    return layout.to(i.device)[..., i // block_size, j // block_size]  # (..., rows, columns)


def window_reach(name: str, window: int, is_causal: bool) -> tuple[int, int]:
    """How many places before and behind its own a window covers."""
    check_flag("is_causal", is_causal, "False puts the query's own key in the middle.")
    window = check_integer(
        name, window, 1, "It counts what one query sees, its own place included."
    )
    if is_causal:
        return window - 1, 0
    if window % 2 == 0:
        raise ValueError(
            f"{name}: expected an odd number for a two-sided window, got {window}. The query's "
            f"own position is in the middle: {window // 2} on either side make {window + 1}."
        )
    return window // 2, window // 2


def _walk(
    parents: Tensor | Sequence[int] | Sequence[Sequence[int]],
) -> tuple[Tensor, Tensor]:
    """When a depth-first walk enters the past and each node, and when it leaves.

    The past is the root, at 0; node i is at i + 1. Each is ``(n + 1,)`` or ``(b, 1, n + 1)``.
    """
    advice = "Give each node the number of the one that it continues, or -1 for the past."
    links = _integers("parents", parents, {1: "(n,)", 2: "(b, n)"}, advice, least=-1)
    n = links.shape[-1]
    if links.numel():
        check_integer("parents", int(links.max()), -1, advice, most=n - 1)
    samples = links if links.dim() == 2 else links[None]  # (b, n)
    times = [_times(sample) for sample in samples.tolist()]
    walks = torch.tensor(times, dtype=torch.int64, device=links.device).reshape(-1, 2, n + 1)
    shape = (n + 1,) if links.dim() == 1 else (len(links), 1, n + 1)  # the same for all heads
    return walks[:, 0].reshape(shape), walks[:, 1].reshape(shape)


def _times(parents: list[int]) -> tuple[list[int], list[int]]:
    """The same for one sample; each list has an entry for the past and then one a node."""
    above = [0, *(parent + 1 for parent in parents)]  # of the past, too, which has none
    below: list[list[int]] = [[] for _ in above]
    for node, parent in enumerate(above[1:], start=1):
        below[parent].append(node)
    enter, size = [0] * len(above), [1] * len(above)
    order: list[int] = []
    waiting = [0]
    while waiting:
        node = waiting.pop()
        enter[node] = len(order)
        order.append(node)
        waiting += below[node]  # and these before all that was waiting
    if len(order) < len(above):
        lost = set(range(len(above))) - set(order)
        for _ in above:  # a node that leads to no root leads into a circle
            lost = {above[node] for node in lost}
        raise ValueError(
            "parents: expected each node to lead to -1, got a circle through node "
            f"{min(lost) - 1}. A node continues a token of its own path, never one of its "
            "descendants."
        )
    for node in reversed(order[1:]):
        size[above[node]] += size[node]
    return enter, [first + count for first, count in zip(enter, size, strict=True)]


def _integers(
    name: str,
    values: Tensor | Sequence[int] | Sequence[Sequence[int]],
    shapes: dict[int, str],
    advice: str,
    *,
    least: float = 0,
    most: float = math.inf,
) -> Tensor:
    """The values as int64, copied: a mask must not follow later changes of its arguments."""
    shape = " or ".join(shapes.values())
    try:
        numbers = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):  # which PyTorch raises, by kind of value
        raise TypeError(
            f"{name}: expected integers of shape {shape}, got {type(values).__name__}, which is no "
            f"tensor: rows differ in length, or entries are no int64. {advice}"
        ) from None
    if numbers.is_meta:
        raise TypeError(
            f"{name}: expected integers of shape {shape}, got a tensor on the meta device, which "
            f"holds none. {advice}"
        )
    whole = not (numbers.is_floating_point() or numbers.is_complex()) and (
        numbers.dtype != torch.bool
    )
    got = f"shape {tuple(numbers.shape)} of {numbers.dtype}"
    whole = whole or numbers.numel() == 0
    check_integers(name, shape, got, advice, whole=whole, fits=numbers.dim() in shapes)
    numbers = numbers.to(torch.int64, copy=True)  # which knows a least and a largest number
    for extreme in numbers.aminmax() if numbers.numel() else ():
        check_integer(name, int(extreme), least, advice, most=most)
    return numbers
