"""The record as one HTML file that asks nobody for anything: tables, maps of the weights, charts.

It holds no text that the model read, and of its tensors the small maps alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

import torch
from torch import Tensor

from attnref import __version__
from attnref.book import page_address
from attnref.cost import Sizes, of
from attnref.text import Refusal, Text
from attnref.watching.findings import LEVELS, size
from attnref.watching.pictures import chart, levels, png
from attnref.watching.seen import Seen
from attnref.watching.sites import Site, Way
from attnref.watching.statistics import BINS, Statistics, is_finite
from attnref.watching.table import (
    COMPILED,
    HEADING,
    PAGE,
    UNSEEN,
    by_kind,
    groups,
    rows_of,
    shorten,
    verdict,
)

PLACES, HEADS = 64, 32  # of which there are maps, at most
_BYTES = 560_000  # of all maps; where they would have more, each gets fewer fields
_SIDES = (BINS, 36, 28, 20, 12)

TITLE = Text("Attention of {model}")
ALL_MODELS = Text("all models that ran")
THEME = Text("light or dark")
FOUND = Text("What was found")
UNJUDGED = Text(
    "The calls were counted but not judged. To have them judged, watch with judged=True."
)
CALLING = Text("Where attention is called")
MORE = (Text("scale"), Text("layout"), Text("operations"), Text("bytes"))
SOFTCAP = Text("softcap {softcap}")
EXPLAINED = Text(
    "Each row is one kind of call from the places named above it; calls and time are totals over "
    "these places. A mask is drawn with queries from top to bottom and keys from left to right, "
    "what is allowed in colour. The layout is the order of the axes of query, key and value in "
    "memory: samples b, heads h, positions n, components d. Operations and bytes are for the last "
    "call examined; the bytes are what a fused kernel moves."
)
WEIGHTS = Text("Weights, head by head")
MAPS = Text(
    "Each map shows one examined call of a place, the last of those with the most queries, in its "
    "first sample: queries from top to bottom, keys from left to right. The number of a place is "
    "the one that seen.weights accepts. Click a map, or use the arrow keys, to enlarge it."
)
LEFT_OUT = Text("Shown: {places} of {all_places} places, and {heads} of {all_heads} heads.")
PLACE = Text("place")
PLACE_AND_HEAD = Text("place, head")
HEAD = Text("head {head}")
QUERIES = Text("queries")
KEYS = Text("keys")
LEGEND = Text("weight, as a share of the largest in its row")
PICTURE = Text(
    "{place}, head {head}: entropy {entropy}, largest weight {largest}, first key {first}"
)
BY_PLACE = Text("Entropy and first key, place by place")
DOTS = Text(
    "Each dot is one head; the line joins the means. Places are in the order of their calls."
)
ENTROPY = Text("entropy, as a share of the largest possible")
FIRST = Text("weight of the first key that may be seen")
CHART = Text("{what}: the means of the places range from {least} to {most}.")
NUMBERS = Text("The same in numbers")
MEAN = Text("{mean} ({least} to {most})")
REST = Text("What was not seen")
ALL_SEEN = Text("Every module whose class name suggests attention made a call that was seen.")
MADE = Text(
    "Made by attnref {version} with PyTorch {torch}. This file holds no text that the model read, "
    "and of its tensors only the maps above."
)
NO_FOLDER = Text(
    "path: {path!r} is not a file in an existing folder. Create the folder first, and name a file "
    "in it."
)
NOT_WRITTEN = Text("path: cannot write to {path!r}: {reason}. Choose another file.")


@dataclass
class _Place:
    """One whose weights were looked at; what is not known of its heads is None."""

    number: int
    name: str
    found: Statistics

    def __post_init__(self) -> None:
        finite, keys = is_finite(self.found.weights), self.found.weights.shape[-1]
        self.entropy = self.found.entropy if finite and keys > 1 else None
        self.first = self.found.first if finite and self.found.even else None

    def describe(self, head: int, lang: str) -> str:
        """What a map shows, in words."""
        of = {"entropy": self.entropy, "largest": self.found.largest, "first": self.first}
        said = {key: "–" if x is None else f"{float(x[head]):.2f}" for key, x in of.items()}
        return _say(PICTURE, lang, place=self.name, head=head, **said)


def write(seen: Seen, path: str | Path, lang: str = "en") -> Path:
    """The page in a file.

    Raises:
        ValueError: for a language without texts.
        Refusal: where no file can be written; it says why.
    """
    made, path = page(seen, lang), Path(path)
    try:
        if path.is_dir() or not path.parent.is_dir():
            raise Refusal(NO_FOLDER, path=str(path))
        path.write_text(made, encoding="utf-8")
    except OSError as error:
        raise Refusal(NOT_WRITTEN, path=str(path), reason=error.strerror) from None
    return path


def page(seen: Seen, lang: str = "en") -> str:
    """The HTML: verdict, findings, places, maps, charts, and what was not seen."""
    model = ALL_MODELS if seen.model_name is None else seen.model_name
    title = _say(TITLE, lang, model=model)
    looked = [
        _Place(number, site.name, site.statistics)
        for number, site in enumerate(seen.sites.values())
        if site.statistics is not None
    ]
    about = {"version": __version__, "torch": torch.__version__}
    parts = [
        f'<header><p>{title}</p><button type="button" id="theme">{_say(THEME, lang)}</button>',
        f"</header>\n<main>\n<h1>{escape(verdict(seen, lang))}</h1>",
        *_section(FOUND, lang, _findings(seen, lang)),
        *_section(CALLING, lang, _places(groups(seen), lang) if seen.sites else ()),
        *_section(WEIGHTS, lang, _maps(looked, lang) if looked else ()),
        *_section(BY_PLACE, lang, _charts(looked, lang) if looked else ()),
        *_section(REST, lang, _rest(seen, lang)),
        f"</main>\n<footer>{_say(MADE, lang, **about)}</footer>",
    ]
    template = resources.files("attnref.watching").joinpath("report.html").read_text("utf-8")
    return Template(template).substitute(lang=lang, title=title, body="\n".join(parts))


def _say(text: Text, lang: str, **values: object) -> str:
    return escape(text.say(lang, values))


def _section(heading: Text, lang: str, parts: Iterator[str] | tuple[()]) -> Iterator[str]:
    inside = list(parts)
    if inside:
        yield f"<section>\n<h2>{_say(heading, lang)}</h2>"
        yield from inside
        yield "</section>"


def _findings(seen: Seen, lang: str) -> Iterator[str]:
    if not seen.judged:
        yield f"<p>{_say(UNJUDGED, lang)}</p>"
    if seen.findings:
        yield '<ol class="findings">'
        for found in seen.findings:
            place = page_address(found.page, lang)
            where = _say(PAGE, lang, page=place)
            if "://" in place:
                where = f'<a href="{escape(place)}">{_say(PAGE, lang, page=found.page)}</a>'
            yield (
                f'<li class="{found.level.name.lower()}">'
                f'<strong class="level">{_say(LEVELS[found.level], lang)}</strong>'
                f"<code>{escape(shorten(found.names))}</code>"
                f'<p>{escape(found.say(lang))}</p><p class="page">{where}</p></li>'
            )
        yield "</ol>"


def _places(found: Sequence[Sequence[Site]], lang: str) -> Iterator[str]:
    # The roles stay where a small screen shows the table as a list.
    heads = [_say(text, lang) for text in (*HEADING[1:], *MORE)]
    cells = "".join(f'<th scope="col" role="columnheader">{head}</th>' for head in heads)
    yield '<table class="places" role="table"><thead role="rowgroup">'
    yield f'<tr role="row">{cells}</tr></thead>'
    for group in found:
        where = escape(shorten([site.name for site in group]))
        yield '<tbody role="rowgroup"><tr role="row">'
        yield f'<th scope="rowgroup" role="rowheader" colspan="{len(heads)}"><code>{where}</code>'
        yield "</th></tr>"
        for row, way in zip(rows_of(list(group), lang), group[0].ways.values(), strict=True):
            said = [*map(escape, row[1:]), *_more(way, lang)]
            given = way.mask.shape
            if given is not None:
                kind = str(way.mask.dtype).removeprefix("torch.")
                said[5] += f"<small>{given} {kind}, {size(way.mask.bytes)}</small>"
            if way.mask.picture is not None:
                drawn = png(way.mask.picture)
                said[5] = f'<img class="mask" src="{drawn}" alt=""><span>{said[5]}</span>'
            cells = "".join(
                f'<td role="cell" data-of="{head}"><div>{cell}</div></td>'
                for head, cell in zip(heads, said, strict=True)
            )
            yield f'<tr role="row">{cells}</tr>'
        yield "</tbody>"
    yield f'</table>\n<p class="note">{_say(EXPLAINED, lang)}</p>'


def _more(way: Way, lang: str) -> list[str]:
    """Scale, layout, operations and bytes of a call."""
    call = way.call
    scale = f"{float(call.factor()):.4g}"
    if call.softcap is not None:
        scale += f"<small>{_say(SOFTCAP, lang, softcap=f'{float(call.softcap):.4g}')}</small>"
    orders = call.layouts[:1] if len(set(call.layouts)) == 1 else call.layouts
    if not all(map(all, call.shapes)):
        return [scale, ", ".join(orders) or "–", "–", "–"]
    operations, moved = _cost(way)
    return [scale, ", ".join(orders) or "–", _operations(operations), size(moved)]


def _cost(way: Way) -> tuple[int, int]:
    """Operations, and bytes that a fused kernel moves, of one call of the last lengths."""
    query, key, value = way.call.shapes
    sizes = Sizes(
        n=query[2],
        m=key[2],
        d_k=query[-1],
        d_v=value[-1],
        batch=query[0],
        num_heads=query[1],
        num_kv_heads=key[1] if query[1] % key[1] == 0 else None,
        dtype=way.call.dtype,
    )
    pairs = round(way.mask.share * query[2] * key[2])
    counted = of("fused", sizes, pairs=pairs)
    return counted.operations.total, counted.bytes_moved


def _operations(count: int) -> str:
    for unit, power in (("T", 12), ("G", 9), ("M", 6), ("k", 3)):
        if count >= 10**power:
            return f"{count / 10**power:.3g} {unit}FLOP"
    return f"{count} FLOP"


def _maps(looked: Sequence[_Place], lang: str) -> Iterator[str]:
    shown = looked[:PLACES]
    most = max(len(place.found.entropy) for place in looked)
    columns = min(most, HEADS)
    many = " many" if columns > HEADS // 2 else ""  # no room for the names of places
    yield f"<p>{_say(MAPS, lang)}</p>"
    yield f'<p class="legend"><span class="ramp"></span>{_say(LEGEND, lang)}</p>'
    if len(shown) < len(looked) or columns < most:
        counts = {"places": len(shown), "all_places": len(looked)}
        yield f"<p>{_say(LEFT_OUT, lang, **counts, heads=columns, all_heads=most)}</p>"
    pictures = _pictures([place.found for place in shown])
    said = shown[0].describe(0, lang)
    yield (
        f'<div class="heads"><figure class="view"><div class="plot">'
        f'<img src="{pictures[0][0]}" alt="{said}">'
        f'<span class="rows">{_say(QUERIES, lang)}</span>'
        f'<span class="keys">{_say(KEYS, lang)}</span>'
        f'<div class="ticks">{_ticks(shown[0].found)}</div></div>'
        f"<figcaption><p>{said}</p></figcaption></figure>"
        f'<div class="scroll maps-scroll"><table class="maps{many}" style="--columns:{columns}">'
    )
    cells = "".join(
        f'<th scope="col" aria-label="{_say(HEAD, lang, head=head)}">{head}</th>'
        for head in range(columns)
    )
    yield f'<thead><tr><th scope="col">{_say(PLACE_AND_HEAD, lang)}</th>{cells}</tr></thead><tbody>'
    for place, row in zip(shown, pictures, strict=True):
        yield f'<tr><th scope="row"><code>{escape(place.name)}</code> {place.number}</th>'
        for head, picture in enumerate(row):
            current = ' aria-current="true"' if picture is pictures[0][0] else ""
            said = place.describe(head, lang)
            yield f'<td><button{current}><img src="{picture}" alt="{said}"></button></td>'
        yield f"<template>{_ticks(place.found)}</template></tr>"
    yield "</tbody></table></div></div>"


def _ticks(found: Statistics) -> str:
    """Numbers of some queries and keys, beside and below a map."""
    m = found.weights.shape[-1]
    said = []
    for kind, edge, numbers in (("row", "top", found.rows.tolist()), ("key", "left", range(m))):
        count = len(numbers)
        parts = min(count - 1, 5) or 1 if count < 7 else 4
        for each in sorted({round(part * (count - 1) / parts) for part in range(parts + 1)}):
            middle = 100 * (each + 0.5) / count
            said.append(f'<span class="{kind}" style="{edge}:{middle:.1f}%">{numbers[each]}</span>')
    return "".join(said)


def _pictures(found: Sequence[Statistics]) -> list[list[str]]:
    """A map for each head of each place, as data URIs; all together they have a bound."""
    maps = [each.map()[:HEADS] for each in found]
    pictures: list[list[str]] = []
    for side in _SIDES:
        pictures = [[png(one) for one in levels(each, side)] for each in maps]
        if sum(len(each) for row in pictures for each in row) <= _BYTES:
            break
    return pictures


def _charts(looked: Sequence[_Place], lang: str) -> Iterator[str]:
    yield f'<p>{_say(DOTS, lang)}</p>\n<div class="charts">'
    entropy = {each.number: each.entropy for each in looked if each.entropy is not None}
    first = {each.number: each.first for each in looked if each.first is not None}
    for what, heads in ((ENTROPY, entropy), (FIRST, first)):
        if heads:
            means = [float(each.mean()) for each in heads.values()]
            ends = {"least": f"{min(means):.2f}", "most": f"{max(means):.2f}"}
            said = _say(CHART, lang, what=what, **ends)
            yield f'<figure role="img" aria-label="{said}">'
            yield f"{chart(heads, looked[-1].number + 1, what.say(lang), PLACE.say(lang))}</figure>"
    cells = "".join(f'<th scope="col">{_say(each, lang)}</th>' for each in (PLACE, ENTROPY, FIRST))
    yield f"</div>\n<details><summary>{_say(NUMBERS, lang)}</summary>"
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{_say(BY_PLACE, lang)}">'
    yield f'<table class="numbers"><thead><tr>{cells}</tr></thead><tbody>'
    for place in looked:
        cells = "".join(f"<td>{_mean(each, lang)}</td>" for each in (place.entropy, place.first))
        where = f"{place.number} <code>{escape(place.name)}</code>"
        yield f'<tr><th scope="row">{where}</th>{cells}</tr>'
    yield "</tbody></table></div></details>"


def _mean(heads: Tensor | None, lang: str) -> str:
    """The mean of some heads, and their ends."""
    if heads is None:
        return "–"
    numbers = {"mean": heads.mean(), "least": heads.min(), "most": heads.max()}
    return _say(MEAN, lang, **{name: f"{float(each):.2f}" for name, each in numbers.items()})


def _rest(seen: Seen, lang: str) -> Iterator[str]:
    for kind, names in by_kind(seen.unseen).items():
        yield f"<p>{_say(UNSEEN, lang, names=f'{shorten(names)} ({kind})')}</p>"
    if seen.compiled_modules:
        yield f"<p>{_say(COMPILED, lang, names=', '.join(seen.compiled_modules))}</p>"
    if seen.sites and not seen.unseen and not seen.compiled_modules:
        yield f"<p>{_say(ALL_SEEN, lang)}</p>"
