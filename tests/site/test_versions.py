"""Two versions of the site in a browser: of one page each way, in its language."""

import shutil

import pytest
import versions
from playwright.sync_api import expect
from test_every_page import listen, show, violations

BOTH, LOST, NEW = "scale/entropy/", "scale/saturation/", "scale/scale-factor/"
SHOWN = {"": (BOTH, NEW), "v0.1.0": (BOTH, LOST)}
SHARED = ("assets", "explorers", "fonts", "math", "style")


@pytest.fixture(scope="module")
def place(site, served, tmp_path_factory):
    """A release and what came later, each with some pages of the site, and the site alone."""
    published = tmp_path_factory.mktemp("published")
    for version, pages in SHOWN.items():
        for language in ("pt", "en"):
            here = published / version / language
            here.mkdir(parents=True)
            for name in ("index.html", "manifest.webmanifest"):
                shutil.copy(site / language / name, here)
            for name in (*SHARED, *pages):
                shutil.copytree(site / language / name, here / name)
    versions.stamp(published, "https://example.org/book", {"v0.1.0": True})
    with served(published) as address:
        yield address


def choose(page, version):
    option = page.locator(".md-select", has=page.get_by_role("link", name=version, exact=True))
    option.get_by_role("button").focus()
    option.get_by_role("link", name=version, exact=True).click()


@pytest.mark.parametrize(
    ("language", "latest", "javascript"), [("pt", "atual", True), ("en", "latest", False)]
)
def test_the_selector_keeps_page_and_language(new_page, place, language, latest, javascript):
    page = new_page(java_script_enabled=javascript)
    noise = listen(page, place)
    page.goto(f"{place}/{language}/{BOTH}")
    assert not page.locator(".md-banner").count()
    choose(page, "0.1.0")
    page.wait_for_url(f"{place}/v0.1.0/{language}/{BOTH}")
    expect(page.locator(".md-banner")).to_be_visible()
    choose(page, latest)
    page.wait_for_url(f"{place}/{language}/{BOTH}")
    page.goto(f"{place}/{language}/{NEW}")
    choose(page, "0.1.0")
    page.wait_for_url(f"{place}/v0.1.0/{language}/")
    page.goto(f"{place}/v0.1.0/{language}/{LOST}")
    page.click(".md-banner a")
    page.wait_for_url(f"{place}/{language}/")
    page.wait_for_load_state("networkidle")
    assert noise == []


def test_the_selector_keeps_the_section(new_page, place):
    page = new_page()
    page.goto(f"{place}/en/{BOTH}")
    ident = page.locator("article h2[id]").nth(2).get_attribute("id")
    page.evaluate("id => document.getElementById(id).scrollIntoView()", ident)
    choose(page, "0.1.0")
    page.wait_for_url(f"{place}/v0.1.0/en/{BOTH}#{ident}")


def test_an_old_page_is_accessible_and_fits_a_phone(new_page, place):
    page = new_page()
    page.goto(f"{place}/v0.1.0/pt/{BOTH}")
    for view in ("light-narrow", "dark-narrow"):
        show(page, view)
        banner = page.locator(".md-banner")
        assert banner.evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 153)"
        page.focus(".md-select button")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert violations(page) == []
