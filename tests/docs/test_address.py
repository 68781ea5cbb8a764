"""What a page says of where it comes from: how to install, cite and correct it."""

import re
from types import SimpleNamespace

import pytest

from book import page as pages
from book.stage import address, foot

PAGE = "You need Python. <!-- wheel -->\n\nAnd a clone. <!-- clone -->\n"
HERE, THERE = "https://example.org/attnref/en/", "https://github.com/owner/attention"
VERSION = address.project()["version"]


@pytest.fixture
def config():
    return SimpleNamespace(docs_dir="docs/en", site_url="", repo_url="")


@pytest.fixture
def page():
    path = pages.ROOT / "docs" / "en" / "scale" / "entropy.md"
    return SimpleNamespace(
        url="scale/entropy/",
        title="Entropy & order",
        meta={"title": "Entropy & order"},
        canonical_url=f"{HERE}scale/entropy/",
        file=SimpleNamespace(abs_src_path=str(path)),
    )


def test_the_package_is_installed_from_beside_the_page(config, page):
    shown = address.on_page_markdown(PAGE, page, config, None)
    name = f"attnref-{VERSION}-py3-none-any.whl"
    assert f'Download <a href="../../../dist/{name}"><code>{name}</code></a>' in shown
    assert f"\n\n```bash\npip install {name}\npip install './{name}[cli]'  # with" in shown
    assert "And a clone. Ask whoever gave you this site for the clone; the package above" in shown
    config.repo_url = THERE
    shown = address.on_page_markdown(PAGE, page, config, None)
    assert f"And a clone. \n\n```bash\ngit clone {THERE}\ncd attention\n```\n" in shown


def test_the_foot_of_a_page_says_of_what_it_was_built(config, monkeypatch):
    monkeypatch.setattr(address, "short_commit", lambda: "12345678")
    address.on_config(config)
    said = rf"attnref {VERSION} \(12345678\) · MIT · tested with PyTorch 2\.\d+\.\d+"
    assert re.fullmatch(said, config.copyright)


def test_a_page_can_be_cited(config, page, monkeypatch):
    monkeypatch.setattr(foot, "commit_date", lambda path: "2026-03-01")
    monkeypatch.setattr(foot, "short_commit", lambda: "12345678")
    assert foot.bibtex(page, config).split("\n") == [
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
    assert r"title = {{Entropy \&amp; order}}" in foot.on_page_content("", page, config, None)
    whole = foot.on_page_markdown("By <!-- citation -->", page, config, None)
    assert whole.startswith("By ```bibtex\n@misc{attnref,\n  title = {{attnref: scaled dot-product")
    assert "  year = {2026},\n  month = {11},\n  langid = {english},\n}" in whole
    # Outside of a clone, on a site without an address.
    monkeypatch.setattr(foot, "commit_date", lambda path: "")
    monkeypatch.setattr(foot, "short_commit", lambda: "")
    page.canonical_url = None
    assert "year" not in foot.bibtex(page, config)
    assert "url" not in foot.bibtex(page, config)
    assert f"howpublished = {{attnref {VERSION}}}," in foot.bibtex(page, config)


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
def test_a_correction_goes_where_it_is_read(config, page, repository, link):
    config.repo_url = repository
    shown = foot.on_page_content("<p>text</p>", page, config, None)
    assert shown.startswith('<p>text</p><div class="foot"')
    assert f'<a href="{link}">Suggest a correction</a>' in shown
