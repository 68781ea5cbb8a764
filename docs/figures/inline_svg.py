"""From a matplotlib figure to an SVG for the inside of a page.

Colours become variables of the page, text stays text in the page's font, names are unique to
the figure, numbers are rounded, and what matplotlib writes beside all that is left out.

Text may hold simple formulas between dollars: letters are slanted, words of several small ones
are not, ``_`` lowers and ``^`` raises what follows, one character or a group in braces.
"""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from itertools import groupby

import matplotlib
from matplotlib.figure import Figure

from docs.figures import typeface
from docs.figures.drawing import NAMES, SMALL, STYLE

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
FORMULA = re.compile(r"\$([^$]*)\$")
TOKEN = re.compile(
    r"(?P<shift>[_^])?(?:\{(?P<group>[^}]*)\}|(?P<word>[a-z]{2,})|(?P<letter>[^\W\d_])|(?P<other>.))"
)


def render(draw: Callable[[dict[str, str]], Figure], text: dict[str, str], name: str) -> str:
    """What ``draw(text)`` drew, as SVG for the inside of a page: the same bytes at each run.

    Raises:
        ValueError: for a colour that is none of drawing.py, and for a sign that no fount has.
    """
    stream = io.StringIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # and nothing of the user's own
        matplotlib.rcParams.update(STYLE)  # type: ignore[arg-type]  # its keys are literals
        draw(text).savefig(stream, format="svg", metadata={"Date": None})
    return inline(stream.getvalue(), name)


def inline(svg: str, name: str) -> str:
    """What matplotlib drew in the manner of drawing.py, as SVG for the inside of a page.

    Raises:
        ValueError: for a colour that is none of that module, for a sign that no fount has, and
            for numbers set as formulas.
    """
    if "\\mathdefault" in svg:
        mend = "give the axis names for its ticks, or set_major_formatter('{x:g}')"
        raise ValueError(f"a logarithmic axis writes its numbers as formulas: {mend}")
    drawn = ET.fromstring(svg)
    _, _, width, height = drawn.attrib["viewBox"].split()
    root = ET.Element(
        "svg",
        {
            "xmlns": SVG,
            "viewBox": f"0 0 {_round(width)} {_round(height)}",
            "aria-hidden": "true",
            "style": f"max-width: {float(width) / SMALL:g}em; "
            f"min-width: {float(width) * 9 / SMALL:g}px",
            "stroke-linejoin": "round",
        },
    )
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    names: dict[str, str] = {}
    root.text = "\n"
    for child in drawn:
        if child.tag != f"{{{SVG}}}metadata" and child.find(f"{{{SVG}}}style") is None:
            root.extend(list(_clean_element(child, name, used, names)))
    text = ET.tostring(root, encoding="unicode")
    for old, new_name in names.items():
        text = text.replace(f'"#{old}"', f'"#{new_name}"').replace(f"#{old})", f"#{new_name})")
    return text + "\n"


def _clean_element(
    element: ET.Element, name: str, used: set[str], names: dict[str, str]
) -> Iterator[ET.Element]:
    """The element as the page wants it, without what matplotlib adds that nothing needs."""
    tag = element.tag.removeprefix(f"{{{SVG}}}")
    attributes = {}
    for key, value in element.attrib.items():
        if key == "id":
            if value == "halo":
                attributes["class"] = "halo"
            elif value in used:
                names[value] = f"{name}-{len(names) + 1}"
                attributes["id"] = names[value]
        elif key == "style":
            if style := _style(value):
                attributes["style"] = style
        elif key == "fill":  # the ground of a hatch
            attributes["style"] = _style(f"fill: {value}")
        elif key in (HREF, "clip-path"):
            attributes["href" if key == HREF else key] = value
        elif not value.startswith("rotate(-0 "):
            attributes[key] = " ".join(_round(value).split())
    if tag == "path" and attributes.get("style") == "fill: none":
        return  # the ground of the axes
    children = [part for child in element for part in _clean_element(child, name, used, names)]
    if tag == "g" and not attributes:
        yield from children
        return
    if tag in ("g", "defs") and not children:
        return
    cleaned = ET.Element(tag, attributes)
    cleaned.tail = "\n"
    cleaned.extend(children)
    if tag == "text":
        if "fill" not in attributes["style"]:
            raise ValueError(f"{element.text!r} has no colour: take one of docs/figures/drawing.py")
        (size,) = re.findall(r"font-size: ([\d.]+)", attributes["style"])
        _set_text(cleaned, element.text or "", float(size))
    elif children:
        cleaned.text = "\n"
    yield cleaned


def _style(style: str) -> str:
    parts = []
    for part in filter(None, map(str.strip, style.split(";"))):
        key, value = (side.strip() for side in part.split(":", 1))
        if key == "font-family":  # the page's own
            continue
        if value.startswith("#"):
            if value not in NAMES:
                raise ValueError(f"{value} is no colour of docs/figures/drawing.py: take one of it")
            value = f"var(--figure-{NAMES[value]}, {value})"
        elif not value.startswith("url("):  # the digits of a name are no number
            value = _round(value)
        parts.append(f"{key}: {value}")
    return "; ".join(parts)


def _round(text: str) -> str:
    """Each number to two decimals: further ones no eye can see, and processors differ in them."""
    return NUMBER.sub(lambda match: f"{round(float(match[0]), 2) + 0.0:.12g}", text)


def _set_text(element: ET.Element, text: str, size: float) -> None:
    """The text, with what is between dollars set as a formula."""
    parts = FORMULA.split(text)
    element.text = _check_signs(parts[0], "")
    height = 0.0
    for index, part in enumerate(parts[1:], 1):
        pieces = _pieces(part) if index % 2 else [(part, "", "")]
        for (kind, shift), group in groupby(pieces, key=lambda piece: piece[1:]):
            run = "".join(piece[0] for piece in group)
            if not run:
                continue
            span = ET.SubElement(element, "tspan")
            span.text = _check_signs(run, kind)
            if kind:
                span.set("class", kind)
            if kind or shift:  # the founts of formulas look smaller than the page's
                span.set("font-size", _round(str((0.85 if shift else 1.1) * size)))
            wanted = {"": 0.0, "_": 0.22, "^": -0.38}[shift] * size
            if wanted != height:
                span.set("dy", _round(str(wanted - height)))
            height = wanted


def _check_signs(text: str, kind: str) -> str:
    """The text, if the site has a fount that it can be set in: no label takes the machine's."""
    if lacking := sorted(set(text) - typeface.signs(kind)):
        name, other = typeface.FOUNTS[kind].stem, "outside of" if kind else "as"
        raise ValueError(
            f"{text!r}: {name} has no {''.join(lacking)!r}: "
            f"write it {other} a formula, or with other signs"
        )
    return text


def _pieces(formula: str, shift: str = "") -> Iterator[tuple[str, str, str]]:
    """A formula in pieces: what, in which fount, lowered or raised."""
    for token in TOKEN.finditer(formula):
        here = token["shift"] or shift
        if token["group"]:
            yield from _pieces(token["group"], here)
        elif token["word"] and token["shift"]:
            # What is shifted is one character; the rest of the word is on the line.
            yield token["word"][0], "variable", here
            yield from _pieces(token["word"][1:], shift)
        elif token["word"]:
            yield token["word"], "roman", here
        else:
            sign = token["letter"] or token["other"]
            kinds: tuple[str, ...] = ("roman", "")
            if token["letter"]:
                kinds = ("variable", *kinds)
            # The root sign of formulas reaches up to a bar, which is not here.
            kinds = ("",) if sign == "√" else kinds
            yield sign, next((kind for kind in kinds if sign in typeface.signs(kind)), ""), here
