"""Which language is spoken, and that each has every sentence."""

import pickle
import string

import pytest

from attnref import text
from attnref.conformance.project import NOT_READ
from attnref.conformance.subject import CheckError
from attnref.exercises.command import COUNT, NEXT
from attnref.text import Text, preferred_language
from book.make import sentences
from tests.variants.every import every


@every(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "pt_BR.UTF-8"}, "pt"),
        ({"LANG": "pt-PT"}, "pt"),
        ({"LANG": "pt"}, "pt"),
        ({"LANG": "PT.UTF-8"}, "pt"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LC_MESSAGES": "en_US.UTF-8", "LANG": "pt_BR.UTF-8"}, "en"),
        ({"LC_ALL": "pt_BR", "LC_MESSAGES": "en_US"}, "pt"),
        ({"LC_ALL": "", "LANG": "pt_BR"}, "pt"),
    ],
)
def test_the_first_variable_that_says_anything_decides(environment, language):
    assert preferred_language(environment) == language


def test_a_refusal_keeps_its_languages_on_its_way_from_another_process():
    said = CheckError(NOT_READ, place="a.toml", error=CheckError(COUNT, solved=1, all=[2]))
    refusal = pickle.loads(pickle.dumps(said))
    assert isinstance(refusal, CheckError)
    assert refusal.text == said.text
    assert str(refusal).endswith("TOML file: 1 of [2] solved.. Fix that first.")
    assert "TOML válido: 1 de [2] resolvidos.. Conserte" in refusal.say("pt")


def test_texts_are_joined_in_each_language():
    texts = [NEXT.fill({"command": "{a}"}), COUNT.fill({"solved": 1, "all": 2})]
    joined = Text.join("; ", texts)
    assert str(joined) == "Next: {a}; 1 of 2 solved."
    assert joined.say("pt") == "Próximo: {a}; 1 de 2 resolvidos."
    with pytest.raises(ValueError, match=r"lang: expected one of en, pt, got 'fr'\."):
        joined.say("fr")


def test_what_is_not_compiled_is_english_and_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(text, "LOCALE", tmp_path)
    monkeypatch.setattr(text, "_catalogue", text._catalogue.__wrapped__)
    with pytest.warns(UserWarning, match=r"pt is not compiled; this is English\. Run make sent"):
        assert Text("Next: {command}").say("pt", {"command": "a"}) == "Next: a"


def places(sentence):
    """Those that are filled, each with the way in which it is shown."""
    return {place[1:] for place in string.Formatter().parse(sentence) if place[1]}


def test_each_language_has_every_sentence_with_its_places():
    said = sentences.said()
    assert len(said) > 600
    for path in sentences.catalogues():
        catalogue = sentences.read(path)
        odd = {each.id for each in catalogue} ^ {each.id for each in said}
        assert not odd | catalogue.obsolete.keys(), f"{path}: run make sentences"
        for each in catalogue:
            assert not each.fuzzy, f"{path}: correct {each.id!r}, and remove the mark fuzzy"
            assert list(each.check(catalogue)) == []
            if each.id and path.parts[-3] != "en":
                assert each.string, f"{path}: translate {each.id!r}"
                assert places(each.string) == places(each.id), each.id


SAYS = '''
from attnref.text import Refusal, Text, translate_help
class BadError(Refusal): """What Text("not a call") is."""
ONE, NONE = Text("One {name}."), Text("")
def fail(name): raise BadError("Two " "{name}.", name=Text("three"))
@translate_help
def command():
    """Four.

    Five.
    """
'''
CATALOGUE = """# Mine.
msgid ""
msgstr "Language: pt\\n"

msgid "Two {names}."
msgstr "Dois {names}."

msgid "Nothing like it"
msgstr "Nada"
"""


def test_a_catalogue_follows_what_is_said(tmp_path):
    module, path = tmp_path / "attnref" / "a.py", tmp_path / "attnref.po"
    module.parent.mkdir()
    module.write_text(SAYS, encoding="utf-8")
    said = sentences.said(tmp_path)
    assert [each.id for each in said][1:] == [
        "One {name}.",
        "Two {name}.",
        "three",
        "Four.\n\nFive.",
    ]

    path.write_text(CATALOGUE, encoding="utf-8")
    path.write_bytes(sentences.update(path, said))
    catalogue = sentences.read(path)
    assert path.read_text(encoding="utf-8").startswith(
        '# Mine.\nmsgid ""\nmsgstr "Language: pt\\n"\n\n'
    )
    assert (catalogue["Two {name}."].string, catalogue["Two {name}."].fuzzy) == (
        "Dois {names}.",
        True,
    )
    assert catalogue["One {name}."].locations == [("attnref/a.py", None)]
    assert not catalogue.obsolete

    for sentence in ('f"a {name}"', '"a" + name'):
        module.write_text(f"\nText({sentence})\n", encoding="utf-8")
        with pytest.raises(SyntaxError, match=r"write the sentence with \{places\}") as error:
            sentences.said(tmp_path)
        assert (error.value.filename, error.value.lineno) == (str(module), 2)
