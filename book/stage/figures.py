"""Puts figures into the page: ``![alternative text](figure:name "Caption")``, alone on its line.

The SVG stands in the HTML itself, because an image in a file of its own could not follow the
reader's choice of light or dark. It is put there after the search index is made, or the index
would hold the labels of the axes. What draws it, and in which language, is docs/figures.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from book.page import ROOT, Problem, is_alone, lines_outside_blocks, stop_at

LIKE = re.compile(r"\(\s*figure\s*:")
FIGURE = re.compile(
    r'!\[(?P<alt>[^\]]*)\]\(figure:(?P<name>[a-z0-9-]+)(?: "(?P<caption>[^"]+)")?\)'
)
# As Markdown renders it.
IMAGE = re.compile(
    r'<p><img alt="(?P<alt>[^"]*)" src="figure:(?P<name>[a-z0-9-]+)"'
    r'(?: title="(?P<caption>[^"]*)")? ?/?></p>'
)


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


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    stop_at(problems, page)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    language = Path(config.docs_dir).name

    def show(match: re.Match[str]) -> str:
        drawing = drawing_path(ROOT, match["name"], language).read_text(encoding="utf-8")
        caption = f"<figcaption>{match['caption']}</figcaption>" if match["caption"] else ""
        # On a small screen a wide drawing scrolls, which the keyboard must be able to do, too.
        return (
            f'<figure class="figure" id="figure-{match["name"]}">'
            f'<div class="drawing" role="img" aria-label="{match["alt"]}" tabindex="0">'
            f"{drawing}</div>{caption}</figure>"
        )

    return IMAGE.sub(show, output)
