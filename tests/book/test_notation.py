"""The page of the notation lists every letter that the formulas of several pages use."""

import re
from collections import defaultdict
from pathlib import Path

from book.page import CODE, LANGUAGES, lines_outside_blocks
from book.stage.numbers import strip_front_matter
from book.stage.parity import EQUATION

ROOT = Path(__file__).parent.parent.parent
NOTATION = "reference/notation.md"
# What is a word inside a formula, and names of sets and operators, which are no letters.
WORDS = re.compile(r"\\(?:text|operatorname|mathrm|mathbb|begin|end)\*?\{[^}]*\}|\{[a-z]{3,}\}")
GREEK = re.compile(
    r"\\(?:alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho"
    r"|sigma|tau|phi|varphi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Phi|Psi|Omega|ell)"
    r"(?![A-Za-z])"
)
COMMAND = re.compile(r"\\[A-Za-z]+")


def letters(formula: str) -> set[str]:
    """The letters of a formula: of ``e^{s_j}\\phi`` e, s, j and \\phi."""
    bare = COMMAND.sub(" ", WORDS.sub(" ", formula))
    return set(GREEK.findall(formula)) | set(re.findall(r"[A-Za-z]", bare))


def formulas(text: str) -> list[str]:
    prose = "\n".join(line for _, line in lines_outside_blocks(strip_front_matter(text)))
    return [shown or inline for shown, inline in EQUATION.findall(re.sub(CODE, "", prose))]


def used(root: Path, language: str) -> dict[str, list[str]]:
    """The pages on which each letter is used; those of the reference explain others' formulas."""
    folder, found = root / "docs" / language, defaultdict(list)
    for path in sorted(folder.rglob("*.md")):
        page = path.relative_to(folder).as_posix()
        if not page.startswith("reference/"):
            text = path.read_text(encoding="utf-8")
            for letter in {one for formula in formulas(text) for one in letters(formula)}:
                found[letter].append(page)
    return found


def listed(root: Path, language: str) -> set[str]:
    """The letters that have a row, or are explained in the sentences beside the tables."""
    text = (root / "docs" / language / NOTATION).read_text(encoding="utf-8")
    found = set()
    for line in text.split("\n"):
        said = line.split(" | ")[0] if line.startswith("| ") else line
        found |= {one for formula in formulas(said) for one in letters(formula)}
    return found


def missing(root: Path, language: str) -> dict[str, list[str]]:
    known = listed(root, language)
    pages = used(root, language)
    return {one: some for one, some in pages.items() if len(some) > 1 and one not in known}


def test_each_letter_of_several_pages_is_listed():
    assert {language: missing(ROOT, language) for language in LANGUAGES} == {"pt": {}, "en": {}}


def test_a_letter_of_two_pages_that_no_row_has_is_reported(tmp_path):
    for name, text in {
        NOTATION: "In $\\pi$.\n\n| letter | meaning |\n|---|---|\n| $n$ | number of $k$ |\n",
        "a.md": "Here $n\\,k + \\pi$, $$\\alpha_{model}$$ and `$y$`.",
        "b.md": "Again $k \\cdot \\alpha$, $\\operatorname{tr} n$, $\\pi$ and $z$.",
        "c.md": "And $y$.",
    }.items():
        path = tmp_path / "docs" / "en" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert missing(tmp_path, "en") == {"k": ["a.md", "b.md"], "\\alpha": ["a.md", "b.md"]}


def test_letters_of_a_formula():
    expected = {
        "e^{s_j}\\phi": {"e", "s", "j", "\\phi"},
        "d_{model}/\\sqrt{d_k}": {"d", "k"},
        "\\frac{a}{\\ell}": {"a", "\\ell"},
        "\\mathbb{E}[q] + \\text{word}": {"q"},
    }
    assert {formula: letters(formula) for formula in expected} == expected
