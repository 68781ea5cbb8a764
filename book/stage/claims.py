"""Ties each claim of a page to the test that verifies it.

A page states ``[what is claimed](claim:its-id)``; a test carries ``@pytest.mark.claim("its-id")``.
The statement then ends with a mark, a link to where the test can be read: each chapter has a page
of its claims, and ``style/claims.js`` shows the entry in place. A claim without a test stops the
build, and so does one whose test asserts nothing that it computes. Whether a test fails when the
claim is false, ``make audit`` tries out.
"""

import ast
import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from book.edition import Edition
from book.page import LANGUAGES, ROOT, Page, Problem, files, find_in_prose, replace_in_prose
from book.stage.assertions import asserts, definitions

# The statement may hold formulas with brackets of their own, one level deep. Any id is one.
CLAIM = re.compile(r"\[(?P<statement>(?:[^\[\]]|\[[^\[\]]*\])+)\]\(claim:(?P<id>[^)]*)\)")
IDENT = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
PAGE = "reference/claims.md"
AFTER = ("api",)
PLACE, CHAPTERS = "<!-- every claim -->", "<!-- every chapter -->"
# The chapter of what is in no chapter, the home page and what is tried out; and of pages that have
# one of their own, or their chapter's list would be too heavy to load at once.
TODAY = "draft-trees paged latent ring sinks distance-bias differential gated gated-delta"
CHAPTER = {
    "index.md": "begin",
    "notebooks": "practice",
    "reference": "practice",
    **{f"variants/{page}.md": "today" for page in TODAY.split()},
}
LEANS = {
    "pt": re.compile(
        r"(?:el[ea]s?|isso|isto|ess[ea]s?|est[ea]s?|são|é|tem|têm|dá|como|então)\b",
        re.IGNORECASE,
    ),
    "en": re.compile(
        r"(?:it|this|these|they|those|such|then|as|is|are|has|have|gives?)\b", re.IGNORECASE
    ),
}
WORDS = {
    "pt": {"stated": "Afirmada em", "test": "Teste", "count": "{} afirmações"},
    "en": {"stated": "Stated in", "test": "Test", "count": "{} claims"},
}


@dataclass(frozen=True)
class Test:
    """A test function: where it stands, how it reads, and whether it asserts what it computes."""

    path: str
    name: str
    source: str
    line: int
    asserts: bool


def tests_by_claim(root: Path) -> dict[str, list[Test]]:
    """The tests that are marked with each claim id, read without importing them."""
    found: dict[str, list[Test]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        name = path.relative_to(root).as_posix()
        for claim, test, source, line, can_fail in _find_tests(path, path.stat().st_mtime_ns):
            found.setdefault(claim, []).append(Test(name, test, source, line, can_fail))
    return found


@cache
def _find_tests(path: Path, changed: int) -> list[tuple[str, str, str, int, bool]]:
    """Each claim of a file with the parts of its :class:`Test`; the file is read once a change."""
    text = path.read_text(encoding="utf-8")
    if "mark.claim" not in text:
        return []
    found = []
    lines = text.split("\n")
    tree = ast.parse(text)
    helpers = definitions(tree)
    inside = [node for each in tree.body if isinstance(each, ast.ClassDef) for node in each.body]
    for node in (*tree.body, *inside):
        if not isinstance(node, ast.FunctionDef):
            continue
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.claim":
                first = min(line.lineno for line in node.decorator_list)
                source = "\n".join(lines[first - 1 : node.end_lineno])
                claim, can_fail = ast.literal_eval(call.args[0]), asserts(node, helpers)
                found.append((claim, node.name, source, node.lineno, can_fail))
    return found


def claims_of(text: str) -> list[tuple[str, str]]:
    """``(id, statement)`` of each claim of a page, in order."""
    return [(match["id"], match["statement"]) for _, match in find_in_prose(CLAIM, text)]


def fullest_statement(statements: Iterable[str]) -> str:
    """What the page of claims says of one: the fullest statement, which reads alone there."""
    return max(statements, key=len)


def leans(statement: str, language: str) -> bool:
    """Whether it begins with a word for what only its page has named, or with its verb."""
    return LEANS[language].match(statement) is not None


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Each claim of a page that no test verifies, and each test of one that cannot fail."""
    tests, found = _tests(root), []
    for line, match in find_in_prose(CLAIM, text):
        claim = match["id"]
        if not IDENT.fullmatch(claim):
            message = f"claim {claim!r}: expected small letters, digits and hyphens, as in its-id"
            found.append(Problem(page, line, message))
        elif claim not in tests:
            advice = f'mark the test that verifies it with @pytest.mark.claim("{claim}")'
            found.append(Problem(page, line, f"claim {claim!r} has no test; {advice}"))
        for test in tests.get(claim, []):
            if not test.asserts:
                message = (
                    f"{test.name} is the test of claim {claim!r} and asserts nothing that it "
                    "computes; assert what would be otherwise if the claim were false"
                )
                found.append(Problem(root / test.path, test.line, message))
    return found


def chapter(uri: str) -> str:
    """The chapter of a page: its folder, as a rule."""
    room = uri.partition("/")[0]
    return CHAPTER.get(uri) or CHAPTER.get(room, room.removesuffix(".md"))


@cache
def _tests(root: Path) -> dict[str, list[Test]]:
    return tests_by_claim(root)


@cache
def stated(edition: Edition) -> dict[str, list[tuple[str, str]]]:
    """Each claim with the pages that state it and what they say, in the order of their paths."""
    found: dict[str, list[tuple[str, str]]] = {}
    for uri in sorted(edition.pages):
        for claim, statement in claims_of(edition.pages[uri].source):
            found.setdefault(claim, []).append((uri, statement))
    return found


def stage(markdown: str, page: Page, edition: Edition) -> str:
    shown = set()

    def show(match: re.Match[str]) -> str:
        test = _tests(ROOT)[match["id"]][0].path
        target = page.link(_place(match["id"], edition))
        link = f'[✓]({target}#{match["id"]} "{test}"){{ .claim-test aria-label="{test}" }}'
        statement = f'<span class="claim-statement">{match["statement"]}</span>'
        ident = "" if match["id"] in shown else f' id="claim-{match["id"]}"'
        shown.add(match["id"])
        return f'<span class="claim"{ident}>{statement}\u2060{link}</span>'

    markdown = replace_in_prose(CLAIM, show, markdown)
    if page.uri == PAGE:
        return page.fill(markdown, CHAPTERS, _chapters(edition))
    if posixpath.dirname(page.uri) == PAGE.removesuffix(".md"):
        return page.fill(markdown, PLACE, _catalogue(page, edition))
    return markdown


def _place(claim: str, edition: Edition) -> str:
    """The page that has the entry of a claim: that of the chapter which states it first."""
    return f"{PAGE.removesuffix('.md')}/{chapter(stated(edition)[claim][0][0])}.md"


def _chapters(edition: Edition) -> str:
    """A list of the pages of claims, and how many each has."""
    count = Counter(_place(claim, edition) for claim in stated(edition))
    words = WORDS[edition.language]["count"]
    return "\n".join(
        f"- [{edition.pages[place].title}]({posixpath.relpath(place, posixpath.dirname(PAGE))}): "
        f"{words.format(number)}"
        for place, number in count.items()
    )


def _catalogue(page: Page, edition: Edition) -> str:
    """The claims of a chapter, as its pages come: statement, pages, tests with their code."""
    words, parts = WORDS[edition.language], []
    for claim, places in stated(edition).items():
        if _place(claim, edition) != page.uri:
            continue
        statement = fullest_statement(said for _, said in places)
        statement = statement[0].upper() + statement[1:] + "."
        pages = ", ".join(
            f"[{edition.pages[uri].title}]({page.link(uri)}#claim-{claim})"
            for uri in dict.fromkeys(uri for uri, _ in places)
        )
        parts.append(
            f'<div class="claim-entry" id="{claim}" markdown>\n\n**{statement}**\n\n'
            f"{words['stated']}: {pages}.\n"
        )
        for test in _tests(ROOT).get(claim, []):  # a claim without one is reported on its page
            # Not in the index, where code would hide prose; nor in colours, which weigh as much as
            # all the code.
            parts.append(
                f"<details data-search-exclude markdown>\n"
                f"<summary>{words['test']}: <code>{test.path}::{test.name}</code></summary>\n\n"
                f"```text\n{test.source}\n```\n\n</details>\n"
            )
        parts.append("</div>\n")
    return "\n".join(parts)


def book_contract(root: Path) -> list[Problem | str]:
    found: list[Problem | str] = []
    stated: dict[str, dict[str, list[str]]] = {language: {} for language in LANGUAGES}
    for page in files(root):
        text = page.read_text(encoding="utf-8")
        language = page.relative_to(root / "docs").parts[0]
        for claim, statement in claims_of(text):
            stated[language].setdefault(claim, []).append(statement)
    for language, there in stated.items():
        for claim, statements in sorted(there.items()):
            if leans(said := fullest_statement(statements), language):
                found.append(
                    f"docs/{language}: claim {claim!r} says {said!r}, which the page of claims "
                    "shows by itself; let it name what it speaks of"
                )
    for claim in sorted(stated["pt"].keys() ^ stated["en"].keys()):
        only = "pt" if claim in stated["pt"] else "en"
        found.append(f"claim {claim!r} stands in docs/{only} only; state it in both languages")
    for claim, tests in sorted(tests_by_claim(root).items()):
        if claim not in stated["pt"].keys() | stated["en"].keys():
            found.append(
                f"{tests[0].path}: {tests[0].name} verifies {claim!r}, which no page claims"
            )
    return found
