"""Puts explorers into the page: ``<!-- explorer: name -->``, or ``<!-- explorer: name small -->``.

The small one is in the running text, and links to the page of the whole one.

An explorer is a folder of docs/explorers, which holds what stands on the page without JavaScript:

- ``values.py``: ``STATE``, what it shows first, and ``SPOKEN``, what of it is different in a
  language, if it has words of one; ``values(state)``, every number that it then shows,
  computed by attnref; ``PROGRAM``, whether it gives a program in Python that computes them; and,
  where a drawing is more than numbers, ``drawing(state)``, a dict that the picture has as well;
- ``shown.json``: what these give for the first state, which ``make record`` writes;
- ``picture.html``: the controls, the figure and its table, filled with these numbers by jinja;
- ``texts.yml``: what it says, in both languages.

What makes it move is the folder of the same name in docs/shared/explorers, loaded when the explorer
comes into view; finish/explorers.py links it.
"""

import importlib
import json
import math
import re
from functools import cache
from html import escape
from pathlib import Path
from types import ModuleType

from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError

from book.edition import Edition
from book.page import ROOT, BookError, Page, locate, read_yaml

PLACE = re.compile(r"<!-- explorer: (?P<name>[a-z-]+)(?P<small> small)? -->")
FOLDER = ROOT / "docs" / "explorers"
SCRIPTS = ROOT / "docs" / "shared" / "explorers"  # what makes them move, and their previews
PREVIEW = "preview.png"  # by python -m book.make.previews
RECORDED = "shown.json"  # what values.py gives for the first state, by make record
LANGUAGES = ("en", "pt")
AFTER = ("citations",)
EMPTY = re.compile(r"\n\s*\n")


def stage(markdown: str, page: Page, edition: Edition) -> str:
    shown = set()
    for place in PLACE.finditer(markdown):
        try:
            if place["name"] in shown:
                raise BookError("this explorer is on the page already")
            whole = whole_address(place["name"], page, edition) if place["small"] else None
            made = explorer(place["name"], edition.language, whole)
        except BookError as error:
            file, line = locate(page.path, place[0])
            raise BookError(f"{file}:{line}: {place[0]}: {error}") from error
        shown.add(place["name"])
        made = EMPTY.sub("\n", made)  # an empty line would end the HTML
        markdown = markdown.replace(place[0], made, 1)
    return markdown


def whole_on(page: Page) -> str | None:
    """The explorer whose whole is on a page."""
    return next((one["name"] for one in PLACE.finditer(page.source) if not one["small"]), None)


def whole_address(name: str, page: Page, edition: Edition) -> str:
    """Where the whole of an explorer is, as a page has to name it.

    Raises:
        BookError: if it is on no page.
    """
    for other in edition.pages.values():
        if whole_on(other) == name:
            return page.address(other.url)
    raise BookError(f"no page has the whole of it: expected one with <!-- explorer: {name} -->")


def explorer(name: str, language: str, whole: str | None = None, folder: Path = FOLDER) -> str:
    """An explorer as it is before, or without, JavaScript; small where ``whole`` is an address.

    Raises:
        BookError: if it is not known, or asks for a text or a number that is not there.
    """
    known = sorted(path.parent.name for path in folder.glob("*/picture.html"))
    if name not in known:
        raise BookError(f"no explorer {name!r} in docs/explorers; there are {', '.join(known)}")
    common = read_texts(folder / "texts.yml", language)
    texts, templates = read_texts(folder / name / "texts.yml", language), environment(folder)
    recorded = folder / name / RECORDED
    if not recorded.is_file():
        raise BookError(f"{recorded}: it is missing: run make record")
    first = json.loads(recorded.read_text(encoding="utf-8"))
    try:
        inside = templates.get_template(f"{name}/picture.html").render(
            **first[language], texts=texts, small=bool(whole), language=language
        )
    except UndefinedError as error:
        raise BookError(f"{folder / name / 'picture.html'}: {error}") from error
    return templates.get_template("frame.html").render(
        name=name,
        whole=whole,
        inside=inside,
        words=json.dumps({**common, **texts}, ensure_ascii=False).replace("<", "\\u003c"),
        texts=common,
        title=texts["title"],
        state=escape(json.dumps(first[language]["state"])),
        program=first["program"] and not whole,
    )


def places(docs: Path) -> dict[tuple[str, bool], str]:
    """The pages of the explorers, by name and whether it is small there, as below the site.

    Of several pages with a small one it is the last.
    """
    return {
        (place["name"], bool(place["small"])): (
            f"{path.relative_to(docs).with_suffix('').as_posix()}/".removesuffix("index/")
        )
        for path in sorted(docs.rglob("*.*"))
        if path.suffix in (".md", ".ipynb")
        for place in PLACE.finditer(path.read_text(encoding="utf-8"))
    }


@cache
def source(folder: Path) -> ModuleType:
    """The module values.py of an explorer."""
    return importlib.import_module(f"docs.explorers.{folder.name}.values")


def read_texts(path: Path, language: str) -> dict[str, str]:
    """The texts of a file in one language; one that is missing in a language stops the build."""
    texts = read_yaml(path.read_text(encoding="utf-8"))
    for key, text in texts.items():
        if set(text) != set(LANGUAGES) or not all(text.values()):
            raise BookError(f"{path}: {key}: expected a text in en and in pt, got {text}")
    return {key: text[language] for key, text in texts.items()}


@cache
def environment(folder: Path) -> Environment:
    """Templates that stop where a name is unknown."""
    made = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["shown"] = number_element
    return made


def number_element(values: dict[str, float], name: str, digits: int = 4) -> str:
    """A number in its element, as the script of the explorer writes it, too.

    >>> number_element({"weight-2-1": 0.13849}, "weight-2-1")
    '<span data-name="weight-2-1" data-value="0.13849" data-digits="4">0.1385</span>'
    """
    if name not in values:
        raise BookError(f"no number {name!r} in values.py; there are {', '.join(values)[:400]}")
    value = float(values[name])
    return (
        f'<span data-name="{name}" data-value="{value!r}" data-digits="{digits}">'
        f"{figure(value, digits)}</span>"
    )


def figure(value: float, digits: int) -> str:
    """A number with so many decimals, or as many significant digits where it is tiny or large.

    >>> figure(0.13849, 4), figure(-0.00000012, 4), figure(1234567.8, 2), figure(-math.inf, 2)
    ('0.1385', '−1.200e-7', '1234567.80', '−∞')
    """
    size = abs(value)
    if math.isinf(size):
        text = "∞"
    elif size == 0 or 0.5 * 10**-digits <= size < 1e9:
        text = f"{size:.{digits}f}"
    else:
        mantissa, _, exponent = f"{size:.{max(digits - 1, 0)}e}".partition("e")
        text = f"{mantissa}e{int(exponent)}"
    return f"−{text}" if value < 0 else text
