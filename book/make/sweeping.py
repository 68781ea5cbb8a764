"""Lists the sentences that promise more than a page shows: any, never, always, nothing, whatever.

    python -m book.make.sweeping               every page
    python -m book.make.sweeping scale         the pages of a folder, or one page

A sentence with such a word is listed for a look if it states no claim, cites nothing and holds no
formula. docs/sweeping.yml names those that were looked at and are true, each with the reason;
one that is in no sentence any more is listed too.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from book.page import CODE, FRONT_MATTER, ROOT, Problem, lines_outside_blocks

ALLOWED = "docs/sweeping.yml"
WORDS = {
    "en": re.compile(
        r"\b(?:any(?:thing|body|one|where)?|never|always|whatever|whichever|no \w+ at all|nothing"
        r"|however (?:long|large|small|many|much|wide))\b",
        re.IGNORECASE,
    ),
    "pt": re.compile(
        r"\b(?:qualquer|quaisquer|nunca|jamais|sempre|nada|nenhum(?:a|as|uns)?"
        r"|sej(?:a|am) qua(?:l|is) for(?:em)?|por (?:mais|maior)\b[^.]{0,30}\bque)\b",
        re.IGNORECASE,
    ),
}
SHOWN = re.compile(r"\]\(claim:|\[@|\$")
IMAGE = re.compile(r"^\s*!\[.*\]\((?:figure|chart):.*\)\s*$")
END = re.compile(r"(?<=[.!?])[*_”\")\]]*\s+(?=[*_“\"(\[]*[A-ZÁÉÍÓÚÀÂÊÔÃÕÇ`])")


class Sentence(NamedTuple):
    page: str
    language: str
    path: Path
    line: int
    text: str


def sentences(root: Path, below: str = "") -> Iterator[Sentence]:
    """Each sentence of running text; headings, figures and tables are none."""
    for language in WORDS:
        folder = root / "docs" / language
        for path in sorted(folder.rglob("*.md")):
            page = path.relative_to(folder).as_posix().removesuffix(".md")
            if not page.startswith(below) or page.startswith("reference/"):
                continue
            text = path.read_text(encoding="utf-8")
            front = FRONT_MATTER.match(text)
            for number, line in lines_outside_blocks(text):
                if front and number <= front[0].count("\n"):
                    continue
                if not line.strip() or line.startswith(("#", "|")) or IMAGE.match(line):
                    continue
                for one in END.split(line.strip()):
                    yield Sentence(page, language, path, number, one)


def sweeps(sentence: Sentence) -> str | None:
    """The sweeping word of a sentence that shows nothing for it."""
    if SHOWN.search(sentence.text):
        return None
    found = WORDS[sentence.language].search(re.sub(CODE, "", sentence.text))
    return found[0] if found else None


def problems(root: Path, below: str = "") -> list[Problem]:
    listed = yaml.safe_load((root / ALLOWED).read_text(encoding="utf-8")) or {}
    left = {
        (page, language, entry[language])
        for page, entries in listed.items()
        if page.startswith(below)
        for entry in entries
        for language in WORDS
        if language in entry
    }
    unused, found = set(left), []
    for sentence in sentences(root, below):
        word = sweeps(sentence)
        if word:
            fits = {one for one in left if one[:2] == sentence[:2] and one[2] in sentence.text}
            unused -= fits
            if not fits:
                message = f"{word!r} without claim, source or formula: {sentence.text}"
                found.append(Problem(sentence.path, sentence.line, message))
    for page, language, words in sorted(unused):
        message = f"{page}: {words!r} is in no sweeping sentence of {language}; remove it"
        found.append(Problem(root / ALLOWED, 1, message))
    return found


if __name__ == "__main__":
    listed = problems(ROOT, sys.argv[1] if len(sys.argv) > 1 else "")
    print("\n".join([*map(str, listed), f"attnref: {len(listed)} sentences to look at."]))
