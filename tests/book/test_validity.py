"""What is told of the Nu HTML checker's messages, as its version 26.9.27 wrote them."""

import pytest

from book.make import validity

BOX = {
    "type": "error",
    "url": (validity.ROOT / "site").as_uri() + "/./en/index.html",
    "lastLine": 130,
    "message": "Attribute “autocomplete” is only allowed when the input type is “color”, “date”.",
    "extract": '\n    <input class="md-toggle" data-md-toggle="drawer" type="checkbox" '
    'id="__drawer" autocomplete="off">\n    <',
}
ROOM = BOX | {
    "message": "Bad value “” for attribute “tabindex” on element “label”: The empty string is not "
    "a valid integer.",
    "extract": '  <label class="md-nav__link" for="__nav_2" id="__nav_2_label" tabindex="">\n',
}
SIGN = BOX | {
    "type": "info",
    "subType": "warning",
    "message": "Document uses the Unicode Private Use Area(s), which should not be used in "
    "publicly exchanged documents. (Charmod C073)",
    "extract": 'ss="mrel">\ue020</span',
}
LANGUAGE = SIGN | {
    "message": "This document appears to be written in English but the “html” start tag has "
    '“lang="pt-BR"”. Consider using “lang="en"” (or variant) instead.',
    "extract": 'type html> <html lang="pt-BR" class="no-js"> <head',
}
THEIRS = [BOX, ROOM, SIGN, LANGUAGE]


def test_what_others_write_is_not_listed():
    assert validity.verdict(THEIRS * 3) == []


def test_everything_else_is_listed_with_page_and_line():
    ours = BOX | {"message": "Unclosed element “b”.", "extract": "<p><b>\n ação</"}
    assert validity.verdict([*THEIRS, ours]) == [
        "site/en/index.html:130: Unclosed element “b”. … <p><b> ação</"
    ]


def test_the_same_mistake_of_ours_is_listed():
    for theirs, extract in (
        (BOX, '<input type="checkbox" autocomplete="off">'),
        (ROOM, '<label for="x" tabindex="">'),
        (SIGN, "<p>\ue020</p>"),
        (LANGUAGE, '<html lang="en">'),
    ):
        assert len(validity.verdict([*THEIRS, theirs | {"extract": extract}])) == 1
    other = BOX | {"message": "Attribute “autocomplete” not allowed here."}
    assert len(validity.verdict([*THEIRS, other])) == 1


def test_an_excuse_that_nothing_needs_is_listed_and_so_is_a_checker_that_read_nothing():
    (line,) = validity.verdict([BOX, SIGN, LANGUAGE])
    assert line.startswith("nothing is said of the theme's closed rooms")
    assert len(validity.verdict([])) == 4


def test_without_java_it_is_said_what_is_missing(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as stopped:
        validity.check(tmp_path)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == (
        "attnref: Java is missing: apt install default-jre-headless\n"
    )
