"""The contracts that keep pages and code one: the passes of staging, run without output.

Each pass says what is wrong with its part: of a page what would be put wrong on it, which stops a
build (``problems``, ``edition_problems``), or what its author should mend (``contract``); and of
both languages together (``book_contract``).
"""

from pathlib import Path

from book.edition import Edition
from book.make import agree
from book.page import LANGUAGES, ROOT, Problem, files
from book.passes import forget, passes

PASSES = {
    module.__name__.rpartition(".")[2]: module
    for module in passes("stage", ("problems", "edition_problems", "contract", "book_contract"))
}
Found = list[Problem | str]


def problems(name: str, root: Path = ROOT) -> Found:
    """What one pass finds in all pages of a project."""
    one = PASSES[name]
    forget([one])
    found: Found = []
    for page in notebooks(root) if name == "notebooks" else files(root):
        text = page.read_text(encoding="utf-8")
        for ask in ("problems", "contract"):
            if hasattr(one, ask):
                found += getattr(one, ask)(page, text, root)
    if hasattr(one, "edition_problems"):
        for language in LANGUAGES:
            found += one.edition_problems(Edition(language, root))
    if hasattr(one, "book_contract"):
        found += one.book_contract(root)
    return list(dict.fromkeys(found))


def notebooks(root: Path) -> list[Path]:
    return sorted(path for one in LANGUAGES for path in (root / "docs" / one).rglob("*.ipynb"))


def main() -> int:
    """Lists what is wrong with the pages; the exit status."""
    found: Found = [found for name in PASSES for found in problems(name)]
    found += agree.problems(ROOT)
    print(*found, sep="\n") if found else print("attnref: the pages keep their contracts.")
    return bool(found)
