"""A learner's file: whatever is in it, the answer is plain and comes in time."""

import time

import pytest

from attnref.conformance.isolation import Unusable
from attnref.conformance.verdict import Finding, Verdict
from attnref.exercises import findings, judging
from attnref.exercises.exercise import all_exercises
from attnref.exercises.judging import FILE, Outcome, judge

COURSE = {exercise.name: exercise for exercise in all_exercises()}
HEAD = "import torch\n\n\ndef dot_scores(query, key):\n    "


def outcomes(folder, body, name="dot_scores", limit=60.0):
    path = folder / f"{name}.py"
    path.write_text(body, encoding="utf-8")
    return list(judge(COURSE[name], path, limit))


def only(folder, body, limit=60.0):
    """What is said of a file that cannot be judged."""
    (outcome,) = outcomes(folder, body, limit=limit)
    assert outcome.name == FILE
    assert not outcome.passed
    return said(outcome.finding)


def said(finding, language="en"):
    return finding.text.say(language, finding.values)


def test_a_right_file_passes_everything(tmp_path):
    names = ["file", "one_score_a_key", "sign", "length"]
    assert outcomes(tmp_path, HEAD + "return key @ query\n") == [
        Outcome(name, None) for name in names
    ]


def test_nothing_is_written_beside_the_file(tmp_path):
    (tmp_path / "mine.py").write_text("SIGN = 1\n", encoding="utf-8")
    found = outcomes(tmp_path, "from mine import SIGN\n" + HEAD + "return SIGN * (key @ query)\n")
    assert all(outcome.passed for outcome in found)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dot_scores.py", "mine.py"]


CANNOT = [
    ("def dot_scores(query, key)\n", "The file is not valid Python: expected ':', in line 1:"),
    ("import torhc\n", "The file raised ModuleNotFoundError: No module named 'torhc' when it"),
    ("\nraise SystemExit(3)\n", "The file raised SystemExit: 3 when it was loaded, in line 2:"),
    ("def dot_score(q, k): pass\n", "The file has no function dot_scores. It has: dot_score."),
    ("dot_scores = 3\n", "The file has no function dot_scores. It has: –."),
    (
        "def dot_scores(query): pass\n",
        "The signature must be dot_scores(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor, "
        "but is dot_scores(query). Leave the parameters as they were.",
    ),
    ("import os\nos._exit(3)\n", "It ended its process: exit status 3."),
]


def test_a_file_that_cannot_be_judged_says_why(tmp_path):
    said = [only(tmp_path, body)[: len(start)] for body, start in CANNOT]
    assert said == [start for _, start in CANNOT]


def test_a_file_that_cannot_be_read_says_so(tmp_path):
    (outcome,) = judge(COURSE["dot_scores"], tmp_path)
    assert said(outcome.finding).startswith("The file could not be read: IsADirectoryError: ")


def test_a_file_that_never_ends_is_stopped(tmp_path):
    before = time.monotonic()
    answer = only(tmp_path, "while True: pass\n", limit=0.5)
    assert answer == "It did not return within 0.5 s, and was stopped."
    assert time.monotonic() - before < 10


@pytest.mark.claim("endless-solutions-are-stopped")
def test_a_function_that_never_ends_is_stopped_and_asked_no_more(tmp_path):
    body = HEAD + "while (key == key[0]).all() or key.min() < 0: pass\n    return key @ query\n"
    found = outcomes(tmp_path, body, limit=1.0)
    assert [(outcome.name, outcome.passed) for outcome in found] == [
        ("file", True),
        ("one_score_a_key", True),
        ("sign", False),
    ]
    assert said(found[-1].finding, "pt") == "Ela não terminou em 1 s, e foi interrompida."


@pytest.mark.claim("crashing-solutions-fail-one-rule")
def test_a_function_that_ends_the_process_fails_that_check_only(tmp_path):
    body = "import os\n" + HEAD + "if key.min() < 0: os._exit(7)\n    return key @ query\n"
    found = outcomes(tmp_path, body)
    assert [outcome.passed for outcome in found] == [True, True, False, True]
    assert said(found[2].finding) == "It ended its process: exit status 7."


def test_a_builtin_is_called_and_its_error_told(tmp_path):
    found = outcomes(tmp_path, "import torch\ndot_scores = torch.abs\n")
    assert said(found[1].finding).startswith("It raised TypeError: ")


def test_what_is_not_written_is_asked_no_more(tmp_path):
    found = outcomes(tmp_path, HEAD + "raise NotImplementedError\n")
    assert len(found) == 2
    assert found[1].finding.text == findings.UNWRITTEN


def test_properties_are_asked_when_all_checks_have_passed(tmp_path):
    scaled = (
        "def scaled_attention(query, key, value, scale=None):\n"
        "    c = query.shape[-1] ** -0.5 if scale is None else scale\n"
        "    weights = (c * query @ key.mT).softmax(-1)\n"
        "    return weights @ value {}\n"
    )
    right = outcomes(tmp_path, scaled.format(""), "scaled_attention")
    properties = COURSE["scaled_attention"].grader.properties
    assert [outcome.name for outcome in right][-len(properties) :] == list(properties)
    assert all(outcome.passed for outcome in right)

    wrong = outcomes(tmp_path, scaled.format("+ 1"), "scaled_attention")
    assert wrong[-1].name == "scale_of_zero"

    # What the checks do not see, for no case of theirs has these sizes, a property does.
    hidden = scaled.format("* (0.5 if key.shape[-2] == 7 and query.shape[-2] == 7 else 1)")
    subtle = outcomes(tmp_path, hidden, "scaled_attention")
    assert "row_sums" in [outcome.name for outcome in subtle if not outcome.passed]


def test_cautions_and_conventions_are_no_failures():
    for verdict in Verdict:
        outcome = Outcome("x", Finding(verdict, findings.UNWRITTEN))
        assert outcome.passed == (verdict is not Verdict.WRONG)


@pytest.fixture
def no_fork(monkeypatch):
    """As on a system without forks; and coverage sees what runs in this process."""

    def isolated(*arguments):
        raise Unusable
        yield

    monkeypatch.setattr(judging, "run_isolated", isolated)


@pytest.mark.usefixtures("no_fork")
def test_without_a_process_of_its_own_it_is_judged_in_this_one(tmp_path):
    found = outcomes(tmp_path, HEAD + "return (key @ query).abs()\n")
    assert [outcome.passed for outcome in found] == [True, True, False, True]
    assert only(tmp_path, "import torhc\n").startswith("The file raised ModuleNotFoundError")


@pytest.mark.usefixtures("no_fork")
def test_a_file_is_made_of_the_functions_that_are_beside_it_now(tmp_path):
    """Those of another folder, or of the last check, have left their modules in this process."""
    for folder, answer in (("one", "key @ query"), ("two", "-(key @ query)"), ("one", "key.sum()")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "dot_scores.py").write_text(HEAD + f"return {answer}\n", "utf-8")
        name, body = "sum_normalise", "import dot_scores\n\n\ndef sum_normalise(scores): pass\n"
        file = outcomes(tmp_path / folder, body, name)[0]
        assert file.passed == (answer == "key @ query")
        assert file.passed or said(file.finding).endswith("are not solved: dot_scores.")


@pytest.mark.usefixtures("no_fork")
def test_every_answer_can_be_had_in_this_process(tmp_path):
    for name in ("blockwise_attention", "scaled_attention", "online_softmax"):
        exercise = COURSE[name]
        assert all(outcome.passed for outcome in judge(exercise, exercise.solution_path))
    for body in (
        "def dot_scores(query)\n",
        "def dot_scores(query): pass\n",
        "def other(query): pass\n",
    ):
        only(tmp_path, body)
    test_a_builtin_is_called_and_its_error_told(tmp_path)
    test_a_file_that_cannot_be_read_says_so(tmp_path)


def test_the_limit_is_the_checkers():
    assert judging.LIMIT == 10.0
