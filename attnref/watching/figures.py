"""What was seen, drawn with matplotlib: maps of the weights, entropy and sinks by place."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attnref.text import Text
from attnref.watching.pictures import LEVELS, levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from attnref.watching.statistics import Statistics

PLACES, HEADS = 16, 8  # of which there are maps, at most
_SIDE = 64  # fields of a map
MISSING = Text("figure: needs matplotlib, which is not installed. Run pip install matplotlib.")
HEAD = Text("head {head}")
QUERY, KEY = Text("query"), Text("key")
PLACE, ENTROPY, FIRST = Text("place"), Text("entropy / largest"), Text("first key")


def _figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(str(MISSING)) from None
    return Figure(figsize=(width, height), layout="constrained")


def one_map(found: "Statistics", head: int, place: str, lang: str) -> "Figure":
    """The weights of one head, with the numbers of queries and keys."""
    figure = _figure(4.2, 3.6)
    axes = figure.subplots()
    weights = found.weights[head].numpy()
    drawn = axes.imshow(weights, aspect="auto", vmin=0.0, vmax=float(weights.max()) or 1.0)
    _ticks(axes.yaxis, found.rows.tolist())
    title = ", ".join([place, HEAD.say(lang, {"head": head})])
    axes.set(title=title, xlabel=KEY.say(lang), ylabel=QUERY.say(lang))
    figure.colorbar(drawn)
    return figure


def _ticks(axis: Any, numbers: Sequence[int]) -> None:
    places = sorted({round(part * (len(numbers) - 1) / 4) for part in range(5)})
    axis.set_ticks(places, [str(numbers[each]) for each in places])


def all_maps(places: Sequence[tuple[int, "Statistics"]], lang: str) -> "Figure":
    """A small map of each head of each place; below those of several, charts by place."""
    shown = places[:PLACES]
    columns = min(HEADS, max(len(found.weights) for _, found in shown))
    size = 5.6 / max(columns, 3)
    heights = [size * len(shown), *[2.2] * (len(places) > 1)]
    figure = _figure(5.8, sum(heights) + 0.3)
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)
    above, *below = parts[:, 0]
    grid = above.subplots(len(shown), columns, squeeze=False)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[], frame_on=False)
    for line, (number, found) in zip(grid, shown, strict=True):
        fields = levels(found.weights[:columns].float(), _SIDE)
        for axes, each in zip(line, fields, strict=False):
            axes.imshow(each.numpy(), aspect="auto", vmin=0, vmax=LEVELS - 1)
            axes.set_frame_on(True)
        line[0].set_ylabel(f"{PLACE.say(lang)} {number}")
    for head, axes in enumerate(grid[0]):
        axes.set_title(HEAD.say(lang, {"head": head}))
    for each in below:
        entropy, first = each.subplots(1, 2)
        _dots(entropy, {number: found.entropy for number, found in places}, ENTROPY, lang)
        many = {number: found.first for number, found in places if found.even}
        _dots(first, many, FIRST, lang)
    return figure


def _dots(axes: "Axes", heads: Mapping[int, Tensor], title: Text, lang: str) -> None:
    """A dot for each head, and a line of their means."""
    for place, each in heads.items():
        axes.plot([place] * len(each), each.tolist(), "o", color="C0", markersize=3)
    axes.plot([*heads], [float(each.mean()) for each in heads.values()], "-", color="C1")
    axes.set(title=title.say(lang), xlabel=PLACE.say(lang), ylim=(-0.03, 1.03))
    axes.set_xticks([*heads][:: 1 + len(heads) // 8])
