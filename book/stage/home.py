"""Writes the numbers of the home page, which are counted while it is built."""

from book.edition import Edition
from book.page import ROOT, Page, of_the_package
from book.stage import claims

AFTER = ("citations",)
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


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if page.uri != PAGE:
        return markdown
    told = of_the_package()
    numbers = (
        len(edition.pages),
        len(claims.stated(edition)),
        len(
            [
                path
                for path in (ROOT / "snippets").rglob("*.py")
                if path.with_suffix(".out").is_file()
            ]
        ),
        told["properties"],
        len(told["exercises"]),
    )
    words = WORDS[edition.language]
    items = "".join(
        f"<li><strong>{number}</strong> {said}</li>"
        for number, said in zip(numbers, words, strict=True)
    )
    markdown = page.fill(markdown, ASKED, str(told["properties"]))
    return page.fill(markdown, NUMBERS, f'<ul class="numbers">{items}</ul>')
