"""Puts figures into the page: ``![alternative text](figure:name "Caption")``, alone on its line.

It becomes an image with its caption, whose drawing stands beside the staged pages; finish/drawings
puts it into the page. What draws it, and in which language, is docs/figures.
"""

import ast
import re
from html import escape
from pathlib import Path

from book import recorded
from book.edition import Edition
from book.page import LANGUAGES, ROOT, Page, Problem, files, is_alone, lines_outside_blocks

LIKE = re.compile(r"\(\s*figure\s*:")
FIGURE = re.compile(
    r'!\[(?P<alt>[^\]]*)\]\(figure:(?P<name>[a-z0-9-]+)(?: "(?P<caption>[^"]+)")?\)'
)
FOLDER = "figures"  # of the drawings, below the staged pages
AFTER = ("citations",)


def drawing_path(root: Path, name: str, language: str) -> Path:
    """Where a figure stands as it was drawn for one language."""
    return root / "docs" / "figures" / "drawn" / f"{name}.{language}.svg"


def figures_of(text: str) -> list[str]:
    """The names of the figures of a page, in order."""
    return [
        match["name"]
        for _, line in lines_outside_blocks(text)
        if (match := FIGURE.fullmatch(line.strip()))
    ]


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Every figure of a page that cannot be shown, or not to everybody."""
    language = page.relative_to(root / "docs").parts[0]
    lines = text.split("\n")
    found, shown = [], set()
    for number, line in lines_outside_blocks(text):
        if not LIKE.search(line):
            continue
        figure = FIGURE.fullmatch(line.strip())
        if figure is None or not is_alone(lines, number):
            message = (
                "a figure is a paragraph of its own, on one line: ![alternative text](figure:name) "
                'or ![alternative text](figure:name "Caption")'
            )
        elif not figure["alt"].strip():
            message = (
                f"figure {figure['name']!r} has no alternative text: say between the brackets "
                "what is seen and what follows from it"
            )
        elif re.search(r"[$`*\"]", figure["alt"] + (figure["caption"] or "")):
            message = (
                f"figure {figure['name']!r}: alternative text and caption are plain text, "
                'without $, `, * and "'
            )
        elif figure["name"] in shown:
            message = f"figure {figure['name']!r} stands on this page already; refer to it there"
        elif not drawing_path(root, figure["name"], language).is_file():
            message = (
                f"figure {figure['name']!r} is not recorded in {language!r}: write "
                f"docs/figures/ROOM/{figure['name']}.py and run make record"
            )
        else:
            shown.add(figure["name"])
            continue
        found.append(Problem(page, number, message))
    return found


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if not LIKE.search(markdown):
        return markdown
    lines = markdown.split("\n")
    for number, line in lines_outside_blocks(markdown):
        if match := FIGURE.fullmatch(line.strip()):
            drawn = drawing_path(ROOT, match["name"], edition.language)
            place = f"{FOLDER}/{match['name']}.svg"
            edition.files[place] = drawn
            caption = escape(match["caption"] or "", quote=False)
            lines[number - 1] = image(page, match["alt"], place, caption, match["name"])
    return "\n".join(lines)


def image(page: Page, alt: str, place: str, caption: str, name: str = "") -> str:
    """A drawing with its alternative text and its caption, on a line."""
    kind = f'class="figure" id="figure-{name}"' if name else 'class="figure chart"'
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure {kind} markdown="span">![{alt}]({page.link(place)}){below}</figure>'


def book_contract(root: Path) -> list[Problem | str]:
    found: list[Problem | str] = []
    shown: dict[str, set[str]] = {language: set() for language in LANGUAGES}
    for page in files(root):
        text = page.read_text(encoding="utf-8")
        shown[page.relative_to(root / "docs").parts[0]] |= set(figures_of(text))
    expected = set()
    for script in recorded.figures(root):
        name = script.relative_to(root).as_posix()
        found += text_problems(script)
        for language in LANGUAGES:
            path = drawing_path(root, script.stem, language)
            expected.add(path)
            if not path.is_file():
                found.append(f"{name} is not recorded in {language!r}; run make record")
            if script.stem not in shown[language]:
                found.append(f"{name} is shown on no page of docs/{language}")
    for path in sorted({*(root / "docs" / "figures").rglob("*.svg")} - expected):
        found.append(f"{path.relative_to(root).as_posix()} has no script")
    return found


def text_problems(script: Path) -> list[Problem]:
    """Text that a figure has in one language only."""
    for node in ast.parse(script.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TEXT":
            text = ast.literal_eval(node.value)
            keys = {language: set(text.get(language, ())) for language in LANGUAGES}
            return [
                Problem(script, node.lineno, f"the text {key!r} is not in both languages")
                for key in sorted(keys["pt"] ^ keys["en"])
            ]
    return [Problem(script, 1, "expected a dictionary TEXT of both languages")]
