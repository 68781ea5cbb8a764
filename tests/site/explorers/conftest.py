"""Pages that the tests of a module share: to open and to load them is what takes time."""

import contract
import pytest


@pytest.fixture(scope="module")
def tabs(browser):
    """Those that are open, by their options."""
    tabs = {}
    yield tabs
    for pages in tabs.values():
        for page in pages:
            page.context.close()


@pytest.fixture
def new_page(browser, tabs):
    """Gives an empty page with options of its own, which another test may have had."""
    taken = []

    def new_page(**options):
        options = {"reduced_motion": "reduce", "viewport": contract.WIDE, **options}
        pages = tabs.setdefault(str(sorted(options.items())), [])
        free = [page for page in pages if page not in taken]
        if not free:
            pages.append(browser.new_context(**options).new_page())
            free = pages[-1:]
        taken.append(free[0])
        free[0].set_viewport_size(options["viewport"])
        return free[0]

    yield new_page
    for page in taken:
        page.unroute_all()
        page.goto("about:blank")


@pytest.fixture(scope="session")
def bare(site, address):
    """Opens an explorer on its page, without the text and the scripts of the page around it.

    These take longer than all that is asked; test_every_explorer.py has them, too.
    """

    def bare(page, name, language="en", query="", is_small=False):
        path = f"{language}/{contract.page_of(name, is_small)}"
        html = (site / path / "index.html").read_text("utf-8")
        alone = contract.alone(html, name)
        page.route(
            lambda url: url.partition("?")[0].partition("#")[0] == f"{address}/{path}",
            lambda route: route.fulfill(body=alone, content_type="text/html; charset=utf-8"),
        )
        page.goto(f"{address}/{path}{query}")
        contract.wake(page, name)
        return page

    return bare


@pytest.fixture(scope="module")
def visit(browser, bare):
    """The explorer in a view, by default the first one, whatever was done before."""
    pages = {}

    def visit(name, language="en", state=None, is_small=False, **options):
        kind = (name, language, is_small, str(sorted(options.items())))
        if kind not in pages:
            whole = {"reduced_motion": "reduce", "viewport": contract.WIDE, **options}
            page = browser.new_context(**whole).new_page()
            pages[kind] = bare(page, name, language, is_small=is_small)
        contract.begin(pages[kind], name, state or {})
        return pages[kind]

    yield visit
    for page in pages.values():
        page.context.close()


@pytest.fixture
def spoiled(new_page, bare):
    """An explorer that gets one of its scripts with a mistake in it."""

    def spoiled(name, right, mistake, state, file="numbers.js"):
        page = new_page()
        contract.spoil(page, name, right, mistake, file)
        return bare(page, name, query=contract.address_of(name, state))

    return spoiled
