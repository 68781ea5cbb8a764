"""Says below the title for whom a page is, how long it takes to read, and what it builds on.

``level`` in the front matter is *first steps*, *core* or *specialist*, and ``needs`` are the pages
to have read. A specialist's page has its mark in the menu, too, where the theme shows ``status``.
"""

import re
import subprocess
from functools import cache
from pathlib import Path

from book.edition import Edition
from book.page import ROOT, Page, Problem, lines_outside_blocks

AFTER = ("citations", "doing")
ROOMS = ("begin", "foundations", "scale", "complexity", "variants", "pitfalls", "practice")
TITLE = re.compile(r"^# .*$", re.MULTILINE)
WORD = re.compile(r"[^\W\d_]{2,}")
NO_WORDS = re.compile(r"\]\([^)]*\)|\$\$.*?\$\$|\$[^$]*\$|^---\n.*?\n---\n", re.DOTALL)
# Words a minute: that of prose with formulas to think about, not that of a novel.
PACE = 150
WORDS = {
    "pt": {"time": "{} min de leitura", "changed": "alterada em {}", "needs": "depende de {}"},
    "en": {"time": "{} min read", "changed": "changed on {}", "needs": "builds on {}"},
}
LEVELS = {
    "pt": {"first steps": "Primeiros passos", "core": "Essencial", "specialist": "Especialista"},
    "en": {"first steps": "First steps", "core": "Core", "specialist": "Specialist"},
}
SPECIALIST = "specialist"


def stage(markdown: str, page: Page, edition: Edition) -> str:
    words = WORDS[edition.language]
    said = [level(page, edition.language)] if "level" in page.matter else []
    if is_chapter(page):
        said.append(words["time"].format(minutes(page.source)))
    if needs := page.matter.get("needs"):
        links = (f"[{edition.pages[uri].title}]({page.link(uri)})" for uri in needs)
        said.append(words["needs"].format(", ".join(links)))
    if said and (day := commit_date(page.path)):
        said.append(words["changed"].format(day))
    if page.matter.get("level") == SPECIALIST and not page.is_notebook:
        markdown = markdown.replace("---\n", f"---\nstatus: {SPECIALIST}\n", 1)
    line = " · ".join(said)
    line = f'{line[:1].upper()}{line[1:]}\n{{: .reading data-search-exclude="" }}'
    return TITLE.sub(lambda title: f"{title[0]}\n\n{line}" if said else title[0], markdown, count=1)


def is_chapter(page: Page) -> bool:
    """Whether it is to be read: no page of the reference, and none that is only a map."""
    is_map = page.uri.endswith("/index.md") and "level" not in page.matter
    return page.uri.partition("/")[0] in ROOMS and not is_map


def level(page: Page, language: str) -> str:
    """What the level of a page is called."""
    return LEVELS[language][page.matter["level"]]


def edition_problems(edition: Edition) -> list[Problem]:
    """A level that there is not, and pages to have read that there are not, or that come later."""
    found, before = [], set[str]()
    for uri, page in edition.pages.items():
        before.add(uri)
        told = page.matter.get("level", "" if is_chapter(page) else "core")
        if told not in LEVELS[edition.language]:
            levels = ", ".join(LEVELS[edition.language])
            found.append(Problem(page.path, 1, f"level: expected one of {levels}, got {told!r}"))
        for need in page.matter.get("needs", ()):
            if need not in edition.pages:
                found.append(Problem(page.path, 1, f"needs: there is no page {need}"))
            elif is_chapter(page) and edition.nav and need not in before:
                message = f"needs: {need} comes later in the navigation: move one of them"
                found.append(Problem(page.path, 1, message))
    return found


def minutes(text: str) -> int:
    """For the words of a page outside of its code and formulas, at least one."""
    prose = NO_WORDS.sub(" ", "\n".join(line for _, line in lines_outside_blocks(text)))
    return max(1, round(len(WORD.findall(prose)) / PACE))


def commit_date(path: Path) -> str:
    """The day of the last commit of a page's file; nothing where it is not known."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    return dates().get(name, "")


@cache
def dates() -> dict[str, str]:
    """The day of each page's last commit; none outside of a clone, or in one without history."""
    git = ["git", "-C", str(ROOT)]
    try:
        shallow = subprocess.run(
            [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True
        )
        if shallow.stdout.strip() != "false":
            return {}
        log = subprocess.run(
            [*git, "log", "--format=%x00%cs", "--name-only", "--", "docs/pt", "docs/en"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return {}
    found: dict[str, str] = {}
    for commit in log.stdout.split("\0")[1:]:  # the newest first
        day, *names = commit.split()
        for name in names:
            found.setdefault(name, day)
    return found
