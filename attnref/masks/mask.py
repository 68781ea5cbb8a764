"""The class of all masks, and what combines them."""

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnref.checks import Shape, broadcast_shape, check_integer, check_mask

__all__ = ["Mask"]

# Given query positions (rows, 1) and key positions (1, columns), says which pairs are allowed.
Rule = Callable[[Tensor, Tensor], Tensor]

# What Mask.block_summary says of a block.
EMPTY, MIXED, FULL = 0, 1, 2

_PAIRS_AT_ONCE = 2**20  # whose int64 positions still fit a processor's cache
_PICTURE_SIDE = 128


class Mask:
    """Which query may attend to which key, as a rule with the shape ``(..., n, m)``.

    The functions of :mod:`attnref.masks` make masks; a rule of your own makes another.

    Args:
        shape: ``(..., n, m)``. A dimension of size 1 broadcasts, as in tensors: the mask of
            :func:`attnref.masks.padding` has one row, which counts for every query.
        rule: given query positions ``(rows, 1)`` and key positions ``(1, columns)``, int64 and
            on the device of the answer, returns bool that broadcasts to
            ``(..., rows, columns)``.

    Raises:
        ValueError: for a shape of fewer than two dimensions, or, when the rule is asked, for an
            answer of another shape.
        TypeError: for a shape that is not made of integers, for a rule that is no function, and
            when it is asked and does not answer in bool.

    Examples:
        >>> print(Mask((3, 4), lambda i, j: j > i).picture())
        .###
        ..##
        ...#
    """

    def __init__(self, shape: Shape, rule: Rule) -> None:
        _check_made_of(shape, rule)
        if len(shape) < 2:
            raise ValueError(
                f"shape: expected (..., n, m), got {tuple(shape)}. For a mask over keys alone "
                "write (1, m)."
            )
        self.shape = tuple(shape)
        self._rule = rule

    def dense(self, device: torch.device | str | None = None) -> Tensor:
        """The mask as a bool tensor of its whole shape, to be passed as ``attn_mask``."""
        return self.block(slice(None), slice(None), device)

    def block(
        self, rows: slice, columns: slice, device: torch.device | str | None = None
    ) -> Tensor:
        """``dense()[..., rows, columns]`` in the time and memory of that block alone.

        Examples:
            >>> from attnref.masks import causal
            >>> causal(2**20).block(slice(999, 1001), slice(998, 1002))
            tensor([[ True,  True, False, False],
                    [ True,  True,  True, False]])
        """
        i = _positions("rows", rows, self.shape[-2], device)[:, None]  # (rows, 1)
        j = _positions("columns", columns, self.shape[-1], device)[None, :]  # (1, columns)
        return self._apply_rule(i, j).expand(*self.shape[:-2], i.shape[0], j.shape[1])

    def block_summary(self, block_size: int, device: torch.device | str | None = None) -> Tensor:
        """What each square block holds: no allowed pair, some or all of them.

        It tells a blockwise method which blocks to skip (``EMPTY``), to compute without a mask
        (``FULL``) and to compute with ``block()`` (``MIXED``). Blocks at the end may be smaller.

        Returns:
            int8 ``(..., ceil(n / block_size), ceil(m / block_size))`` of 0 = ``EMPTY``,
            1 = ``MIXED``, 2 = ``FULL``.

        Exact: every pair is looked at. Time ``O(n m)``; memory that of one row of blocks.

        Examples:
            >>> from attnref.masks import causal
            >>> causal(5).block_summary(2)
            tensor([[1, 0, 0],
                    [2, 1, 0],
                    [2, 2, 2]], dtype=torch.int8)
        """
        block_size = check_block_size(block_size)
        *lead, n, m = self.shape
        height, width = math.ceil(n / block_size), math.ceil(m / block_size)
        summary = torch.empty((*lead, height, width), dtype=torch.int8, device=device)
        fill = (0, width * block_size - m)  # makes the last block as wide as the others
        for index in range(height):
            rows = slice(index * block_size, (index + 1) * block_size)
            strip = self.block(rows, slice(None), device)  # (..., block_size or the rest, m)
            some = pad(strip.any(-2), fill, value=False)  # (..., width * block_size)
            every = pad(strip.all(-2), fill, value=True)  # (..., width * block_size)
            some = some.reshape(*lead, width, block_size).any(-1)  # (..., width)
            every = every.reshape(*lead, width, block_size).all(-1)  # (..., width)
            summary[..., index, :] = some.to(torch.int8) + every.to(torch.int8)
        return summary

    def count(self) -> int:
        """How many pairs are allowed, exactly, over the whole shape.

        Time ``O(n m)``, memory about a million pairs at a time, or one row if that is more.

        Examples:
            >>> from attnref.masks import causal
            >>> causal(4).count()
            10
        """
        *lead, n, m = self.shape
        step = max(1, _PAIRS_AT_ONCE // max(1, math.prod(lead) * m))
        strips = (
            self.block(slice(start, start + step), slice(None)) for start in range(0, n, step)
        )
        return sum(int(strip.count_nonzero()) for strip in strips)

    def picture(self) -> str:
        """A drawing, one line per query and one character per key: ``#`` may attend, ``.`` may not.

        Leading dimensions give drawings one below the other, an empty line between them.

        Raises:
            ValueError: for more than 128 lines or columns.
        """
        *lead, n, m = self.shape
        if max(math.prod(lead) * n, m) > _PICTURE_SIDE:
            raise ValueError(
                f"picture: expected at most {_PICTURE_SIDE} lines and columns, got a mask of "
                f"shape {self.shape}. Draw a smaller mask made with the same options."
            )
        matrices = self.dense().reshape(math.prod(lead), n, m).tolist()
        return "\n\n".join(
            "\n".join("".join("#" if allowed else "." for allowed in row) for row in matrix)
            for matrix in matrices
        )

    @property
    def mask_mod(self) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """The mask as FlexAttention asks for it: sample, head, query and key to a bool scalar.

        Examples:
            >>> from attnref.masks import padding
            >>> sample, head, i, j = torch.tensor([1, 0, 0, 2])
            >>> padding([1, 3], 3).mask_mod(sample, head, i, j)
            tensor(True)
        """

        def mask_mod(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            allowed = self._apply_rule(q_idx[None, None], kv_idx[None, None])[..., 0, 0]
            for index in (b, h)[2 - allowed.dim() :]:
                allowed = allowed[index if allowed.shape[0] != 1 else 0]
            return allowed

        return mask_mod

    def block_mask(self, *, block_size: int = 128, device: torch.device | str | None = None) -> Any:
        """The mask as the ``BlockMask`` that ``torch.nn.attention.flex_attention`` takes.

        Args:
            block_size: side of the blocks that are skipped where they are empty.
            device: that of the query; None means the default one.

        Returns:
            A ``BlockMask`` of the shape of the mask. A mask over keys alone needs :meth:`expand`
            first.

        Raises:
            ValueError: for more than two leading dimensions, which FlexAttention does not have.

        Time and memory ``O(n m)``, while it is made.

        Examples:
            >>> from attnref.masks import causal
            >>> causal(256).block_mask().sparsity()
            25.0
        """
        *lead, n, m = self.shape
        if len(lead) > 2:
            raise ValueError(
                f"mask: expected (batch, heads, n, m) at most, got {self.shape}. FlexAttention "
                "has two leading dimensions: flatten the others."
            )
        batch, heads = (1, 1, *lead)[-2:]
        place = torch.get_default_device() if device is None else device
        from torch.nn.attention.flex_attention import create_block_mask  # it loads the compiler

        return create_block_mask(
            self.mask_mod, batch, heads, n, m, device=str(place), BLOCK_SIZE=block_size
        )

    def expand(self, shape: Shape) -> "Mask":
        """The same mask for a whole ``shape`` that it broadcasts to, such as that of the scores.

        Only then does ``block`` reach rows that the mask has in common for all queries.

        Examples:
            >>> from attnref.masks import padding
            >>> padding([1, 2], 3).expand((2, 5, 4, 3))
            Mask(shape=(2, 5, 4, 3))
        """
        check_mask(self.shape, shape)
        return Mask(shape, self._apply_rule)

    def __and__(self, other: "Mask") -> "Mask":
        return self._combine(operator.and_, other)

    def __or__(self, other: "Mask") -> "Mask":
        return self._combine(operator.or_, other)

    def __invert__(self) -> "Mask":
        return Mask(self.shape, partial(_negate, self._apply_rule))

    def __bool__(self) -> bool:
        raise TypeError(
            "mask: expected & between masks, | or ~, got and, or, not or if. A mask is no truth of "
            "its own: write causal(n) & padding(lengths, n)."
        )

    def __repr__(self) -> str:
        return f"Mask(shape={self.shape})"

    def _combine(self, both: Callable[[Tensor, Tensor], Tensor], other: "Mask") -> "Mask":
        shape = _common_shape(self, other)
        return Mask(shape, partial(_join, both, self._apply_rule, other._apply_rule))

    def _apply_rule(self, i: Tensor, j: Tensor) -> Tensor:
        """The rule at these positions; a dimension of size 1 has one, whichever is asked for."""
        n, m = self.shape[-2:]
        allowed = self._rule(
            i.new_zeros(1, 1) if n == 1 else i,
            j.new_zeros(1, 1) if m == 1 else j,
        )
        _check_answer(allowed, (*self.shape[:-2], i.shape[0], j.shape[1]))
        if allowed.dtype != torch.bool:
            raise TypeError(
                f"rule: expected a bool tensor, got {allowed.dtype}. Return a comparison of "
                "positions, such as j <= i."
            )
        return allowed


def slice_mask(mask: Mask, rows: range, columns: range) -> Mask:
    """The mask of some queries and some keys, at their own positions: a block, not yet asked.

    The ranges are of positions within n and m, with any step.

    Examples:
        >>> from attnref.masks import causal
        >>> print(slice_mask(causal(8), range(1, 8, 2), range(0, 8, 2)).picture())
        #...
        ##..
        ###.
        ####
    """
    rule = partial(
        _shift_rule, mask._apply_rule, rows.start, rows.step, columns.start, columns.step
    )
    return Mask((*mask.shape[:-2], len(rows), len(columns)), rule)


# Named functions, as a lambda in a mask could not be sent to another process.


def _negate(rule: Rule, i: Tensor, j: Tensor) -> Tensor:
    return ~rule(i, j)


def _shift_rule(
    rule: Rule, row: int, down: int, column: int, right: int, i: Tensor, j: Tensor
) -> Tensor:
    return rule(row + down * i, column + right * j)


def _join(
    both: Callable[[Tensor, Tensor], Tensor], one: Rule, other: Rule, i: Tensor, j: Tensor
) -> Tensor:
    return both(one(i, j), other(i, j))


def _positions(name: str, part: slice, size: int, device: torch.device | str | None) -> Tensor:
    if not isinstance(part, slice):
        raise TypeError(
            f"{name}: expected a slice, got {type(part).__name__}. For one position write "
            "slice(i, i + 1), for all of them slice(None)."
        )
    numbers = range(size)[part]
    stop = numbers.start + len(numbers) * numbers.step
    return torch.arange(numbers.start, stop, numbers.step, device=device)


def _common_shape(one: Mask, other: Mask) -> Shape:
    if not isinstance(other, Mask):
        raise TypeError(
            f"mask: expected another Mask to combine with, got {type(other).__name__}. "
            "Combine masks first and call .dense() last."
        )
    # Both must cover the same queries and keys; only a mask over keys alone may lack queries.
    shape = broadcast_shape(one.shape, other.shape)
    if shape is None or one.shape[-1] != other.shape[-1]:
        raise ValueError(
            f"mask: expected shapes that broadcast and agree in the number of keys, got "
            f"{one.shape} and {other.shape}. Build both for the same (n, m)."
        )
    return shape


def _check_made_of(shape: Shape, rule: Rule) -> None:
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise TypeError(
            f"shape: expected a tuple (..., n, m), got {type(shape).__name__}. Take it from "
            "the tensors, such as (query.shape[-2], key.shape[-2])."
        )
    if any(isinstance(size, bool | float | complex | str) for size in shape):
        raise TypeError(
            f"shape: expected integers (..., n, m), got {tuple(shape)}. Numbers of queries and "
            "keys are whole: divide with //."
        )
    if not callable(rule):
        raise TypeError(
            f"rule: expected a function of positions, got {type(rule).__name__}. Write for "
            "example lambda i, j: j <= i; a mask of all pairs is lambda i, j: j >= 0."
        )


def _check_answer(allowed: Tensor, shape: Shape) -> None:
    if not isinstance(allowed, Tensor):
        raise TypeError(
            f"rule: expected a bool tensor, got {type(allowed).__name__}. Return a comparison of "
            "positions, such as j <= i."
        )
    if torch.compiler.is_compiling():
        return  # FlexAttention asks for single pairs
    if broadcast_shape(allowed.shape, shape) != shape:
        raise ValueError(
            f"rule: expected a tensor that broadcasts to {shape}, (..., rows, columns), got "
            f"shape {tuple(allowed.shape)}. Its arguments are positions of shape "
            f"{(shape[-2], 1)} and {(1, shape[-1])}: compare them without summing."
        )


def check_block_size(block_size: int) -> int:
    return check_integer("block_size", block_size, 1, "It is the side of a block, often 64 or 128.")
