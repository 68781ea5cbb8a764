"""Matrices as grids, a cell for each number, with parts of them filled."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from docs.figures.drawing import GRID, SHADE, SMALL, SOFT, STRONGEST, box

ALL = slice(None)


class Fill(NamedTuple):
    """A part of a matrix and how it is filled."""

    rows: slice = ALL
    columns: slice = ALL
    alpha: float = 0.18
    colour: str = SHADE


def row(index: int) -> Fill:
    """One row, in strong colour."""
    return Fill(slice(index, index + 1), alpha=STRONGEST)


WHOLE = Fill()


def grid(
    plane: Axes,
    left: float,
    top: float,
    shape: tuple[int, int],
    cell: float,
    fills: Iterable[Fill] = (),
) -> None:
    """The cells of a matrix from their upper left corner on, each ``cell`` pixels wide."""
    rows, columns = shape
    width, height = columns * cell, rows * cell
    for fill in fills:
        first, last, _ = fill.rows.indices(rows)
        begin, end, _ = fill.columns.indices(columns)
        x, y = left + begin * cell, top + first * cell
        size = ((end - begin) * cell, (last - first) * cell)
        box(plane, x, y, *size, fill=fill.colour, alpha=fill.alpha, edge=None)
    # Between the fillings and the frame, in the order of drawing: above it they would dash it.
    thin = dict[str, Any](color=GRID, linewidth=1, clip_on=False, zorder=Rectangle.zorder)
    for line in range(1, rows):
        y = top + line * cell
        plane.plot([left, left + width], [y, y], **thin)
    for line in range(1, columns):
        x = left + line * cell
        plane.plot([x, x], [top, top + height], **thin)
    box(plane, left, top, width, height)


def matrix(
    plane: Axes,
    left: float,
    middle: float,
    name: str,
    tensor: Tensor,
    *fills: Fill,
    cell: float = 12,
) -> float:
    """A tensor's grid about a middle line, its name above, its shape below; to its right edge."""
    rows, columns = tensor.shape
    width, half = columns * cell, rows * cell / 2
    grid(plane, left, middle - half, (rows, columns), cell, fills)
    centred: dict[str, Any] = {"ha": "center", "va": "center"}
    plane.text(left + width / 2, middle - half - 11, name, **centred)
    shape = f"{rows} × {columns}"
    plane.text(left + width / 2, middle + half + 12, shape, color=SOFT, fontsize=SMALL, **centred)
    return left + width


def product(
    plane: Axes, left: float, middle: float, *factors: tuple[Any, ...], cell: float = 12
) -> float:
    """Matrices with signs between them, the last of which is that of equality."""
    for index, factor in enumerate(factors):
        if index:
            sign = "=" if index == len(factors) - 1 else "·"
            plane.text(left + 13, middle, sign, ha="center", va="center")
            left += 26
        left = matrix(plane, left, middle, *factor, cell=cell)
    return left


def mask(plane: Axes, left: float, top: float, allowed: Tensor, cell: float) -> None:
    """A mask, its allowed pairs filled."""
    fills = []
    for index, line in enumerate(allowed.tolist()):
        for is_allowed, run in groupby(range(len(line)), key=line.__getitem__):
            if is_allowed:
                seen = list(run)
                part = slice(seen[0], seen[-1] + 1)
                fills.append(Fill(slice(index, index + 1), part, alpha=1))
    rows, columns = allowed.shape
    grid(plane, left, top, (rows, columns), cell, fills)
