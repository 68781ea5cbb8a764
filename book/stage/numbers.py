"""Says where a number on a page comes from nowhere.

A decimal figure in prose is in an output that the page shows, or stands in its front matter under
``facts``. What was measured reaches a page from its record, and is never typed.
"""

import re
from functools import cache
from pathlib import Path

from book.page import (
    FRONT_MATTER,
    Problem,
    blocks,
    front_matter,
    lines_outside_blocks,
    replace_in_prose,
)
from book.stage import behaviour_tables, citations, claims, cores, includes

# A number with a decimal point, as printed: 0.1385, 4.0000, 1.2e-05.
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?:e[+-]?\d+)?(?![\w]|\.\d)")
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")
MEASURED = re.compile(
    r"(?<![\w.])(?P<number>\d+(?:\.\d+)?)\s*(?:ms|µs|s|[MG]i?B|times|vezes)(?!\w)", re.IGNORECASE
)


def contract(page: Path, text: str, root: Path) -> list[Problem]:
    return figure_problems(page, text, root) + measured_problems(page, text, root)


def strip_front_matter(text: str) -> str:
    """The page with its front matter blanked, so that line numbers stay."""
    match = FRONT_MATTER.match(text)
    return "\n" * match[0].count("\n") + text[match.end() :] if match else text


def strip_sources(text: str) -> str:
    """The page without what links lead to and what is cited: "sec. 3.2" is no figure."""
    bare = replace_in_prose(citations.CITATION, lambda citation: "", text)
    return re.sub(r"\]\([^)\n]*\)", "]", bare)


@cache
def _pinned_versions(root: Path) -> list[str]:
    """How a page names a library as it is installed here: what it says of another is stale."""
    path = root / "constraints.txt"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    pins = re.findall(r"^([\w.-]+)==(\d+\.\d+)", text, re.MULTILINE)
    return [f"`{name} {version}`" for name, version in pins]


def figure_problems(page: Path, text: str, root: Path) -> list[Problem]:
    meta = front_matter(text, page)
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


def measured_problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Times, sizes and ratios typed beside what one shows.

    A number that an output on the page prints is computed, and one that is declared with a
    source elsewhere is quoted; neither is a measurement of this project.
    """
    found = []
    facts = front_matter(text, page).get("facts", [])
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
