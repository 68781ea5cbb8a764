"""Says where the two versions of a page differ in what must be the same in both languages."""

import re
from itertools import zip_longest
from pathlib import Path

from book.page import (
    LANGUAGES,
    Problem,
    blocks,
    front_matter,
    headings,
    lines_outside_blocks,
    links,
)
from book.stage import citations, claims, includes
from book.stage.numbers import DECIMAL, strip_front_matter, strip_sources

EQUATION = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$(?!\s)([^$\n]+?)\$", re.DOTALL)


def skeleton(page: Path) -> dict[str, list[str]]:
    """What must be the same in both languages, in order, as a message can show it."""
    text = page.read_text(encoding="utf-8")
    prose = "\n".join(line for _, line in lines_outside_blocks(strip_front_matter(text)))
    numbers = DECIMAL.findall(strip_sources(prose))
    matter = front_matter(text, page)
    return {
        "level and needs": [str(matter.get("level")), *matter.get("needs", ())],
        "headings": [f"{'#' * head.level} {head.id or 'without id'}" for head in headings(text)],
        # Words inside a formula are in the reader's language.
        "equations": [
            " ".join(re.sub(r"\\text\{[^}]*\}", r"\\text{}", a or b).split())
            for a, b in EQUATION.findall(prose)
        ],
        "code blocks": [
            line
            for block in blocks(text)
            for line in (f"```{block.language}", *block.body)
            if not includes.MARK.match(line)  # of which mark_problems says more
        ],
        "claims": [claim for claim, _ in claims.claims_of(text)],
        "figures": [link.target for link in links(text) if link.is_image],
        "links": [
            link.target
            for link in links(text)
            if not link.is_image and not link.target.startswith("claim:")
        ],
        "citations": citations.citation_keys(text),
        "numbers": sorted(set(numbers)),
        "facts": [
            f"{fact.get('value')} of {fact.get('source')}" for fact in matter.get("facts", [])
        ],
    }


def book_contract(root: Path) -> list[Problem | str]:
    found: list[Problem | str] = []
    folders = {language: root / "docs" / language for language in LANGUAGES}
    names = {
        language: {p.relative_to(folder).as_posix() for p in folder.rglob("*.md")}
        for language, folder in folders.items()
    }
    for name in sorted(names["pt"] ^ names["en"]):
        only, other = ("pt", "en") if name in names["pt"] else ("en", "pt")
        found.append(f"docs/{only}/{name} has no counterpart docs/{other}/{name}")
    for name in sorted(names["pt"] & names["en"]):
        pages = {language: folder / name for language, folder in folders.items()}
        for page in pages.values():
            found += [
                Problem(page, heading.line, f"{heading.title!r} has no id; end it with {{#its-id}}")
                for heading in headings(page.read_text(encoding="utf-8"))
                if heading.id is None
            ]
        pt, en = skeleton(pages["pt"]), skeleton(pages["en"])
        for part in pt:
            if pt[part] != en[part]:
                found.append(f"{name}: {part} differ: {_first_difference(pt[part], en[part])}")
    return found


def _first_difference(pt: list[str], en: list[str]) -> str:
    for number, (one, other) in enumerate(zip_longest(pt, en, fillvalue="(nothing)"), 1):
        if one != other:
            return f"number {number} is {one} in pt and {other} in en"
    raise AssertionError("the lists are equal")
