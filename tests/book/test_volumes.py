"""The command that makes the book: what it leaves behind, and what it says."""

import sys

import pytest

from book.make import volumes


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command, with a maker of its own; tells what was built before."""
    built = []
    monkeypatch.setattr(volumes.chromium, "PATH", "chromium")
    monkeypatch.setattr(volumes.serve, "is_current", lambda: bool(built))
    monkeypatch.setattr(volumes.serve, "build", built.append)
    monkeypatch.setattr(volumes.serve, "offer", lambda site: print(f"{site} offers them"))

    def run(make):
        monkeypatch.setattr(volumes, "make", make)
        monkeypatch.setattr(sys, "argv", ["book.py", "--folder", str(tmp_path / "book")])
        volumes.main()
        return built

    return run


def test_the_files_are_put_into_the_folder(run, tmp_path, capsys):
    def make(site, folder, written):
        path = folder / "attnref-en.zip"
        path.write_bytes(bytes(1_200_000))
        return [path]

    assert run(make) == [volumes.serve.SITE]
    assert run(make) == [volumes.serve.SITE]  # which is current by now
    assert [path.name for path in (tmp_path / "book").iterdir()] == ["attnref-en.zip"]
    said = capsys.readouterr().out
    assert f"attnref: {tmp_path / 'book' / 'attnref-en.zip'} (1.2 MB)\n" in said
    assert f"{volumes.serve.SITE} offers them" in said


def test_nothing_is_left_when_something_is_wrong(run, tmp_path):
    def make(site, folder, written):
        raise ValueError("en, on paper: cut at the margin: a")

    with pytest.raises(SystemExit, match="attnref: en, on paper: cut at the margin: a"):
        run(make)
    assert not (tmp_path / "book").exists()


def test_the_site_offers_the_books_that_there_are(tmp_path, monkeypatch):
    monkeypatch.setattr(volumes.serve, "ROOT", tmp_path)
    (tmp_path / "site" / "dist").mkdir(parents=True)
    pages = {}
    for language in ("pt", "en"):
        pages[language] = tmp_path / "site" / language / "reference/download/index.html"
        pages[language].parent.mkdir(parents=True)
        pages[language].write_text('<p>a</p><ul class="books" hidden></ul><p>b</p>', "utf-8")
    without = '<p>a</p><ul class="books" hidden></ul><p>b</p>'
    volumes.serve.offer(tmp_path / "site")
    assert [page.read_text("utf-8") for page in pages.values()] == [without] * 2
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "attnref-en.pdf").write_bytes(bytes(2_340_000))
    for _ in range(2):
        volumes.serve.offer(tmp_path / "site")
        assert pages["pt"].read_text("utf-8") == without
        link = '<a href="../../../dist/attnref-en.pdf" download>attnref-en.pdf</a>'
        assert f'<ul class="books"><li>{link} (2.3 MB)</li></ul>' in pages["en"].read_text("utf-8")
    assert (tmp_path / "site" / "dist" / "attnref-en.pdf").stat().st_size == 2_340_000


def test_without_a_chromium_it_says_how_to_get_one(run, monkeypatch):
    monkeypatch.setattr(volumes.chromium, "PATH", None)
    with pytest.raises(SystemExit, match="attnref: no Chromium found: install one"):
        run(None)


def test_the_time_is_that_of_the_commit_or_the_one_that_is_told(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    monkeypatch.setattr(volumes.serve, "commit_time", lambda: {"SOURCE_DATE_EPOCH": "7"})
    assert volumes.seconds() == 7
    monkeypatch.setattr(volumes.serve, "commit_time", dict)
    assert volumes.seconds() == 315532800
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "9")
    assert volumes.seconds() == 9
