"""With the addresses of a pyproject.toml pages are complete, and without them correct."""

from types import SimpleNamespace

import address
import pytest
from mkdocs.exceptions import PluginError

HERE = "https://example.org/attnref"
THERE = "https://github.com/owner/attention"
BOTH = f'[project.urls]\nDocumentation = "{HERE}"\nRepository = "{THERE}/"\n'
PAGE = "You need Python. <!-- wheel -->\n\nAnd a clone. <!-- clone -->\n\nA book. <!-- book -->\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Writes a pyproject.toml with these addresses."""

    def write(urls):
        path = tmp_path / "pyproject.toml"
        told = '[project]\nname = "attnref"\nversion = "1.2"\nlicense = "MIT"\n'
        path.write_text(told + urls, encoding="utf-8")
        monkeypatch.setattr(address, "PROJECT", path)

    return write


@pytest.fixture
def config():
    return SimpleNamespace(
        docs_dir="docs/en",
        site_name="attnref",
        site_description="A book.",
        site_url="",
        repo_url="",
        theme={"features": []},
    )


@pytest.fixture
def page():
    return SimpleNamespace(
        url="scale/entropy/",
        title='Of "entropy"',
        meta={"description": "What & why."},
        canonical_url=f"{HERE}/en/scale/entropy/",
    )


def test_without_them_nothing_is_said_of_them(project, config, page):
    project("")
    address.on_config(config)
    assert (config.site_url, config.repo_url, config.theme) == ("", "", {"features": []})
    head = '<head><link rel="alternate " hreflang="pt" href="../pt/"></head>'
    assert address.on_post_page(head, page, config) == head
    shown = address.on_page_markdown(PAGE, page, config, None)
    name = "attnref-1.2-py3-none-any.whl"
    assert f'Download <a href="../../../dist/{name}"><code>{name}</code></a>' in shown
    assert f"\n\n```bash\npip install {name}\npip install './{name}[cli]'  # with" in shown
    # What works without an address, and nothing for who publishes the site.
    assert "And a clone. Ask whoever gave you this site for the clone; the package above" in shown
    assert "pyproject.toml" not in shown
    assert shown.endswith("A book. \n")


def test_with_them_a_page_has_its_place_on_the_web(project, config, page):
    project(BOTH)
    address.on_config(config)
    assert config.site_url == f"{HERE}/en/"
    assert config.repo_url == THERE
    assert config.edit_uri == "edit/main/docs/en/"
    assert "content.action.edit" in config.theme["features"]
    head = '<head><link rel="alternate " hreflang="pt" href="../pt/"></head>'
    head = address.on_post_page(head, page, config)
    assert "../pt/" not in head
    for tag, language in (("pt", "pt"), ("en", "en"), ("x-default", "en")):
        assert f'hreflang="{tag}" href="{HERE}/{language}/scale/entropy/">' in head
    assert '<meta property="og:title" content="Of &quot;entropy&quot;">' in head
    assert '<meta property="og:description" content="What &amp; why.">' in head
    assert f'<meta property="og:url" content="{HERE}/en/scale/entropy/">' in head


def test_with_them_one_installs_and_clones_from_there(project, config, page):
    project(BOTH)
    shown = address.on_page_markdown(PAGE, page, config, None)
    wheel = f"{HERE}/dist/attnref-1.2-py3-none-any.whl"
    assert f"\npip install {wheel}\npip install 'attnref[cli] @ {wheel}'  # with" in shown
    assert f"And a clone. \n\n```bash\ngit clone {THERE}\ncd attention\n```\n" in shown
    pdf, folder = f'<a href="{HERE}/book/attnref-en.pdf">pdf</a>', f'<a href="{HERE}/book/'
    assert shown.endswith(f'Download: {pdf}, {folder}attnref-en.zip">zip</a>.\n')


def test_the_foot_of_a_page_says_of_what_it_was_built(project, config, monkeypatch):
    project(BOTH)
    address.on_config(config)
    assert config.copyright.startswith("attnref 1.2 (<a href")
    assert f'"{THERE}/commit/' in config.copyright
    assert " · MIT · tested with PyTorch " in config.copyright
    for kind in ("pdf", "zip"):
        assert f'<a href="{HERE}/book/attnref-en.{kind}">{kind}</a>' in config.copyright
    monkeypatch.setattr(address, "ROOT", address.PROJECT.parent)  # no clone
    address.on_config(config)
    assert config.copyright.startswith("attnref 1.2 · MIT")
    project("")
    address.on_config(config)
    assert "offline" not in config.copyright


def test_an_address_on_gitlab_is_edited_in_its_way(project, config):
    project('[project.urls]\nRepository = "https://gitlab.com/owner/attnref"\n')
    address.on_config(config)
    assert config.edit_uri == "-/edit/main/docs/en/"


def test_what_is_no_address_stops_the_build(project, config):
    project('[project.urls]\nDocumentation = "example.org"\n')
    with pytest.raises(PluginError, match=r"project.urls.Documentation: .* got 'example.org'"):
        address.on_config(config)
