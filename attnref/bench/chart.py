"""The time of each method against the length, both axes logarithmic, as SVG.

A slope of 1 is linear, of 2 quadratic. The chart carries its own paper, light or dark as the
reader's system asks, or as the page says that it is put into; the colours of the lines have a
contrast of 3 and more to both. Dashes and marks differ too, and dots lead from the end of each
line to its name, so that none is told by its colour alone.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

from attnref.bench.record import Record, Result

PAPERS = {"light": "#ffffff", "dark": "#14171c"}
INKS = {"light": "#24292f", "dark": "#e6e8eb"}
COLOURS = ("#2f7fd1", "#c4581a", "#1f8a5b", "#a25bc4", "#b5527f", "#8a7420", "#3a8a99", "#7b7f87")
_DASHES = ("none", "7 3", "2 3", "9 3 2 3")
_MARKS = (  # from their middle: disc, square, triangle, diamond, triangle on its head
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "m-4-4h8v8h-8z",
    "m0-5l5 9h-10z",
    "m0-5l5 5l-5 5l-5-5z",
    "m0 5l5-9h-10z",
)
_WIDTH, _HEIGHT = 800, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 220, 50, 50
_LINE = 15  # height of a line of text

ENGLISH = {
    "title": "{task}: time and length",
    "length": "n, number of keys",
    "forward": "forward",
    "backward": "forward + backward",
    "heads": "{heads} heads",
    "threads": "{threads} threads",
}


def _style() -> str:
    """Scoped, for an image inside a page must not style the page; variables are the page's."""
    rules = {
        scheme: f"""
.attnref .paper {{ fill: var(--figure-ground, {PAPERS[scheme]}) }}
.attnref .ink {{ fill: var(--figure-ink, {INKS[scheme]}) }}
.attnref .grid {{ stroke: var(--figure-ink, {INKS[scheme]}); stroke-opacity: .18 }}
"""
        for scheme in PAPERS
    }
    dark = f"@media (prefers-color-scheme: dark) {{{rules['dark']}}}"
    text = ".attnref text { font: 12px var(--figure-font, system-ui, sans-serif) }"
    return f"{text}{rules['light']}{dark}"


def chart(
    record: Record,
    task: str,
    *,
    methods: Sequence[str] | None = None,
    words: Mapping[str, str] = ENGLISH,
) -> str:
    """An SVG image of one task of a record; the bars at a mark go from quartile to quartile.

    Args:
        record: of a measurement.
        task: one of those in it.
        methods: which ones to draw, all where None.
        words: what is written in the chart, with the keys of ``ENGLISH``.
    """
    results = [
        result
        for result in record.results
        if result.task == task and (methods is None or result.method in methods)
    ]
    lengths = sorted({result.n for result in results})
    across = _Axis([float(n) for n in lengths], _LEFT, _WIDTH - _RIGHT)
    times = [time for result in results for time in (result.lower, result.upper)]
    up = _Axis(times, _HEIGHT - _BOTTOM, _TOP)
    named: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.n):
        named.setdefault(result.method, []).append(result)
    title = f"{words['title'].format(task=task)}, {_conditions(record, words)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'class="attnref" role="img"><title>{escape(title)}</title>',
        f"<style>{_style()}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>',
        _text(_LEFT, 28, title),
        _text(_LEFT, _HEIGHT - 8, words["length"]),
    ]
    for n in lengths:
        x = across(n)
        parts += [
            f'<path class="grid" d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>',
            _text(x, _HEIGHT - _BOTTOM + 18, f"{n}", "middle"),
        ]
    for seconds in _ticks(up):
        y = up(seconds)
        parts += [
            f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>',
            _text(_LEFT - 8, y + 4, f"{1000 * seconds:g} ms", "end"),
        ]
    ends = {name: up(points[-1].median) for name, points in named.items()}
    places = _spread_heights(ends)
    for index, (name, points) in enumerate(named.items()):
        colour = COLOURS[index % len(COLOURS)]
        mark = _MARKS[index % len(_MARKS)]
        dash = _DASHES[index // len(COLOURS) % len(_DASHES)]
        marks = [(across(p.n), up(p.lower), up(p.median), up(p.upper)) for p in points]
        parts += _line(marks, mark, colour, dash)
        end = across(points[-1].n)
        label = _WIDTH - _RIGHT + 28
        parts += [
            f'<path d="M{end + 6:.1f} {ends[name]:.1f}L{label - 16} {places[name]:.1f}" '
            f'stroke="{colour}" stroke-dasharray="1 4"/>',
            f'<path d="M{label - 9} {places[name]:.1f}{mark}" fill="{colour}"/>',
            _text(label, places[name] + 4, name),
        ]
    return "\n".join([*parts, "</svg>\n"])


class _Axis:
    """Positive numbers from ``start`` to ``stop`` in pixels, evenly by their logarithm."""

    def __init__(self, numbers: Sequence[float], start: float, stop: float) -> None:
        margin = 1.15 if min(numbers) < max(numbers) else 2.0
        self.low, self.high = min(numbers) / margin, max(numbers) * margin
        self.start, self.stop = start, stop

    def __call__(self, number: float) -> float:
        part = math.log(number / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.stop - self.start)


def _ticks(axis: _Axis) -> list[float]:
    """Powers of ten within the axis, and 2 and 5 times these where there would be few."""
    first, last = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = (factor * 10.0**power for power in range(first, last + 1) for factor in factors)
    return [tick for tick in ticks if axis.low <= tick <= axis.high]


def _line(
    points: Sequence[tuple[float, float, float, float]], mark: str, colour: str, dash: str
) -> list[str]:
    """The medians joined, a mark at each, and a bar over the quartiles."""
    joined = "L".join(f"{x:.1f} {median:.1f}" for x, _, median, _ in points)
    bars = "".join(f"M{x:.1f} {lower:.1f}V{upper:.1f}" for x, lower, _, upper in points)
    marks = "".join(f"M{x:.1f} {median:.1f}{mark}" for x, _, median, _ in points)
    return [
        f'<path d="M{joined}" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}" '
        'fill="none"/>',
        f'<path d="{bars}" stroke="{colour}"/>',
        f'<path d="{marks}" fill="{colour}"/>',
    ]


def _spread_heights(wanted: dict[str, float]) -> dict[str, float]:
    """Heights near the wanted ones, in the same order, one line of text apart."""
    lowest = _HEIGHT - 10.0
    places: dict[str, float] = {}
    previous = -math.inf
    for name, height in sorted(wanted.items(), key=lambda item: item[1]):
        previous = max(height, previous + _LINE)
        places[name] = previous
    # What was pushed out below moves everything above it up.
    for name in reversed(places):
        places[name] = min(places[name], lowest)
        lowest = places[name] - _LINE
    return places


def _conditions(record: Record, words: Mapping[str, str]) -> str:
    made, chosen = record.provenance, record.settings
    threads = words["threads"].format(threads=made["threads"])
    place = made["accelerator"] or f"{made['processor']}, {threads}"
    what = words["backward" if chosen["backward"] else "forward"]
    heads = words["heads"].format(heads=chosen["heads"])
    return f"{what}, {heads}, d={chosen['head_dim']}, {chosen['dtype']}, {place}"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text class="ink" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
