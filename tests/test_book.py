"""The pages that the package speaks of: their titles, and their addresses where they have one."""

import re
from importlib import metadata
from pathlib import Path

import pytest
from every import every

from attnref import book
from attnref.conformance import PROPERTIES
from attnref.copying.catalogue import catalogue, package
from attnref.exercises import all_exercises

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture
def published(monkeypatch):
    """Says what the metadata of the installed package hold; None stands for no such package."""

    def say(*urls):
        found = metadata.metadata("attnref")
        del found["Project-URL"]
        for url in urls:
            found["Project-URL"] = url
        monkeypatch.setattr(metadata, "metadata", lambda name: found)
        book.address.cache_clear()

    yield say
    book.address.cache_clear()


@every("page", book.TITLES)
@every(("number", "lang"), list(enumerate(("en", "pt"))))
def test_a_title_is_that_of_the_page(page, number, lang):
    text = (DOCS / lang / f"{page}.md").read_text(encoding="utf-8")
    title = re.search(r'^title: "?(.*?)"?$', text, re.MULTILINE)[1]
    assert book.TITLES[page][number] == title


def test_the_titles_are_those_of_the_pages_that_are_spoken_of():
    properties = {rule.page for rule in PROPERTIES.values()}
    copies = {entry.page for entry in catalogue(package())}
    exercises = {each.page for each in all_exercises()}
    assert set(book.TITLES) == properties | copies | exercises


def test_without_an_address_a_page_is_named(published):
    published("Source, https://example.org/source")
    assert book.where("foundations/masks", "en") == 'the page "Masks" of the attnref book'
    assert book.where("foundations/masks", "pt") == 'a página "Máscaras" do livro attnref'


@pytest.mark.parametrize("site", ["https://example.org/book", "https://example.org/book/"])
def test_with_an_address_it_is_a_link(published, site):
    published("Source, https://example.org/source", f"Documentation, {site}")
    assert book.where("foundations/masks", "pt") == "https://example.org/book/pt/foundations/masks/"


def test_a_package_that_is_not_installed_has_no_address(monkeypatch, published):
    published()

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "metadata", missing)
    assert book.where("foundations/masks", "en") == 'the page "Masks" of the attnref book'
