"""Says at the head and at the foot of a page what a reader can do with it: ``Do it``.

Exercises know the pages for which they are practice. Explorers, notebooks and comparisons of
libraries name in their front matter, as ``needs``, the pages that they build on; those lead to
them. What can be taken is linked by downloads.py, below the page.
"""

import re
from collections.abc import Sequence

from attnref.copying.catalogue import entries
from book.edition import Edition
from book.page import Page, of_the_package
from book.stage import explorers
from book.stage.reading import TITLE

AFTER = ("citations",)
EXERCISES = "practice/exercises.md"
TEACHERS = "practice/teachers.md"
# An exercise may have the name of a function of the package, to whose entry api.py has linked it.
NAMED = r"\[?`(\w+)`(?:\]\([^)]*\))?"
ROW = re.compile(rf"^(\| \d+\. ){NAMED}", re.MULTILINE)
NAME = re.compile(NAMED)
WORDS = {
    "pt": {
        "do": "Pratique",
        "exercise": "exercício",
        "exercises": "exercícios",
        "explorer": "explorador",
        "notebooks": "caderno",
        "practice/behaviours": "em outras bibliotecas:",
        "take": "[leve o código](#take)",
    },
    "en": {
        "do": "Do it",
        "exercise": "exercise",
        "exercises": "exercises",
        "explorer": "explorer",
        "notebooks": "notebook",
        "practice/behaviours": "in other libraries:",
        "take": "[take the code](#take)",
    },
}


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if page.uri == EXERCISES:
        markdown = ROW.sub(r'\1<code id="\2">\2</code>', markdown)
    if page.uri in (EXERCISES, TEACHERS):
        markdown = NAME.sub(lambda name: _linked(name, page), markdown)
    if not (found := todo(page, edition)):
        return markdown
    do, line = WORDS[edition.language]["do"], " · ".join(found)
    head = f'{do}: {line}\n{{: .reading data-search-exclude="" }}'
    markdown = TITLE.sub(lambda title: f"{title[0]}\n\n{head}", markdown, count=1)
    return f'{markdown}\n\n**{do}:** {line}\n{{: data-search-exclude="" }}\n'


def _linked(name: re.Match[str], page: Page) -> str:
    """The name of an exercise with a link to its place, anything else as it is."""
    if name[1] not in of_the_package()["exercises"]:
        return name[0]
    return f"[`{name[1]}`]({page.link(EXERCISES)}#{name[1]})"


def todo(page: Page, edition: Edition) -> list[str]:
    """What can be done with a page, as links."""
    words = WORDS[edition.language]
    found: list[str] = []
    exercises = of_the_package()["exercises"].items()
    if mine := [name for name, pages in exercises if page.uri.removesuffix(".md") in pages]:
        found.append(
            f"{words['exercises' if len(mine) > 1 else 'exercise']} {exercise_links(mine, page)}"
        )
    links: dict[str, list[str]] = {}
    for uri, other in edition.pages.items():
        kind = "explorer" if explorers.whole_on(other) else uri.rpartition("/")[0]
        if kind in words and page.uri in other.matter.get("needs", ()):
            links.setdefault(words[kind], []).append(f"[{other.title}]({page.link(uri)})")
    found += [f"{kind} {', '.join(links[kind])}" for kind in links]
    if any(entry.page == page.url.rstrip("/") for entry in entries()):
        found.append(words["take"])
    return found


def exercise_links(names: Sequence[str], page: Page) -> str:
    """To the places of these on their page."""
    return ", ".join(f"[`{name}`]({page.link(EXERCISES)}#{name})" for name in names)
