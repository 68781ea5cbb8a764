"""Which language is spoken."""

import pickle

from attnref.conformance.subject import CheckError
from attnref.text import LANGUAGES, Text, preferred_language
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


def test_a_refusal_keeps_both_languages_on_its_way_from_another_process():
    refusal = pickle.loads(pickle.dumps(CheckError(en="function: no.", pt="function: não.")))
    assert isinstance(refusal, CheckError)
    assert [refusal.say(lang) for lang in LANGUAGES] == ["function: no.", "function: não."]
    assert str(refusal) == "function: no."


def test_a_text_can_be_filled_with_what_has_two_languages_itself():
    refusal = CheckError(en="no", pt="não")
    filled = Text(en="{place}: {said}", pt="{place}: {said}").fill({"place": 1, "said": refusal})
    assert filled == Text(en="1: no", pt="1: não")
