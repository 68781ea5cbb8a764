"""The built site, a server for it, and a browser: shared by these tests."""

import contextlib
import functools
import os
import threading

import pytest
from playwright.sync_api import Browser, sync_playwright

from book.make import chromium, serve


def pytest_collection_modifyitems(items):
    """What needs the site comes last: meanwhile it is built."""
    items.sort(key=lambda item: "site" in item.fixturenames)


@pytest.fixture(scope="session")
def site(site_in_the_making):
    """Folder of the site, built strictly, once for all processes of a run."""
    folder, log = site_in_the_making()
    assert (folder / "index.html").exists(), log.read_text("utf-8")
    return folder


@contextlib.contextmanager
def serving(folder):
    with serve.server(folder, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def served():
    """Serves a folder and gives its address, without a slash at the end."""
    return serving


@pytest.fixture(scope="session")
def address(site, served):
    """Where the site is served."""
    with served(site) as address:
        yield address


@pytest.fixture(scope="session")
def launch():
    """Starts a browser, with options of its own."""
    if chromium.PATH is None:
        if os.environ.get("CI"):
            pytest.fail(chromium.MISSING)
        pytest.skip(chromium.MISSING)
    with sync_playwright() as playwright:
        yield functools.partial(
            playwright.chromium.launch, executable_path=chromium.PATH, args=chromium.FLAGS
        )


@pytest.fixture(scope="session")
def browser(launch):
    browser: Browser = launch()
    yield browser
    browser.close()


OPTIONS = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"}


@pytest.fixture
def first_page(browser):
    """Makes pages of readers who come for the first time, and closes them."""
    contexts = []

    def make(**options):
        contexts.append(browser.new_context(**OPTIONS, **options))
        return contexts[-1].new_page()

    yield make
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def tabs(browser):
    """The pages that are open, by their options: to open one, and to fill its cache, takes time."""
    tabs = {}
    yield tabs
    for pages in tabs.values():
        for page in pages:
            page.context.close()


@pytest.fixture
def new_page(browser, tabs):
    """Gives empty pages with options of their own, which other tests may have had."""
    taken = []

    def new_page(**options):
        options = {**OPTIONS, **options}
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
        if page.url.startswith("http"):  # what was chosen there is not chosen any more
            page.evaluate("localStorage.clear(); sessionStorage.clear()")
        page.unroute_all()
        page.context.unroute_all()
        page.context.clear_permissions()
        page.emulate_media(media="null", forced_colors="null")
        page.goto("about:blank")
