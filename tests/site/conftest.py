"""The built site, a server for it, and a browser: shared by these tests."""

import contextlib
import functools
import os
import threading

import chromium
import pytest
import site_server
from playwright.sync_api import Browser, sync_playwright


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
def serve(folder):
    with site_server.server(folder, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def served():
    """Serves a folder and gives its address, without a slash at the end."""
    return serve


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


@pytest.fixture
def new_page(browser):
    """Makes pages with options of their own, and closes them."""
    contexts = []

    def make(**options):
        options.setdefault("viewport", {"width": 1280, "height": 800})
        options.setdefault("reduced_motion", "reduce")
        contexts.append(browser.new_context(**options))
        return contexts[-1].new_page()

    yield make
    for context in contexts:
        context.close()
