"""The book in one language: its pages in their order, and what a pass may ask of all of them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import griffe

from book.page import BookError, Page

SUFFIXES = (".md", ".ipynb")  # of pages
Nav = list[Any]  # the paths of pages, and {name of a room: another such list}


@dataclass(eq=False)
class Edition:
    """What is known of one language.

    Attributes:
        language: that of the pages, ``en`` or ``pt``.
        root: the folder of the project.
        nav: the order of the pages, as the configuration has it.
        rooms: what the navigation calls each room.
        site_name: what the site is called.
        site_description: what it is about.
        site_url: where this language is on the web; empty where it is not.
        repo_url: where its code is on the web; empty where it is not.
        reading: what the configuration tells mkdocstrings of reading the package.
        alone: the only page that is built, without its ending; empty where all are.
        again: whether it was built before, and only what has changed is built now.
        files: what is published beside the pages, by its place: a file, or what is to be in one.
    """

    language: str
    root: Path
    nav: Nav = field(default_factory=list)
    rooms: dict[str, str] = field(default_factory=dict)
    site_name: str = ""
    site_description: str = ""
    site_url: str = ""
    repo_url: str = ""
    reading: dict[str, Any] = field(default_factory=dict)
    alone: str = ""
    again: bool = False
    files: dict[str, Path | str] = field(default_factory=dict)

    @property
    def docs(self) -> Path:
        """The folder of its pages."""
        return self.root / "docs" / self.language

    @property
    def staged(self) -> Path:
        """The folder of its pages as they are made ready."""
        return self.root / ".cache" / "staged" / self.language

    def address(self, page: Page) -> str:
        """Where a page is on the web; from the front page, where the site is not there."""
        return f"{self.site_url.rstrip('/')}/{page.url}" if self.site_url else page.url or "./"

    @cached_property
    def pages(self) -> dict[str, Page]:
        """Its pages by their paths, in their order."""
        there = {
            path.relative_to(self.docs).as_posix(): path
            for path in sorted(self.docs.rglob("*.*"))
            if path.suffix in SUFFIXES
        }
        order = list(paths(complete(self.nav, sorted(there))))
        if lost := [uri for uri in order if uri not in there]:
            raise BookError(f"{self.docs}: the navigation names {', '.join(lost)}, which is not")
        return {uri: Page(uri, there[uri], there[uri].read_text("utf-8")) for uri in order}

    @cached_property
    def texts(self) -> dict[str, str]:
        """What the authors wrote, but for notebooks, by path."""
        return {uri: page.source for uri, page in self.pages.items() if not page.is_notebook}

    @cached_property
    def package(self) -> griffe.Module:
        """The package, as it is read without importing it, with what the pages say of it."""
        from book.stage import api, names  # which ask for the pages

        package = names.load(self.root, self.reading)
        api.tell(package, self)
        return package

    def rooms_of(self, page: Page) -> list[str]:
        """The names of the rooms in which a page is, the outermost first."""
        return [self.rooms[room] for room in _way(self.nav, page.uri) or ()]

    def named(self, nav: Nav | None = None) -> Nav:
        """The navigation with the names of pages and rooms."""
        return [
            {self.pages[item].name: item}
            if isinstance(item, str)
            else {self.rooms[room]: self.named(inside) for room, inside in item.items()}
            for item in (complete(self.nav, list(self.pages)) if nav is None else nav)
        ]


def complete(nav: Nav, pages: list[str]) -> Nav:
    """The navigation with each page that is not in it behind the others of its folder."""
    if not nav:
        return pages
    whole = _copy(nav)
    for page in sorted(set(pages).difference(paths(nav))):
        if not _append(whole, page):
            whole.append(page)
    return whole


def paths(nav: Nav) -> Iterator[str]:
    """The pages of a navigation in their order."""
    for item in nav:
        if isinstance(item, str):
            yield item
        else:
            for inside in item.values():
                yield from paths(inside)


def beside(nav: Nav, uri: str) -> Nav:
    """What stands behind a page in its room."""
    if uri in nav:
        return nav[nav.index(uri) + 1 :]
    rooms = (room for item in nav if isinstance(item, dict) for room in item.values())
    return next((found for room in rooms if (found := beside(room, uri))), [])


def _way(nav: Nav, page: str) -> list[str] | None:
    for item in nav:
        if item == page:
            return []
        if not isinstance(item, str):
            for room, inside in item.items():
                if (way := _way(inside, page)) is not None:
                    return [room, *way]
    return None


def _copy(nav: Nav) -> Nav:
    return [
        item if isinstance(item, str) else {room: _copy(inside) for room, inside in item.items()}
        for item in nav
    ]


def _append(nav: Nav, page: str) -> bool:
    """Puts a page behind the last one of its folder, in the first list that has some of them."""
    folder = PurePosixPath(page).parent
    here = [
        place
        for place, item in enumerate(nav)
        if isinstance(item, str) and PurePosixPath(item).parent == folder
    ]
    if here:
        nav.insert(here[-1] + 1, page)
        return True
    rooms = (room for item in nav if isinstance(item, dict) for room in item.values())
    return any(_append(room, page) for room in rooms)
