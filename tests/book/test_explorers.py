"""What is wrong with an explorer stops the build, and its message says where."""

import json
import shutil

import pytest

from book.edition import Edition
from book.page import ROOT, BookError
from book.stage import explorers

STATE = {"state": {"length": 3}, "values": {"half": 1.5}, "drawing": {}}
SHOWN = json.dumps({"program": True, "en": STATE, "pt": STATE})
PICTURE = '<svg></svg><p>{{ texts["name"] }} {{ values|shown("half", 1) }}</p>'
TEXTS = "title: {en: A title, pt: Um título}\nname: {en: Half, pt: Metade}\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "half").mkdir()
    for name in ("frame.html", "texts.yml"):
        shutil.copy(explorers.FOLDER / name, tmp_path)
    write(tmp_path)
    return tmp_path


def write(folder, shown=SHOWN, picture=PICTURE, texts=TEXTS):
    for name, text in (("shown.json", shown), ("picture.html", picture), ("texts.yml", texts)):
        (folder / "half" / name).write_text(text, encoding="utf-8")


def test_an_explorer_stands_without_javascript(folder):
    html = explorers.explorer("half", "pt", folder=folder)
    number = '<span data-name="half" data-value="1.5" data-digits="1">1.5</span>'
    assert f"<p>Metade {number}</p>" in html
    assert 'aria-label="Um título"' in html
    assert 'data-state="{&quot;length&quot;: 3}"' in html
    assert "Mostre o programa" in html
    assert "explorer-whole" not in html
    small = explorers.explorer("half", "pt", "../../explore/half/", folder)
    assert " data-small " in small
    assert '<details class="explorer-program"' not in small
    assert '<a class="explorer-whole" href="../../explore/half/">Abrir o explorador' in small


def test_what_is_not_there_is_told(folder):
    for part, text, problem in (
        ("texts", TEXTS.replace(", pt: Metade", ""), "name: expected a text in en and in pt"),
        ("picture", "{{ texts['nothing'] }}", "picture.html: 'dict object' has no attribute"),
        ("picture", '{{ values|shown("all") }}', "no number 'all' in values.py; there are half"),
    ):
        write(folder, **{part: text})
        with pytest.raises(BookError, match=problem):
            explorers.explorer("half", "en", folder=folder)


def test_an_explorer_that_is_not_there_is_told(folder):
    (folder / "half" / "shown.json").unlink()
    with pytest.raises(BookError, match=r"shown\.json: it is missing: run make record"):
        explorers.explorer("half", "en", folder=folder)
    with pytest.raises(BookError, match="no explorer 'third' in docs/explorers; there are half"):
        explorers.explorer("third", "en", folder=folder)


def test_a_small_explorer_leads_to_the_page_of_the_whole_one():
    edition = Edition("en", ROOT)
    for uri, address in (
        ("index.md", "explore/attention/"),
        ("foundations/six-words.md", "../../explore/attention/"),
    ):
        page = edition.pages[uri]
        staged = explorers.stage("<!-- explorer: attention small -->", page, edition)
        assert f'class="explorer-whole" href="{address}"' in staged
    with pytest.raises(BookError, match="no page has the whole of it: expected one with"):
        explorers.whole_address("fourth", page, edition)
