"""The record in words: a verdict, a table of the places that call, and what is suspicious."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from attnref.book import page_address
from attnref.text import Text
from attnref.watching.findings import LEVELS, Finding, Level
from attnref.watching.seen import Seen
from attnref.watching.sites import Site, Way

WIDTH = 79  # of sentences; the table is as wide as its names
NOTHING = Text("No attention was seen.")
COUNTED = Text("Attention calls: {calls}; places: {places}.")
CLEAN = Text("Nothing is suspicious.")
FOUND = Text("Findings: {levels}.")
HEADING = (
    Text("where"),
    Text("calls"),
    Text("queries × keys"),
    Text("heads"),
    Text("d"),
    Text("dtype"),
    Text("mask"),
    Text("kernel"),
    Text("time"),
)
UNSEEN = Text("The class name suggests attention, but no call was seen: {names}.")
COMPILED = Text(
    "Compiled by torch.compile, and run compiled here too: {names}. Only the kernels that this "
    "code calls are seen, without their modules. To see every call, watch it under "
    "torch.compiler.set_stance('force_eager')."
)
UNFINISHED = Text(
    "A softmax of products was taken here, but its product with values was not recognised, so it "
    "is not judged: {names}."
)
MISSED = Text("Could not be examined ({count} times): {name}: {error}")
SHARE = Text("{pattern} ({share:.0%})")
PAGE = Text("see {page}")
_STYLES = {Level.WRONG: "red", Level.UNSAFE: "yellow", Level.COSTLY: "cyan", Level.OBSERVED: ""}


class Line(NamedTuple):
    """A line, and how a terminal shows it, in the words of rich."""

    text: str
    style: str = ""


def text(seen: Seen, lang: str = "en", *, times: bool = False) -> str:
    """In plain text."""
    return "\n".join(line.text for line in lines(seen, lang, times=times))


def lines(
    seen: Seen, lang: str = "en", width: int = WIDTH, *, times: bool = False
) -> Iterator[Line]:
    """The verdict, the table, what is suspicious."""
    yield Line(verdict(seen, lang), "bold")
    rows = [[text.say(lang) for text in HEADING]]
    rows += [row for group in groups(seen) for row in rows_of(group, lang)]
    if len(rows) > 1:
        yield Line("")
        yield from _table([row if times else row[:-1] for row in rows])
    for found in seen.findings:
        yield Line("")
        yield from (Line(each, _STYLES[found.level]) for each in _said(found, lang, width))
    notes = []
    if seen.unseen:
        names = [f"{shorten(names)} ({kind})" for kind, names in by_kind(seen.unseen).items()]
        notes.append(UNSEEN.say(lang, {"names": ", ".join(names)}))
    if seen.compiled_modules:
        notes.append(COMPILED.say(lang, {"names": ", ".join(seen.compiled_modules)}))
    if seen.unfinished:
        notes.append(UNFINISHED.say(lang, {"names": shorten(seen.unfinished)}))
    for (name, error), count in seen.missed.items():
        notes.append(MISSED.say(lang, {"name": name, "error": error, "count": count}))
    for note in notes:
        yield Line("")
        yield from (Line(each, "magenta") for each in textwrap.wrap(note, width))


def verdict(seen: Seen, lang: str = "en") -> str:
    """In a line or two: how much was seen, and whether anything is suspicious."""
    if not seen.sites:
        return NOTHING.say(lang)
    calls = sum(site.count for site in seen.sites.values())
    said = [COUNTED.say(lang, {"calls": calls, "places": len(seen.sites)})]
    if not seen.judged:
        return said[0]
    counts = [
        (sum(each.level is level for each in seen.findings), word) for level, word in LEVELS.items()
    ]
    told = ", ".join(f"{word.say(lang)} ({count})" for count, word in counts if count)
    said.append(FOUND.say(lang, {"levels": told}) if told else CLEAN.say(lang))
    return " ".join(said)


def groups(seen: Seen) -> list[list[Site]]:
    """Places that call alike, one layer after the other."""
    found: list[list[Site]] = []
    for site in seen.sites.values():
        for group in found:
            if _alike(group[-1], site):
                group.append(site)
                break
        else:
            found.append([site])
    return found


def _alike(one: Site, other: Site) -> bool:
    blank = [re.sub(r"\d+", "#", each.name) for each in (one, other)]
    return blank[0] == blank[1] and _key(one) == _key(other)


def _key(site: Site) -> list[object]:
    return [
        (way.count, way.n, way.m, str(way.mask.pattern), way.call.kernel, way.call.sizes[:2])
        for way in site.ways.values()
    ]


def shorten(names: Sequence[str]) -> str:
    """Names that differ in one number, as one.

    Examples:
        >>> shorten(["layers.0.attn", "layers.1.attn", "layers.2.attn"])
        'layers.{0…2}.attn'
        >>> shorten(["layers.0.attn", "layers.2.attn"])
        'layers.{0,2}.attn'
    """
    if len(names) == 1:
        return names[0]
    if len(names) < 4 and not re.search(r"\d", "".join(names)):
        return ", ".join(names)
    parts = [re.split(r"(\d+)", name) for name in names]
    if len({len(each) for each in parts}) > 1:
        return ", ".join(names)
    differ = [place for place in range(len(parts[0])) if len({each[place] for each in parts}) > 1]
    if len(differ) != 1 or not all(each[differ[0]].isdigit() for each in parts):
        return f"{names[0]} … {names[-1]}"
    numbers = [int(each[differ[0]]) for each in parts]
    run = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    middle = f"{numbers[0]}…{numbers[-1]}" if run else ",".join(map(str, numbers))
    one = list(parts[0])
    one[differ[0]] = f"{{{middle}}}"
    return "".join(one)


def rows_of(group: list[Site], lang: str) -> Iterator[list[str]]:
    first, where = group[0], shorten([site.name for site in group])
    for number, way in enumerate(first.ways.values()):
        seconds = sum(
            list(site.ways.values())[number].seconds for site in group if number < len(site.ways)
        )
        yield [
            where if not number else "",
            str(sum(list(site.ways.values())[number].count for site in group)),
            f"{_range(way.n)} × {_range(way.m)}",
            _heads(way),
            str(way.call.shapes[0][-1]),
            _kind(way),
            _mask(way, lang),
            way.call.kernel,
            _time(seconds),
        ]


def _time(seconds: float) -> str:
    if not seconds:
        return "–"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _range(pair: tuple[int, int]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}–{pair[1]}"


def _heads(way: Way) -> str:
    query, key, _ = way.call.shapes
    return f"{query[1]}" if query[1] == key[1] else f"{query[1]}/{key[1]}"


def _kind(way: Way) -> str:
    name, device = str(way.call.dtype).removeprefix("torch."), way.call.device
    return name if device.type == "cpu" else f"{name}, {device}"


def _mask(way: Way, lang: str) -> str:
    if way.call.attn_mask is None and way.mask.shape is None and not way.call.is_causal:
        return way.mask.pattern.say(lang)
    return SHARE.say(lang, {"pattern": way.mask.pattern, "share": way.mask.share})


def _table(rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield Line("  ".join(cells).rstrip(), "dim" if not number else "")


def _said(found: Finding, lang: str, width: int) -> Iterator[str]:
    sentence = f"{LEVELS[found.level].say(lang)} · {shorten(found.names)}: {found.say(lang)}"
    yield from textwrap.wrap(sentence, width)
    yield PAGE.say(lang, {"page": page_address(found.page, lang)})


def by_kind(unseen: dict[str, str]) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for name, kind in unseen.items():
        kinds.setdefault(kind, []).append(name)
    return kinds
