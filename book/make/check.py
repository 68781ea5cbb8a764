"""Verifies one page in both languages by every contract that concerns it, or what is written.

    python -m book.make.check                        the contracts of all pages, in half a minute
    python -m book.make.check foundations/dropout

Its snippets run and its figures are drawn again, the tests of its claims run, it is built strictly,
and both versions are looked at in a browser, where there is one. Contracts that read all
pages at once do so here, too: they take a second each.
"""

import os
import sys
import tempfile
from pathlib import Path

import pytest

from book import contracts, recorded
from book.make import serve
from book.stage import claims

ROOT = Path(__file__).parents[2]
CONTRACTS = {
    ".md": ["tests/book/test_pages.py"],
    ".ipynb": ["tests/book/test_pages.py", "tests/book/test_notebooks.py"],
}
# Asked of the records of all pages, before a release; on a page, its table says what is stale.
STALE = "tests/book/test_pages.py::test_recorded_measurements_are_of_the_code_as_it_is"
VISITS = "tests/site/test_every_page.py::test_page"


class OfPage:
    """Leaves out what is parametrized by another page, or by another page's snippet or figure."""

    def __init__(self, path: Path, site: serve.Making | None) -> None:
        """Takes the English version of the page, and the site in which it is being built."""
        self.site = site
        self.page = path.relative_to(ROOT / "docs" / "en").with_suffix("").as_posix()
        self.shown = set(recorded.page_scripts(self.page)) if path.suffix == ".md" else set()

    def pytest_configure(self, config: pytest.Config) -> None:
        if self.site:
            config.pluginmanager.register(self.site, "site")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [
            item
            for item in items
            if item.path.parent.name not in ("book", "site") or self._concerns_all(item)
        ]

    def _concerns_all(self, item: pytest.Item) -> bool:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        return all(map(self._concerns, parameters))

    def _concerns(self, value: object) -> bool:
        if isinstance(value, str):  # where a page is published, or a notebook's name
            return value in (self.page, f"{self.page}/".removesuffix("index/"), "pt", "en") or (
                "/" not in value and self.page == f"notebooks/{value}"
            )
        if not isinstance(value, Path):
            return True
        name = value.relative_to(ROOT).with_suffix("").as_posix()
        return value in self.shown or name in (f"docs/pt/{self.page}", f"docs/en/{self.page}")


def main(page: str) -> int:
    """The exit status of pytest."""
    if not page:
        return contracts.main()
    path = next((ROOT / "docs" / "en").glob(f"{page}.*"), None)
    if path is None:
        sys.exit(f"attnref: no page {page!r} below docs/en; make check PAGE=foundations/dropout.")
    os.environ["ATTNREF_PAGE"] = page  # the site is built of it alone
    with tempfile.TemporaryDirectory() as folder:
        # Begun here, beside what pytest has to load.
        site = None if serve.is_current() else serve.Making(Path(folder, "site"))
        stated = {claim for claim, _ in claims.claims_of(path.read_text(encoding="utf-8"))}
        tested = [
            f"{test.path}::{test.name}"
            for claim, tests in claims.tests_by_claim(ROOT).items()
            for test in tests
            if claim in stated
        ]
        asked = [*CONTRACTS[path.suffix], *dict.fromkeys(tested), VISITS]
        options = ["-q", "--audit", f"--deselect={STALE}"]
        status = pytest.main([*options, *asked], plugins=[OfPage(path, site)])
        if site:
            site.result()  # it may still write, where pytest stopped before the visits
        return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if sys.argv[1:] else ""))
