"""How long a page takes to read, and when it was changed."""

import subprocess

import pytest

from book.edition import Edition
from book.page import Page
from book.stage import reading

PAGE = "---\ntitle: not read\n---\n\n# One {#top}\n\n" + "word " * 300


@pytest.fixture(autouse=True)
def no_dates_are_remembered():
    reading.dates.cache_clear()
    yield
    reading.dates.cache_clear()


def test_words_are_counted_and_code_and_formulas_are_not():
    assert reading.minutes(PAGE) == 2
    assert reading.minutes(PAGE + "\n```python\n" + "word " * 900 + "\n```\n") == 2
    assert reading.minutes(PAGE + "$" + r"\word " * 900 + "$") == 2
    assert reading.minutes("") == 1


def test_a_page_says_when_it_was_committed_last(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROOT", tmp_path)
    path = tmp_path / "docs/en/scale/one.md"
    path.parent.mkdir(parents=True)
    path.write_text(PAGE, encoding="utf-8")
    page, edition = Page("scale/one.md", path, PAGE), Edition("en", tmp_path)
    assert "\n\n2 min read\n{: .reading" in reading.stage(PAGE, page, edition)
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "-C", str(tmp_path)]
    when = {"GIT_COMMITTER_DATE": "2026-03-01T12:00:00Z", "PATH": "/usr/bin:/bin"}
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True, env=when)
    reading.dates.cache_clear()
    shown = reading.stage(PAGE, page, edition)
    assert "# One {#top}\n\n2 min read · changed on 2026-03-01\n{: .reading " in shown
    assert reading.stage(PAGE, Page("reference/one.md", path, PAGE), edition) == PAGE
