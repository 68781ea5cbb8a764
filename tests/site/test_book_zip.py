"""The book as a zip: what is unpacked opens from a disk."""

import shutil
import zipfile

import pytest

from book.make import disk


@pytest.fixture(scope="module", params=["pt", pytest.param("en", marks=pytest.mark.audit)])
def pages(request, site, tmp_path_factory):
    return disk.copy_for_disk(site, request.param, tmp_path_factory.mktemp("disk"))


def test_a_folder_needs_no_server(pages, browser):
    disk.verify(pages, browser)
    # No folder stands for its index.html, and no page asks for what a disk does not give.
    assert 'href="../mask-traps/index.html"' in (pages / "foundations/masks/index.html").read_text(
        "utf-8"
    )


def test_formulas_letters_and_buttons_are_there(pages, new_page):
    page = new_page()
    page.goto((pages / "foundations/dropout/index.html").as_uri())
    loaded = page.evaluate(
        "document.fonts.ready.then(all => [...all].filter(one => one.status === 'loaded')"
        ".map(one => one.family))"
    )
    assert {"attnref Sans", "attnref Mono", "KaTeX_Main", "KaTeX_Math"} <= set(loaded)
    assert page.locator(".katex").first.bounding_box()["width"] > 0
    page.locator(".md-code__button").first.click()
    page.locator(".md-dialog").get_by_text("Copi").wait_for()
    assert not page.locator(".md-select, .take button").count()
    page.locator("a.claim-test").first.click()
    page.wait_for_url("file://**/reference/claims/foundations/index.html#*")


def test_an_explorer_is_the_figure_that_it_is_without_javascript(pages, new_page):
    page = new_page()
    page.goto((pages / "foundations/six-words/index.html").as_uri())
    explorer = page.locator(".explorer")
    assert explorer.locator("svg").first.is_visible()
    assert explorer.locator(".explorer-still").is_visible()
    assert not [one for one in explorer.locator("button, [name]").all() if one.is_visible()]


def test_the_pages_are_those_of_the_site(pages, site):
    def listed(folder):
        return {path.relative_to(folder) for path in folder.rglob("*.html")}

    assert listed(pages) == listed(site / pages.name)
    (wheel,) = (pages.parent / "dist").iterdir()
    assert wheel.read_bytes() == (site / "dist" / wheel.name).read_bytes()


def test_a_page_names_files_and_leaves_out_what_only_a_server_gives(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    page = tmp_path / "here" / "index.html"
    page.write_text(
        '<head><link rel="preload" href="a.woff2">'
        '<link rel="alternate " hreflang="pt" href="../../pt">'
        '</head><div class="md-header__option"><div class="md-select">pt</div></div>'
        '<form action="../there/"></form><ul class="books"><li><a href="book.pdf">a</a></ul>'
        '<a href="../there/?q=1#x">1</a><a href=".">2</a><a href="#x">3</a><a href="a.py">4</a>',
        "utf-8",
    )
    html = disk.rewrite_links(page, tmp_path)
    for left_out in ("preload", "hreflang", "md-select", "book.pdf"):
        assert left_out not in html
    assert '<head><script src="../style/worker.js"></script></head>' in html
    assert '<form action="../there/index.html">' in html
    links = ["../there/index.html?q=1#x", "./index.html", "#x", "a.py"]
    assert [f'<a href="{link}">' in html for link in links] == [True] * 4


def test_a_link_that_leads_nowhere_is_told(tmp_path):
    folder = tmp_path / "folder"
    (folder / "en").mkdir(parents=True)
    (tmp_path / "outside.html").touch()
    right = ["b.html", "b.html#there", "#here", "https://example.org/"]
    wrong = ["b.html#nowhere", "#nowhere", "c.html", "../en", "../../outside.html"]
    links = "".join(f'<a href="{link}">' for link in right + wrong)
    (folder / "en/a.html").write_text(f'<p id="here">{links}', "utf-8")
    (folder / "en/b.html").write_text('<p id="there">', "utf-8")
    assert sorted(disk.broken_links(folder)) == sorted(f"en/a.html: {link}" for link in wrong)


def test_what_a_browser_complains_of_is_told(site, tmp_path, browser, monkeypatch):
    pages = disk.copy_for_disk(site, "en", tmp_path)
    (pages / "style" / "search-words.js").unlink()
    monkeypatch.setattr(disk, "PATIENCE", 1000)
    with pytest.raises(ValueError, match="en, opened from a disk:\n") as raised:
        disk.verify(pages, browser)
    assert f"{(pages / 'style' / 'search-words.js').as_uri()} failed" in str(raised.value)
    assert "the search finds nothing for 'query'" in str(raised.value)
    shutil.rmtree(pages / "variants")
    with pytest.raises(ValueError, match="en: links to nothing:\nen/") as raised:
        disk.verify(pages, browser)
    assert "\nen/index.html: variants/index.html\n" in str(raised.value)


def test_a_zip_depends_on_names_and_contents_alone(tmp_path):
    packed = []
    for name, order in (("one", "ab"), ("two", "ba")):
        folder = tmp_path / name
        (folder / "in").mkdir(parents=True)
        for letter in order:
            (folder / "in" / letter).write_text(letter, "utf-8")
        (folder / "in" / "a").chmod(0o600)
        packed.append(tmp_path / f"{name}.zip")
        disk.pack(folder, packed[-1], 1_700_000_000)
    assert packed[0].read_bytes() == packed[1].read_bytes()
    with zipfile.ZipFile(packed[0]) as archive:
        assert archive.namelist() == ["in/a", "in/b"]
        assert archive.read("in/b") == b"b"
        assert archive.infolist()[0].date_time == (2023, 11, 14, 22, 13, 20)
