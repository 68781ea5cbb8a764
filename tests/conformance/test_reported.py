"""Bugs that were reported in public: the wrong version fails, named, and the right one passes."""

import pytest

from attnref.conformance.checker import find_subject, judge
from attnref.conformance.settings import Settings
from tests.conformance.reported import CASES


def ask(case, kind, only=None):
    said = {"step": case.asked == "step", "only": only, "limit": None, **case.options}
    if "cache" in said:
        said["cache"] = case.find(said["cache"])
    if "against" in said:
        said["against"] = case.load(said["against"])
    settings = Settings(**said)
    return judge(find_subject(case.load(kind), settings), settings)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.place)
def test_the_wrong_one_fails_and_the_right_one_passes(case):
    strict = case.options.get("strict", False)
    report = ask(case, "bad", [case.rule])
    assert not report.passed(strict), report.text()
    assert case.mentions in report.results[0].diagnosis()
    assert ask(case, "good", [case.rule]).passed(strict)
    right = ask(case, "good")
    assert right.passed(), right.text()
