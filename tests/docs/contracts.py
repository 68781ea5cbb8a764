"""The contracts that keep pages and code one, as functions from a tree to a list of problems.

Each takes the root of a project, so that its own test can break a copy of a page on purpose.
Those about includes, claims, citations, figures and results also stop the build: see book/stage.
"""

import ast
import itertools
import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import griffe
import yaml

from attnref.bench.record import Record, stale_methods
from book.make import record
from book.page import (
    FRONT_MATTER,
    Problem,
    blocks,
    front_matter,
    headings,
    lines_outside_blocks,
    links,
    replace_in_prose,
    tokens,
)
from book.stage import (
    behaviour_tables,
    bodies,
    citations,
    claims,
    cores,
    explorers,
    figures,
    glossary,
    includes,
    marks,
    names,
    results,
)

LANGUAGES = ("pt", "en")
# A number with a decimal point, as printed: 0.1385, 4.0000, 1.2e-05.
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?:e[+-]?\d+)?(?![\w]|\.\d)")
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")


def pages(root: Path) -> list[Path]:
    return sorted(
        path for language in LANGUAGES for path in (root / "docs" / language).rglob("*.md")
    )


def strip_front_matter(text: str) -> str:
    """The page with its front matter blanked, so that line numbers stay."""
    match = FRONT_MATTER.match(text)
    return "\n" * match[0].count("\n") + text[match.end() :] if match else text


def strip_sources(text: str) -> str:
    """The page without what links lead to and what is cited: "sec. 3.2" is no figure."""
    bare = replace_in_prose(citations.CITATION, lambda citation: "", text)
    return re.sub(r"\]\([^)\n]*\)", "]", bare)


# 1. Python on a page is an include, and no include is broken.


def include_problems(root: Path) -> list[Problem]:
    return [p for page in pages(root) for p in includes.problems(page, page.read_text(), root)]


# 1b. The body of each public function and class is on a page, or is named with a reason.

NOT_SHOWN = "docs/not-shown.yml"


def body_problems(root: Path) -> list[Problem]:
    """Public names whose code no page shows, and reasons that nothing needs."""
    package = griffe.load("attnref", search_paths=[root], try_relative_path=False)
    assert isinstance(package, griffe.Module)
    shown = {
        (path, name.partition(".")[0])
        for page in pages(root)
        if "reference" not in page.parts
        for core in cores.cores(page.read_text(encoding="utf-8"), root)
        for path, name in core.names
    }
    reasons = yaml.safe_load((root / NOT_SHOWN).read_text(encoding="utf-8"))
    found, unneeded, entries = [], dict(reasons), names.entries(package)
    for path, one in entries.items():
        name, file = path.removeprefix("attnref."), one.relative_package_filepath.as_posix()
        text = (root / file).read_text(encoding="utf-8")
        public = {other.name for other in entries.values() if other.module is one.module}
        behind = bodies.dependencies(text, one.name, public)
        if not shown & {(file, each) for each in behind}:
            unneeded.pop(name, None)
            if name not in reasons:
                message = f"{one.name}: no page shows its body, or a function behind it"
                found.append(Problem(root / file, one.lineno or 1, message))
    for name in unneeded:
        message = f"{name}: a page shows it, or there is no such public name; remove the line"
        found.append(Problem(root / NOT_SHOWN, 1, message))
    return found


# 1c. A mark is at one line of its program, and both languages mark the same lines.


def mark_problems(root: Path) -> list[Problem]:
    found = [p for page in pages(root) for p in marks.problems(page, page.read_text(), root)]
    for pt in sorted((root / "docs" / "pt").rglob("*.md")):
        en = root / "docs" / "en" / pt.relative_to(root / "docs" / "pt")
        if not en.is_file():
            continue  # which parity_problems reports
        for one, other in itertools.zip_longest(_marks(pt), _marks(en)):
            if not (one and other and one[0] == other[0]):
                here, (path, mark) = ((pt, one), (en, other)) if one else ((en, other), (pt, None))
                there = f"{path}:{mark[1]} marks `{mark[2]}`" if mark else f"{path} does not"
                message = (
                    f"marks `{here[1][2]}`, but {there}; mark the same lines in both languages"
                )
                found.append(Problem(here[0], here[1][1], message))
                break
    return found


def _marks(page: Path) -> list[tuple[tuple[int, str], int, str]]:
    """Of each mark what must be the same in both languages, its line and the code it quotes."""
    return [
        ((number, code), line, code)
        for number, block in enumerate(blocks(page.read_text(encoding="utf-8")))
        for line, code in marks.marks_of(block)
    ]


# 2. What a page shows as output is what the snippet prints.


def output_problems(snippet: Path, printed: str) -> list[Problem]:
    recorded = snippet.with_suffix(".out")
    if not recorded.exists():
        return [Problem(recorded, 1, "no recorded output; run make record")]
    return [
        Problem(recorded, line, f"recorded {was!r}, printed {now!r}; run make record")
        for line, was, now in differences(recorded.read_text(encoding="utf-8"), printed)
    ]


def _pairs(one: list, other: list) -> Iterator[tuple]:
    return itertools.zip_longest(one, other, fillvalue="(nothing)")


def _same_line(was: str, now: str) -> bool:
    if NUMBER.sub("#", was).split() != NUMBER.sub("#", now).split():
        return False
    return all(
        _same_number(a, b) for a, b in zip(NUMBER.findall(was), NUMBER.findall(now), strict=True)
    )


def _same_number(was: str, now: str) -> bool:
    """Equal as printed, or one unit of the last printed digit apart.

    Two processors may round a value that lies near the middle of two printed ones differently;
    a whole number, which was counted and not rounded, must be the same.
    """
    if was == now:
        return True
    mantissa, _, exponent = was.partition("e")
    if "." not in mantissa:
        return False
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - decimals)
    return math.isclose(float(was), float(now), rel_tol=0, abs_tol=unit * (1 + 1e-9))


# 3. A decimal figure in prose comes from an output on the page, or is declared with its source.


@cache
def _pinned_versions(root: Path) -> list[str]:
    """How a page names a library as it is installed here: what it says of another is stale."""
    path = root / "constraints.txt"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    pins = re.findall(r"^([\w.-]+)==(\d+\.\d+)", text, re.MULTILINE)
    return [f"`{name} {version}`" for name, version in pins]


def figure_problems(page: Path, root: Path) -> list[Problem]:
    text = page.read_text(encoding="utf-8")
    meta = front_matter(text)
    found, declared = [], set()
    for fact in meta.get("facts", []):
        source, value = str(fact.get("source", "")), str(fact.get("value", ""))
        if not _source_exists(source, root):
            found.append(
                Problem(
                    page,
                    1,
                    f"fact {value}: its source {source!r} is no key of the "
                    "bibliography (@key), no claim (claim:id) and no file of the project",
                )
            )
        declared.add(value)
    shown = [number for output in _outputs(text, root) for number in NUMBER.findall(output)]
    used = set()
    # The code with which a note begins is in the block, and so are its numbers.
    notes = {line for core in cores.cores(text, root) for line, _ in core.notes}
    for line, prose in lines_outside_blocks(strip_sources(strip_front_matter(text))):
        if line in notes:
            prose = cores.ITEM.sub("", prose)
        for pinned in _pinned_versions(root):
            prose = prose.replace(pinned, "")
        for figure in DECIMAL.findall(prose):
            if figure in declared:
                used.add(figure)
            elif not any(_rounds_to(number, figure) for number in shown):
                found.append(
                    Problem(
                        page,
                        line,
                        f"{figure} is in no output shown on this page; show it, "
                        "or declare it in the front matter under facts, with its source",
                    )
                )
    for value in sorted(declared - used):
        found.append(Problem(page, 1, f"fact {value} is declared and not used"))
    return found


def _source_exists(source: str, root: Path) -> bool:
    if source.startswith("@"):
        return source[1:] in citations.read_bibliography(root)
    if source.startswith("claim:"):
        return source[6:] in claims.tests_by_claim(root)
    return bool(source) and (root / source).is_file()


def _outputs(text: str, root: Path) -> list[str]:
    recorded = [
        (root / include["path"]).read_text(encoding="utf-8")
        for block in blocks(text)
        if block.language == "text"
        for line in block.body
        if (include := includes.INCLUDE.match(line)) and (root / include["path"]).is_file()
    ]
    return recorded + list(behaviour_tables.outputs(text, root))


def _rounds_to(number: str, figure: str) -> bool:
    """Whether the printed ``number`` is the ``figure``, possibly with more digits."""
    mantissa, _, exponent = figure.partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    half = 0.5 * 10.0**-decimals
    return abs(abs(float(number)) - float(figure)) <= half * (1 + 1e-9)


# 4. A claim has a test, stands in both languages, and no test claims what no page states.


def claim_problems(root: Path) -> list[Problem | str]:
    found: list[Problem | str] = []
    stated: dict[str, dict[str, list[str]]] = {language: {} for language in LANGUAGES}
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        found += claims.problems(page, text, root)
        language = page.relative_to(root / "docs").parts[0]
        for claim, statement in claims.claims_of(text):
            stated[language].setdefault(claim, []).append(statement)
    for language, there in stated.items():
        for claim, statements in sorted(there.items()):
            if claims.leans(said := claims.fullest_statement(statements), language):
                found.append(
                    f"docs/{language}: claim {claim!r} says {said!r}, which the page of claims "
                    "shows by itself; let it name what it speaks of"
                )
    for claim in sorted(stated["pt"].keys() ^ stated["en"].keys()):
        only = "pt" if claim in stated["pt"] else "en"
        found.append(f"claim {claim!r} stands in docs/{only} only; state it in both languages")
    for claim, tests in sorted(claims.tests_by_claim(root).items()):
        if claim not in stated["pt"].keys() | stated["en"].keys():
            found.append(
                f"{tests[0].path}: {tests[0].name} verifies {claim!r}, which no page claims"
            )
    return found


# 5. Both languages have the same skeleton.

EQUATION = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$(?!\s)([^$\n]+?)\$", re.DOTALL)


def skeleton(page: Path) -> dict[str, list[str]]:
    """What must be the same in both languages, in order, as a message can show it."""
    text = page.read_text(encoding="utf-8")
    prose = "\n".join(line for _, line in lines_outside_blocks(strip_front_matter(text)))
    numbers = DECIMAL.findall(strip_sources(prose))
    return {
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
            f"{fact.get('value')} of {fact.get('source')}"
            for fact in front_matter(text).get("facts", [])
        ],
    }


def parity_problems(root: Path) -> list[Problem | str]:
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


def _first_difference(pt: list, en: list) -> str:
    for number, (one, other) in enumerate(_pairs(pt, en), 1):
        if one != other:
            return f"number {number} is {one} in pt and {other} in en"
    raise AssertionError("the lists are equal")


# Citations: each resolves, and each source is cited.


def citation_problems(root: Path) -> list[Problem | str]:
    found: list[Problem | str] = []
    cited = set()
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        found += citations.problems(page, text, root)
        cited |= set(citations.citation_keys(text))
    for key in sorted(citations.read_bibliography(root).keys() - cited):
        found.append(f"docs/references.bib: {key} is cited by no page")
    return found


# The glossary: each term in both languages, and a page that explains it.


def glossary_problems(root: Path) -> list[Problem | str]:
    found: list[Problem | str] = [*glossary.problems(root)]
    for name, entry in glossary.read_glossary(root).items():
        path, _, anchor = str(entry.get("page")).partition("#")
        for language in LANGUAGES:
            page = root / "docs" / language / path
            if not page.is_file():
                found.append(f"docs/glossary.yml: {name}: there is no page docs/{language}/{path}")
            elif anchor and anchor not in [heading.id for heading in headings(page.read_text())]:
                found.append(f"docs/glossary.yml: {name}: {page.name} has no heading {{#{anchor}}}")
    return found


def snippet_problems(root: Path) -> list[str]:
    """An output without a snippet, and a snippet whose page does not show it."""
    snippets = record.snippets(root)
    outputs = {snippet.with_suffix(".out") for snippet in snippets}
    found = [
        f"{output.relative_to(root).as_posix()} has no snippet"
        for output in sorted(set((root / "snippets").rglob("*.out")) - outputs)
    ]
    for folder in sorted({snippet.parent for snippet in snippets}):
        page = folder.relative_to(root / "snippets").as_posix()
        here = {snippet for snippet in snippets if snippet.parent == folder}
        shown = record.page_scripts(page, root) if (root / f"docs/en/{page}.md").is_file() else []
        for snippet in sorted(here - set(shown)):
            name = snippet.relative_to(root).as_posix()
            found.append(f"{name}: docs/en/{page}.md does not show it; move it")
    return found


# 9. A recorded measurement is of the code as it is.


def result_problems(root: Path) -> list[Problem]:
    """Records of code that no commit holds."""
    found = []
    for path in sorted((root / "docs" / "results").glob("*.json")):
        kept = Record.load(path)
        if kept.provenance["dirty"] is not False:
            found.append(Problem(path, 1, "measured with uncommitted code; commit, run make bench"))
    return found


def stale_problems(root: Path) -> list[Problem]:
    """Methods whose code has changed since; tables say so, and before a release it is measured."""
    return [
        Problem(path, 1, f"the code of {method} has changed since it was measured; run make bench")
        for path in sorted((root / "docs" / "results").glob("*.json"))
        for method in stale_methods(Record.load(path))
    ]


# What was measured reaches a page from its record, and is never typed.

MEASURED = re.compile(
    r"(?<![\w.])(?P<number>\d+(?:\.\d+)?)\s*(?:ms|µs|s|[MG]i?B|times|vezes)(?!\w)", re.IGNORECASE
)


def measured_problems(page: Path, root: Path) -> list[Problem]:
    """Wishes that no record fulfils, and times, sizes and ratios typed beside what one shows.

    A number that an output on the page prints is computed, and one that is declared with a
    source elsewhere is quoted; neither is a measurement of this project.
    """
    text = page.read_text(encoding="utf-8")
    found = results.problems(page, text, root) + behaviour_tables.problems(page, text, root)
    facts = front_matter(text).get("facts", [])
    for fact in facts:
        if str(fact.get("source", "")).startswith("docs/results"):
            message = f"fact {fact.get('value')}: show it with a results block instead"
            found.append(Problem(page, 1, message))
    if "](chart:" not in text and not any(block.language == "results" for block in blocks(text)):
        return found
    known = {str(fact.get("value")) for fact in facts}
    known |= {number for output in _outputs(text, root) for number in NUMBER.findall(output)}
    for line, prose in lines_outside_blocks(strip_front_matter(text)):
        for match in MEASURED.finditer(prose):
            if match["number"] not in known:
                message = (
                    f"{match[0]!r} stands beside recorded measurements; say it in words, and let "
                    "a results block show the number"
                )
                found.append(Problem(page, line, message))
    return found


# The eye has something to rest on: a figure a page, and no long stretch of prose alone.

# Pages outside of the reference, and why no figure would teach anything there.
NO_FIGURE = {
    f"practice/behaviours/{name}.md": "what there is to see are the recorded answers, a table"
    for name in (
        "alignment",
        "derivatives-and-memory",
        "fully-masked",
        "groups",
        "half-precision",
        "mask-meaning",
        "mask-with-causality",
        "nan",
        "scale",
    )
}
LONGEST = 500  # words
FIGURE = re.compile(r"figure:|chart:")
TARGET = re.compile(r"\]\([^)]*\)")
RESTS = ("fence", "code_block", "html_block", "admonition_open", "admonition_close")


def prose_problems(page: Path, root: Path) -> list[Problem]:
    """A page without a figure, and prose that goes on too long beside nothing."""
    found = []
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(root / "docs").as_posix().partition("/")[2]
    if not name.startswith("reference/"):
        has_figure = bool(explorers.PLACE.search(text)) or any(
            FIGURE.match(link.target) for link in links(text) if link.is_image
        )
        if not has_figure and name not in NO_FIGURE:
            message = "has no figure: draw one, or say why not in NO_FIGURE of this contract"
            found.append(Problem(page, 1, message))
        if has_figure and name in NO_FIGURE:
            found.append(Problem(page, 1, "has a figure: remove its line of NO_FIGURE"))
    for line, words in stretches(text):
        if words > LONGEST:
            message = (
                f"{words} words without figure, program, table or box, at most {LONGEST} are "
                "expected: put one where it helps"
            )
            found.append(Problem(page, line, message))
    return found


def stretches(text: str) -> Iterator[tuple[int, int]]:
    """First line and words of each stretch of prose, between what the eye can rest on.

    That is a figure, a chart, a block of code with the notes below it, a table, or a box, folded
    or not, whose own words are a stretch again; also the place of what the build inserts.
    """
    line, words, skipped, after_code = 0, 0, None, False
    for token in tokens(text):
        if skipped:
            skipped = None if (token.type, token.level) == skipped else skipped
            continue
        is_figure = token.type == "inline" and any(
            child.type == "image" and FIGURE.match(str(child.attrs["src"]))
            for child in token.children or ()
        )
        is_notes = token.type == "ordered_list_open" and after_code
        if token.type == "table_open" or is_notes:
            skipped = token.type.replace("open", "close"), token.level
        if token.type in RESTS or is_figure or skipped:
            yield line, words
            line, words = 0, 0
        elif token.type == "inline":
            words += len(TARGET.sub("]", token.content).split())
            line = line or (token.map or [0])[0] + 1
        after_code = token.type == "fence"
    yield line, words


# A drawing has its script, is recorded and shown in both languages, and is what the script draws.

TAG = re.compile(r"<[^>]*>")


def drawing_problems(root: Path) -> list[Problem | str]:
    found: list[Problem | str] = []
    shown: dict[str, set[str]] = {language: set() for language in LANGUAGES}
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        found += figures.problems(page, text, root)
        shown[page.relative_to(root / "docs").parts[0]] |= set(figures.figures_of(text))
    expected = set()
    for script in record.figures(root):
        name = script.relative_to(root).as_posix()
        found += text_problems(script)
        for language in LANGUAGES:
            path = figures.drawing_path(root, script.stem, language)
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


def redrawn_problems(recorded: Path, drawn: str) -> list[Problem]:
    """Where a recorded drawing is not what its script draws now."""
    if not recorded.exists():
        return [Problem(recorded, 1, "no recorded drawing; run make record")]
    different = differences(recorded.read_text(encoding="utf-8"), drawn, drawn=True)
    return [
        Problem(recorded, line, f"recorded {was}, drawn {now}; run make record")
        for line, was, now in itertools.islice(different, 1)
    ]


def differences(recorded: str, now: str, *, drawn: bool = False):
    """Lines of an output, or of a drawing, that differ by more than rounding."""
    same = _same_element if drawn else _same_line
    for number, (was, is_now) in enumerate(_pairs(recorded.split("\n"), now.split("\n")), 1):
        if not same(was, is_now):
            yield number, was, is_now


def same_values(was: object, now: object) -> bool:
    """What JSON holds, numbers but for the last bits, in which processors differ."""
    if isinstance(was, dict) and isinstance(now, dict):
        return [*was] == [*now] and all(same_values(was[key], now[key]) for key in was)
    if isinstance(was, list) and isinstance(now, list):
        return len(was) == len(now) and all(map(same_values, was, now))
    if isinstance(was, float) and isinstance(now, float):
        return math.isclose(was, now, rel_tol=1e-9, abs_tol=1e-12)
    return was == now


def _same_element(was: str, now: str) -> bool:
    """Text as in outputs; places within 0.01, one unit of the digit that they are rounded to.

    Another processor may err in the last bits of what is computed, which moves nothing by a
    hundredth of a pixel, but may round a number that lies near the middle the other way.
    """
    tags = list(zip(TAG.findall(was), TAG.findall(now), strict=False))
    words = list(zip(TAG.split(was), TAG.split(now), strict=False))
    return (
        len(TAG.findall(was)) == len(TAG.findall(now))
        and all(NUMBER.sub("#", a) == NUMBER.sub("#", b) for a, b in tags)
        and all(
            abs(float(a) - float(b)) <= 0.01 + 1e-9
            for pair in tags
            for a, b in zip(*map(NUMBER.findall, pair), strict=True)
        )
        and all(_same_line(a, b) for a, b in words)
    )
