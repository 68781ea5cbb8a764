"""Explorers alone on their pages: to open and to load these is what takes time."""

import pytest

from tests.site.explorers import contract


@pytest.fixture(scope="session")
def alone(site, served, tmp_path_factory):
    """Where the pages of the explorers are without their text and the scripts around it.

    These take longer than all that is asked; test_every_explorer.py has them, too.
    """
    folder = tmp_path_factory.mktemp("alone")
    for language in contract.LANGUAGES:
        (folder / language).mkdir()
        for name in contract.SHARED:
            (folder / language / name).symlink_to(site / language / name)
        for (name, _), path in contract.PLACES.items():
            place = folder / language / path
            place.mkdir(parents=True, exist_ok=True)
            html = (site / language / path / "index.html").read_text("utf-8")
            (place / "index.html").write_text(contract.strip_page(html, name), "utf-8")
    with served(folder) as address:
        yield address


@pytest.fixture(scope="session")
def bare(alone):
    """Opens an explorer alone on its page, and waits until it is awake if a script runs."""

    def bare(page, name, language="en", query="", is_small=False, wakes=True):
        page.goto(f"{alone}/{language}/{contract.page_of(name, is_small)}{query}")
        if wakes:
            contract.wake(page, name)
        return page

    return bare


@pytest.fixture
def still(new_page, bare):
    """Opens an explorer where no script of the page runs."""

    def still(name, language="en", is_small=False, **options):
        page = new_page(java_script_enabled=False, **options)
        return bare(page, name, language, is_small=is_small, wakes=False)

    return still


@pytest.fixture(scope="module")
def visit(browser, bare):
    """The explorer in a view, by default the first one, whatever was done before."""
    pages = {}

    def visit(name, language="en", state=None, is_small=False, viewport=contract.WIDE):
        kind = name, language, is_small
        if kind not in pages:
            page = browser.new_context(reduced_motion="reduce", has_touch=True).new_page()
            pages[kind] = bare(page, name, language, is_small=is_small)
        pages[kind].set_viewport_size(viewport)
        contract.begin(pages[kind], name, state or {})
        return pages[kind]

    yield visit
    for page in pages.values():
        page.context.close()


@pytest.fixture
def page(request, visit):
    """The explorer of a module in its first view."""
    return visit(request.module.NAME)


@pytest.fixture
def spoiled(new_page, bare):
    """An explorer that gets one of its scripts with a mistake in it."""

    def spoiled(name, right, mistake, state, file="numbers.js"):
        page = new_page()
        contract.spoil(page, name, right, mistake, file)
        return bare(page, name, query=contract.address_of(name, state))

    return spoiled
