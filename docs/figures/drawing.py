"""The manner of all figures: sizes, colours, and what most of them are made of.

A figure is drawn with matplotlib in units that are CSS pixels. Its colours become variables of
the page (inline_svg.py): docs/shared/style/site.css gives each of them a value in the light and
in the dark scheme. What is drawn must therefore not be called dark or light in words.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullLocator

from docs.figures import typeface

typeface.register()

# The values of the light scheme; where no page gives others, they hold.
INK = "#1c2026"  # text and axes
SOFT = "#596170"  # what stays back: laws, remarks
GRID = "#d9dde3"
GROUND = "#ffffff"  # the page behind
FIRST, SECOND, THIRD = "#0b3558", "#a33b00", "#008275"  # series, from strong to weak in grey
SHADE = "#2c78b8"  # areas and cells; with an alpha of at most STRONGEST, text on them is readable
NAMES = {
    INK: "ink",
    SOFT: "soft",
    GRID: "grid",
    GROUND: "ground",
    FIRST: "first",
    SECOND: "second",
    THIRD: "third",
    SHADE: "shade",
}
STRONGEST = 0.6

# Figures of this width fit a page of 360 pixels with their smallest text at 9, and grow with
# wider ones until their text is as large as the page's. On smaller screens they scroll.
WIDTH = 420
SMALL, NORMAL = 12, 13

STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "figure.dpi": 72,  # a unit is a CSS pixel
    "figure.frameon": False,
    # The second one is matplotlib's own: formulas are measured in it, roughly.
    "font.family": [typeface.FAMILY, "DejaVu Sans"],
    "font.size": NORMAL,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 1,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "patch.linewidth": 1,
    "path.simplify": False,  # which points it drops hangs on the last digits
}


def new_figure(height: float) -> Figure:
    """An empty figure, so many pixels high."""
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    FigureCanvasSVG(figure)
    return figure


def axes(
    figure: Figure, left: float, top: float, width: float, height: float, **options: Any
) -> Axes:
    """Axes whose frame lies so many pixels from the figure's left and upper edge."""
    whole = figure.get_figheight() * 72
    place = (left / WIDTH, 1 - (top + height) / whole, width / WIDTH, height / whole)
    plane: Axes = figure.add_axes(place, **options)
    return plane


def canvas(figure: Figure) -> Axes:
    """Bare axes over the whole figure, in pixels from the upper left corner, for diagrams."""
    height = figure.get_figheight() * 72
    plain = axes(figure, 0, 0, WIDTH, height, xlim=(0, WIDTH), ylim=(height, 0))
    plain.axis("off")
    return plain


def box(
    plane: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str | None = None,
    alpha: float | None = None,
    edge: str | None = INK,
) -> None:
    """A rectangle by its upper left corner; ``alpha`` is that of the filling alone."""
    if fill:
        look = dict[str, Any](facecolor=fill, edgecolor="none", alpha=alpha, clip_on=False)
        plane.add_patch(Rectangle((x, y), width, height, **look))
    if edge:
        look = {"fill": False, "edgecolor": edge, "clip_on": False}
        plane.add_patch(Rectangle((x, y), width, height, **look))


def arrow(plane: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """From one point to another."""
    style = {"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0, "linewidth": 1}
    plane.annotate("", end, start, arrowprops=style)


def name_axes(plot: Axes, x: str = "", y: str = "") -> None:
    """What is drawn: x below the axis, y above it and upright, where it is read first."""
    if x:
        plot.set_xlabel(x, labelpad=6, fontsize=SMALL)
    if y:
        plot.annotate(
            y,
            (0, 1),
            (-plot.get_window_extent().x0 + 4, 10),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=SMALL,
        )


def label(
    plot: Axes,
    place: tuple[float, float],
    text: str,
    colour: str = INK,
    *,
    offset: tuple[float, float] = (0, 0),
    side: str = "left",
    bold: bool = False,
    halo: bool = False,
) -> None:
    """Small text, so many pixels from a place of the plot; ``side`` is the side of it there.

    With a halo of the page's ground it can be read on top of lines.
    Its lines are set one by one: a formula is not as wide as what stands for it in the text.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines):
        up = 15 * ((len(lines) - 1) / 2 - number)
        plot.annotate(
            line,
            place,
            (offset[0], offset[1] + up),
            textcoords="offset points",
            color=colour,
            fontsize=SMALL,
            fontweight="semibold" if bold else "normal",
            ha=side,
            va="center",
            gid="halo" if halo else None,
        )


def powers(plot: Axes, exponents: Sequence[int]) -> None:
    """Powers of ten on the vertical axis."""
    numbers = [f"$10^{{{_format_number(exponent)}}}$" for exponent in exponents]
    plot.set_yticks([10.0**exponent for exponent in exponents], numbers)
    plot.yaxis.set_minor_locator(NullLocator())


def ticks(
    plot: Axes,
    x: Sequence[float] | dict[float, str] = (),
    y: Sequence[float] | dict[float, str] = (),
) -> None:
    """Numbers on the axes, as they are written on the pages, or what stands for a number."""
    for axis, numbers in ((plot.xaxis, x), (plot.yaxis, y)):
        if not numbers:
            continue
        names = (
            list(numbers.values()) if isinstance(numbers, dict) else map(_format_number, numbers)
        )
        axis.set_ticks(list(numbers), list(names))
        axis.set_minor_locator(NullLocator())


def _format_number(number: float) -> str:
    return f"{number:g}".replace("-", "−")
