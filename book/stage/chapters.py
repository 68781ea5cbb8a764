"""Opens a chapter on its first page, and ends it on its last one.

A chapter is a group of the navigation, or a room without groups. What one can do after it, and what
it has shown, stand in the front matter of the room's first page, ``cards: {root: a sentence}`` and
``ends: {root: [a sentence, …]}``, or ``ends: […]`` of a room without groups; their links begin in
the folder of the language. Its time, what it builds on and its exercises are those of its pages.
"""

import re

from book.edition import Edition, Nav, beside, paths
from book.page import Page, Problem, of_the_package
from book.stage.doing import exercise_links
from book.stage.reading import is_chapter, minutes

AFTER = ("downloads", "reading")
HEAD = re.compile(r"^# .*$(?:\n\n.*\n\{: \.reading .*\}$)*", re.MULTILINE)  # with what reading says
LINK = re.compile(r"\]\((?P<uri>[\w/-]+\.\w+)")
WORDS = {
    "pt": {
        "opens": "Capítulo: {} · {} min",
        "needs": "Parte de",
        "ends": "O capítulo em poucas linhas",
        "exercises": "Exercícios do capítulo:",
    },
    "en": {
        "opens": "Chapter: {} · {} min",
        "needs": "It builds on",
        "ends": "The chapter in short",
        "exercises": "Exercises of this chapter:",
    },
}


def stage(markdown: str, page: Page, edition: Edition) -> str:
    for front in edition.pages.values():
        for name, lines in _ends(front).items():
            inside = chapter(edition, front, name)
            if name and inside[0] == page:
                head = _opening(inside, edition.rooms[name], front.matter["cards"][name], edition)
                title = HEAD.search(markdown)
                assert title is not None  # as the pass on headings demands
                markdown = f"{markdown[: title.end()]}\n\n{head}{markdown[title.end() :]}"
            if inside[-1] == page:
                markdown += _ending(inside, lines, edition)
    return markdown


def chapter(edition: Edition, front: Page, name: str) -> list[Page]:
    """The pages of a group of a room, of which the first page is given, or of the whole room."""
    group = _groups(edition, front)[name] if name else beside(edition.nav, front.uri)
    return [edition.pages[uri] for uri in paths(group)]


def edition_problems(edition: Edition) -> list[Problem]:
    """A room in which some chapters have an end, and others have none or are not there."""
    found = []
    for page in edition.pages.values() if edition.nav else ():
        ends, groups = {*_ends(page)}, {*_groups(edition, page)} or {""}
        if ends and ends != groups:
            message = f"ends: expected {', '.join(sorted(groups))}, got {', '.join(sorted(ends))}"
            found.append(Problem(page.path, 1, message))
    return found


def _ends(front: Page) -> dict[str, list[str]]:
    """What the chapters of a room have shown; without a name, the room as a whole."""
    ends = front.matter.get("ends", {})
    return {"": ends} if isinstance(ends, list) else ends


def _groups(edition: Edition, front: Page) -> dict[str, Nav]:
    items = beside(edition.nav, front.uri)
    return {name: item[name] for item in items if isinstance(item, dict) for name in item}


def _opening(inside: list[Page], name: str, told: str, edition: Edition) -> str:
    words, page = WORDS[edition.language], inside[0]
    time = sum(minutes(one.source) for one in inside if is_chapter(one))
    needs = dict.fromkeys(need for one in inside for need in one.matter.get("needs", ()))
    links = [
        f"[{edition.pages[uri].title}]({page.link(uri)})"
        for uri in needs
        if edition.pages[uri] not in inside
    ]
    builds = f" {words['needs']} {', '.join(links)}." if links else ""
    return (
        f'!!! abstract "{words["opens"].format(name, time)}"\n    {told}{builds}\n'
        '    {: data-search-exclude="" }'
    )


def _ending(inside: list[Page], lines: list[str], edition: Edition) -> str:
    words, page = WORDS[edition.language], inside[-1]
    items = [LINK.sub(lambda link: f"]({page.link(link['uri'])}", line) for line in lines]
    parts = [f"\n\n## {words['ends']} {{#chapter}}", "\n".join(f"- {item}" for item in items)]
    exercises = of_the_package()["exercises"].items()
    here = {one.uri.removesuffix(".md") for one in inside}
    names = [name for name, pages in exercises if pages[0] in here]  # each once
    if names:
        parts.append(f"{words['exercises']} {exercise_links(names, page)}.")
    return "\n\n".join(parts) + "\n"
