"""Reads the built site with the Nu HTML checker, and lists what is not valid.

    python -m book.make.validity [FOLDER]

It needs Java. The checker is an npm package, which npm brings once into .cache.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CHECKER = "vnu-jar@26.9.27"
FOLDER = ROOT / ".cache" / CHECKER
JAR = FOLDER / "node_modules" / "vnu-jar" / "build" / "dist" / "vnu.jar"
Message = Mapping[str, Any]  # as the checker's JSON has it


class Known(NamedTuple):
    """A message on what others write, by its beginning and the HTML that it is about."""

    begins: str
    about: str


THEIRS = {
    "the theme's check boxes": Known(
        "Attribute “autocomplete” is only allowed when the input type is",
        r'<input class="md-toggle" data-md-toggle="(drawer|search)" type="checkbox" ',
    ),
    "the theme's closed rooms": Known(
        "Bad value “” for attribute “tabindex” on element “label”",
        r'<label class="md-nav__link" for="__nav_',
    ),
    "the language of pages that are mostly messages of programs": Known(
        "This document appears to be written in English but the", '<html lang="pt-BR"'
    ),
    "KaTeX's signs of its own fonts": Known(
        "Document uses the Unicode Private Use Area", '"mrel">\ue020</span'
    ),
}


def theirs(message: Message) -> str | None:
    """Whose message it is, if not ours."""
    for name, known in THEIRS.items():
        about = re.search(known.about, message.get("extract", ""))
        if about and message["message"].startswith(known.begins):
            return name
    return None


def verdict(messages: Sequence[Message]) -> list[str]:
    """A line for each message that is ours, and for what is excused but no longer said.

    The second keeps the list of excuses short, and notices a checker that has read nothing.
    """
    found = [(message, theirs(message)) for message in messages]
    ours = [message_line(message) for message, name in found if name is None]
    unsaid = THEIRS.keys() - {name for _, name in found}
    return ours + [
        f"nothing is said of {name}: if the pages were read, take it out of THEIRS in "
        "book/make/validity.py"
        for name in sorted(unsaid)
    ]


def message_line(message: Message) -> str:
    """Page, line and what is said, as one line."""
    page = message.get("url", "").removeprefix(ROOT.as_uri()).lstrip("/").replace("/./", "/")
    extract = " ".join(message.get("extract", "").split())
    return f"{page}:{message.get('lastLine', '?')}: {message['message']} … {extract}"


def check(site: Path) -> list[Message]:
    """What the checker says of the pages of a folder."""
    java = shutil.which("java") or exit_without("Java", "apt install default-jre-headless")
    if not JAR.is_file():
        npm = shutil.which("npm") or exit_without(
            "npm, which brings the checker,", "apt install npm"
        )
        install = [npm, "install", "--silent", "--no-save", "--ignore-scripts"]
        if subprocess.run([*install, "--prefix", str(FOLDER), CHECKER]).returncode:
            exit_without(f"the checker, {CHECKER} of npm,", "the lines above say why")
    options = ["--skip-non-html", "--stdout", "--exit-zero-always", "--format", "json"]
    # In a locale of ASCII it finds no file whose path has an accent, and says nothing.
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    command = [java, "-jar", str(JAR), *options, str(site)]
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    messages: list[Message] = json.loads(ran.stdout)["messages"]
    return messages


def exit_without(what: str, remedy: str) -> str:
    print(f"attnref: {what} is missing: {remedy}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "site")
    folder: Path = parser.parse_args().folder.resolve()
    pages = len(list(folder.rglob("*.html")))
    if not pages:
        exit_without(f"the site in {folder}", "make site")
    lines = verdict(check(folder))
    print(*lines, f"{pages} pages read; {len(lines) or 'nothing'} to fix", sep="\n")
    sys.exit(bool(lines))
