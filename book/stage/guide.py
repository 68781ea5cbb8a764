"""Writes the guide to the variants: a row for each page whose front matter says whom it serves.

    variant: {need: a stream without end, same as: a model of its own, grows with: $n$}

A row is called by the module of attnref.variants that its page explains, or else by its title.
The rows stand in the order of the navigation, where the page of the guide has ``<!-- every
variant -->`` below the head of its table.
"""

from pathlib import Path

from book.edition import Edition
from book.page import BookError, Page, front_matter

AFTER = ("citations",)
PAGE = "variants/index.md"
PLACE = "<!-- every variant -->"
COLUMNS = ("need", "same as", "grows with")


def module(page: str) -> str:
    """The module of attnref.variants that a page of the room explains."""
    return Path(page).stem.replace("-", "_")


def rows(docs_dir: Path, order: list[str]) -> list[str]:
    """A row of the table for each variant, and the page at fault where one cannot be made."""
    made = []
    for page in order:
        path = docs_dir / page
        if page.startswith("variants/") and path.suffix == ".md":
            matter = front_matter(path.read_text(encoding="utf-8"), path)
            said = matter.get("variant")
            if said is None:
                continue  # a page on all of them
            modules = docs_dir.parent.parent / "attnref" / "variants"
            # What is said of its own module, or of several, by name.
            each = {module(page): said} if set(said) == set(COLUMNS) else said
            for variant, row in each.items():
                if not isinstance(row, dict) or set(row) != set(COLUMNS):
                    raise BookError(f"{path}:1: variant: expected {', '.join(COLUMNS)}, got {said}")
                own = (modules / f"{variant}.py").exists()
                name = f"`{variant}`" if own else matter["title"]
                link = f"[{name}]({path.name})"
                made.append(f"| {row['need']} | {link} | {row['same as']} | {row['grows with']} |")
    return made


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if page.uri != PAGE:
        return markdown
    return page.fill(markdown, PLACE, "\n".join(rows(edition.docs, list(edition.pages))))
