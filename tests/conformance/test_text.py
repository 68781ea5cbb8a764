"""Which language is spoken."""

import pytest

from attnref.conformance.text import preferred


@pytest.mark.parametrize(
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
    assert preferred(environment) == language
