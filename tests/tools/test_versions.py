"""Each release beside the newest site, from a repository with pages of a few lines."""

import os
import subprocess
import urllib.parse

import pytest
import versions
from selectolax.lexbor import LexborHTMLParser

PAGE = (
    "<head>{head}</head>"
    '<header class="md-header"><div class="md-header__option"> <div class="md-select"></header>'
    '<a class="offline" href="https://example.org/book/v0.9.0/book/en.pdf">pdf</a>'
)
HERE = "https://example.org/book"
# What it makes of the pages says which address it was told.
MAKE = "site:\n\t@cp -r pages site && cp pyproject.toml site\n"
EARLIER, LATER = "en/lost/index.html", "pt/new/index.html"
KEPT = ("index.html", "404.html", *(f"{each}/kept/index.html" for each in ("pt", "en")))
STARTS = ("pt/index.html", "en/index.html")


@pytest.fixture
def repository(tmp_path):
    """Two releases; then a page has gone, one has come, and the newest site was built."""
    root = tmp_path / "meu livro, é"

    def git(*arguments):
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *arguments], cwd=root, check=True)

    def write(*pages):
        for page in pages:
            path = root / "pages" / page
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(PAGE.format(head='<link rel="canonical" href="x">'), "utf-8")

    write(*KEPT, *STARTS, EARLIER, "robots.txt", "en/sitemap.xml")
    (root / ".gitignore").write_text(".cache/\nsite/\n", "utf-8")
    (root / "Makefile").write_text(MAKE, "utf-8")
    told = f'[project]\nname = "book"\n\n[project.urls]\nDocumentation = "{HERE}/"\n'
    (root / "pyproject.toml").write_text(told, "utf-8")
    git("init", "--quiet", "--initial-branch=main")
    git("add", ".")
    for tag in ("v0.9.0", "v0.10.0", "vision"):  # the last is no release
        git("commit", "--quiet", "--allow-empty", "--message", tag)
        git("tag", tag)
    (root / "pages" / EARLIER).unlink()
    write(LATER)
    git("add", ".")
    git("commit", "--quiet", "--message", "on")
    subprocess.run(["make", "site"], cwd=root, check=True)
    return root


def selected(page, name):
    """Where the selector of a page leads for a version."""
    (link,) = [a for a in page.css("a.md-select__link") if a.text() == name]
    return link.attributes["href"]


def read(path):
    return LexborHTMLParser(path.read_text("utf-8"))


def test_the_book_as_a_file_is_that_of_the_newest(repository):
    page = read(versions.publish(repository) / "v0.9.0" / KEPT[2])
    assert page.css_first("a.offline").attributes["href"] == f"{HERE}/book/en.pdf"


def test_each_release_has_its_place_and_is_told_of_it(repository):
    published = versions.publish(repository)
    assert {path.name for path in published.glob("v*")} == {"v0.9.0", "v0.10.0"}
    for tag in ("v0.9.0", "v0.10.0"):
        told = (published / tag / "pyproject.toml").read_text("utf-8")
        assert told.count("Documentation") == 1
        assert f'Documentation = "{HERE}/{tag}/"' in told
        for name in ("404.html", "robots.txt", "en/sitemap.xml"):
            assert not (published / tag / name).exists()
    assert f'"{HERE}/"' in (published / "pyproject.toml").read_text("utf-8")
    assert (published / "404.html").exists()


def test_the_selector_leads_to_the_page_or_to_the_start_of_its_language(repository):
    published = versions.publish(repository)
    for place in ("", "v0.9.0/", "v0.10.0/"):
        for name in versions.html(published / place):
            path = published / place / name
            if not name.startswith(("pt/", "en/")) or "v0." in name:
                continue
            page, language = read(path), name[:2]
            names = [a.text() for a in page.css("a.md-select__link")]
            assert names == [versions.WORDS[language]["newest"], "0.10.0", "0.9.0"]
            assert len(page.css("a[aria-current]")) == 1
            for other, version in zip(("", "v0.10.0/", "v0.9.0/"), names, strict=True):
                way = urllib.parse.urljoin(f"/{place}{name}", selected(page, version))
                same = (published / other / name).exists()
                assert (
                    way == f"/{other}{name.removesuffix('index.html') if same else f'{language}/'}"
                )


def test_search_engines_list_the_newest(repository):
    published = versions.publish(repository)
    old = published / "v0.9.0"
    kept = read(old / "en/kept/index.html")
    (link,) = kept.css("link[rel=canonical]")
    assert link.attributes["href"] == f"{HERE}/en/kept/"
    assert not kept.css("meta[name=robots]")
    assert read(old / "index.html").css_first("link").attributes["href"] == f"{HERE}/"
    lost = read(old / EARLIER)
    assert lost.css_first("meta[name=robots]").attributes["content"] == "noindex"
    assert not lost.css("link[rel=canonical]")
    assert not read(published / LATER).css("meta[name=robots]")


def test_an_old_page_says_so_and_one_of_the_newest_release_does_not(repository):
    subprocess.run(["git", "tag", "v0.11.0"], cwd=repository, check=True)
    published = versions.publish(repository)
    said = read(published / "v0.9.0/pt/kept/index.html").css_first("aside.md-banner").text()
    assert said.startswith("Esta é uma edição antiga do livro, a da versão 0.9.0. Leia esta")
    lost = read(published / "v0.10.0" / EARLIER).css_first("aside.md-banner")
    assert "This page no longer exists" in lost.text()
    assert lost.css_first("a").attributes["href"] == "../../../en/"
    for current in ("", "v0.11.0"):
        assert not read(published / current / "pt/kept/index.html").css("aside")


@pytest.mark.parametrize("reason", ["no release", "no address"])
def test_one_version_is_left_as_it_is(repository, reason):
    if reason == "no address":
        (repository / "pyproject.toml").write_text("[project]\n", "utf-8")
    else:
        subprocess.run(["git", "tag", "--delete", "v0.9.0", "v0.10.0"], cwd=repository, check=True)
    published = versions.publish(repository)
    for path in (repository / "site").rglob("*.html"):
        there = published / path.relative_to(repository / "site")
        assert there.read_bytes() == path.read_bytes()
    assert not list(published.glob("v*"))


def test_a_release_is_built_once(repository, capsys):
    versions.publish(repository)
    assert capsys.readouterr().out.count("building the site of v0.") == 2
    first = contents(repository)
    versions.publish(repository)
    assert "building" not in capsys.readouterr().out
    assert contents(repository) == first


def contents(root):
    published = root / ".cache/published"
    return {path: path.read_bytes() for path in published.rglob("*") if path.is_file()}


def test_a_release_that_is_not_built_stops_the_publishing(repository):
    os.remove(repository / "Makefile")
    subprocess.run(["git", "rm", "-q", "--cached", "Makefile"], cwd=repository, check=True)
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, "commit", "-qm", "x"], cwd=repository, check=True)
    subprocess.run(["git", "tag", "v0.12.0"], cwd=repository, check=True)
    with pytest.raises(SystemExit, match=r"the site of v0\.12\.0 was not built; the lines above"):
        versions.publish(repository)


def test_a_clone_that_may_lack_tags_is_refused(repository, tmp_path):
    shallow = tmp_path / "shallow"
    command = ["git", "clone", "--quiet", "--depth=1", repository.as_uri(), str(shallow)]
    subprocess.run(command, check=True)
    subprocess.run(["make", "site"], cwd=shallow, check=True)
    with pytest.raises(SystemExit, match="git fetch --unshallow --tags"):
        versions.publish(shallow)


def test_a_header_that_has_changed_is_named(repository):
    page = repository / "site/en/kept/index.html"
    page.write_text("<head></head><body>", "utf-8")
    with pytest.raises(
        SystemExit, match=r"versions\.py: en/kept/index\.html: the theme's header has changed"
    ):
        versions.publish(repository)
