"""What a page says of where it comes from: how to install, cite and correct it."""

import re

import pytest

from book.edition import Edition
from book.page import ROOT, Page
from book.stage import address, foot

TEXT = "You need Python. <!-- wheel -->\n\nAnd a clone. <!-- clone -->\n"
HERE, THERE = "https://example.org/attnref/en/", "https://github.com/owner/attention"
VERSION = address.project()["version"]


PATH = ROOT / "docs" / "en" / "scale" / "entropy.md"
PAGE = Page("scale/entropy.md", PATH, "---\ntitle: Entropy & order\n---\n")


@pytest.fixture
def edition():
    return Edition("en", ROOT)


def test_the_package_is_installed_from_beside_the_page(edition):
    shown = address.stage(TEXT, PAGE, edition)
    name = f"attnref-{VERSION}-py3-none-any.whl"
    assert f'Download <a href="../../../dist/{name}"><code>{name}</code></a>' in shown
    assert f"\n\n```bash\npip install {name}\npip install './{name}[cli]'  # with" in shown
    assert "And a clone. Ask whoever gave you this site for the clone; the package above" in shown
    edition.repo_url = THERE
    shown = address.stage(TEXT, PAGE, edition)
    assert f"And a clone. \n\n```bash\ngit clone {THERE}\ncd attention\n```\n" in shown


def test_the_foot_of_a_page_says_of_what_it_was_built(monkeypatch):
    monkeypatch.setattr(address, "short_commit", lambda: "12345678")
    said = rf"attnref {VERSION} \(12345678\) · MIT · tested with PyTorch 2\.\d+\.\d+"
    assert re.fullmatch(said, address.built_of("en"))


def test_a_page_can_be_cited(edition, monkeypatch):
    monkeypatch.setattr(foot, "commit_date", lambda path: "2026-03-01")
    monkeypatch.setattr(foot, "short_commit", lambda: "12345678")
    edition.site_url = HERE
    assert foot.bibtex(PAGE, edition).split("\n") == [
        "@misc{attnref-scale-entropy,",
        r"  title = {{Entropy \& order}},",
        "  author = {{The attnref authors}},",
        f"  howpublished = {{attnref {VERSION}, 12345678}},",
        "  year = {2026},",
        "  month = {03},",
        "  langid = {english},",
        f"  url = {{{HERE}scale/entropy/}},",
        "}",
    ]
    assert r"title = {{Entropy \&amp; order}}" in foot.stage("", PAGE, edition)
    edition.site_url = ""
    whole = foot.stage("By <!-- citation -->", PAGE, edition)
    assert whole.startswith("By ```bibtex\n@misc{attnref,\n  title = {{attnref: scaled dot-product")
    assert "  year = {2026},\n  month = {11},\n  langid = {english},\n}" in whole
    # Outside of a clone, on a site without an address.
    monkeypatch.setattr(foot, "commit_date", lambda path: "")
    monkeypatch.setattr(foot, "short_commit", lambda: "")
    assert "year" not in foot.bibtex(PAGE, edition)
    assert "url" not in foot.bibtex(PAGE, edition)
    assert f"howpublished = {{attnref {VERSION}}}," in foot.bibtex(PAGE, edition)


@pytest.mark.parametrize(
    ("repository", "link"),
    [
        ("", "../../reference/contributing/"),
        (THERE, f"{THERE}/issues/new?title=en%2Fscale%2Fentropy%2F%3A+"),
        (
            "https://gitlab.com/owner/attention",
            "https://gitlab.com/owner/attention/-/issues/new?title=en%2Fscale%2Fentropy%2F%3A+",
        ),
    ],
)
def test_a_correction_goes_where_it_is_read(edition, repository, link):
    edition.repo_url = repository
    shown = foot.stage("text", PAGE, edition)
    assert shown.startswith('text\n\n<div class="foot"')
    assert f'<a href="{link}">Suggest a correction</a>' in shown
