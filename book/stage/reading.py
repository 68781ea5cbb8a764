"""Says below the title of a chapter's page how long it takes to read, and when it was changed."""

import re
import subprocess
from functools import cache
from pathlib import Path

from book.edition import Edition
from book.page import ROOT, Page, lines_outside_blocks

AFTER = ("citations",)
ROOMS = ("begin", "foundations", "scale", "complexity", "variants", "pitfalls", "practice")
TITLE = re.compile(r"^# .*$", re.MULTILINE)
WORD = re.compile(r"[^\W\d_]{2,}")
NO_WORDS = re.compile(r"\]\([^)]*\)|\$[^$]*\$|^---\n.*?\n---\n", re.DOTALL)
# Words a minute: that of prose with formulas to think about, not that of a novel.
PACE = 150
WORDS = {
    "pt": {"time": "{} min de leitura", "changed": "alterada em {}"},
    "en": {"time": "{} min read", "changed": "changed on {}"},
}


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if page.uri.partition("/")[0] not in ROOMS:
        return markdown
    words = WORDS[edition.language]
    said = [words["time"].format(minutes(page.source))]
    if day := commit_date(page.path):
        said.append(words["changed"].format(day))
    line = f'<p class="reading" data-search-exclude>{" · ".join(said)}</p>'
    return TITLE.sub(lambda title: f"{title[0]}\n\n{line}", markdown, count=1)


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
