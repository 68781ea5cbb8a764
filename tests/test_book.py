"""The pages that the package speaks of, and their addresses where they have one."""

from importlib import metadata
from pathlib import Path

import pytest

from attnref import book
from attnref.conformance.properties import PROPERTIES, STEP_PROPERTIES
from attnref.copying.catalogue import entries
from attnref.exercises.exercise import all_exercises

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


def test_every_page_that_is_spoken_of_is_there():
    properties = (PROPERTIES | STEP_PROPERTIES).values()
    spoken_of = [*properties, *entries(), *all_exercises()]
    pages = {each.page for each in spoken_of}
    assert not [page for page in sorted(pages) if not (DOCS / "en" / f"{page}.md").is_file()]


def test_without_an_address_a_page_is_named(published):
    published("Source, https://example.org/source")
    assert (
        book.page_address("foundations/masks", "en")
        == "the page foundations/masks of the attnref book"
    )
    assert (
        book.page_address("foundations/masks", "pt")
        == "a página foundations/masks do livro attnref"
    )


@pytest.mark.parametrize("url", ["https://example.org/book", "https://example.org/book/"])
def test_with_an_address_it_is_a_link(published, url):
    published("Source, https://example.org/source", f"Documentation, {url}")
    assert (
        book.page_address("foundations/masks", "pt")
        == "https://example.org/book/pt/foundations/masks/"
    )


def test_a_package_that_is_not_installed_has_no_address(monkeypatch, published):
    published()

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "metadata", missing)
    assert (
        book.page_address("foundations/masks", "en")
        == "the page foundations/masks of the attnref book"
    )
