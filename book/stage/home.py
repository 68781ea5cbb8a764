"""Writes the numbers of the home page, which are counted while it is built."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

from book.page import ROOT, fill, of_the_package
from book.stage import claims

PAGE = "index.md"
NUMBERS, ASKED = "<!-- numbers -->", "<!-- properties -->"
WORDS = {
    "pt": (
        "páginas em cada língua",
        "afirmações, cada uma com o seu teste",
        "programas, que os testes rodam",
        "propriedades que o verificador examina",
        "exercícios que um programa corrige",
    ),
    "en": (
        "pages in each language",
        "claims, each with its test",
        "programs, which the tests run",
        "properties that the checker examines",
        "exercises that a program marks",
    ),
}

_pages = 0


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    global _pages
    _pages = len(nav.pages)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if page.file.src_uri != PAGE:
        return markdown
    told = of_the_package()
    numbers = (
        _pages,
        len(claims.collect_statements(files, config)),
        len(
            [
                path
                for path in (ROOT / "snippets").rglob("*.py")
                if path.with_suffix(".out").is_file()
            ]
        ),
        told["properties"],
        told["exercises"],
    )
    words = WORDS[Path(config.docs_dir).name]
    items = "".join(
        f"<li><strong>{number}</strong> {said}</li>"
        for number, said in zip(numbers, words, strict=True)
    )
    markdown = fill(markdown, ASKED, str(told["properties"]), page)
    return fill(markdown, NUMBERS, f'<ul class="numbers">{items}</ul>', page)
