"""What a learner reads after a check."""

import textwrap
from collections.abc import Iterator, Sequence

from attnref.book import page_address
from attnref.conformance.properties import PROPERTIES
from attnref.conformance.result import EXPECTED, GOT, Result
from attnref.conformance.verdict import Finding
from attnref.exercises.advice import advice
from attnref.exercises.exercise import Exercise
from attnref.exercises.findings import UNWRITTEN, kind
from attnref.exercises.judging import FILE, Outcome
from attnref.text import Text

SOLVED = Text("{name} is solved: {passed} of {all} checks passed.")
NOT_YET = Text("{name} is not solved yet: {passed} of {all} checks passed.")
TO_BE_WRITTEN = Text("{name} is not written yet: replace the line that raises NotImplementedError.")
UNJUDGED = Text("{name} could not be graded.")
CALLED = Text("called with")
SLIP = Text("Common mistake: {slip}")
ADVICE = Text("What to do: {advice}")
EXPLAINED = Text("Explained in: {where}")

_WIDTH = 88
_PASSED, _FAILED, _UNASKED = "✓", "✗", "·"


def report(
    exercise: Exercise, outcomes: Sequence[Outcome], lang: str, *, brief: bool = False
) -> str:
    """The verdict, a line for each check, and under the first that failed all there is to say.

    In ``brief``, the verdict and the first check that failed.
    """
    named = {"name": exercise.name}
    found = {outcome.name: outcome for outcome in outcomes}
    file = found.pop(FILE)
    if file.finding is not None:
        return f"{UNJUDGED.say(lang, named)}\n\n{_fill(_sentence(file.finding, lang))}\n"
    if any(each.finding is not None and each.finding.text == UNWRITTEN for each in outcomes):
        return f"{TO_BE_WRITTEN.say(lang, named)}\n\n{_explained(exercise, lang)}\n"
    rules = _rules(exercise, lang)
    passed = sum(outcome.passed for outcome in found.values())
    verdict = SOLVED if passed == len(rules) else NOT_YET
    lines = [verdict.say(lang, named | {"passed": passed, "all": len(rules)}), ""]
    explained = False
    for name, rule in rules.items():
        outcome = found.get(name)
        if brief and (explained or outcome is None or outcome.passed):
            continue
        mark = _UNASKED if outcome is None else _PASSED if outcome.passed else _FAILED
        lines.append(_fill(rule, first=f"{mark} ", rest="  "))
        if outcome is not None and not outcome.passed and not explained:
            lines += ["", *_explain(exercise, outcome, lang), ""]
            explained = True
    if explained:
        lines += [*([""] if lines[-1] else []), _explained(exercise, lang)]
    return "\n".join(lines).rstrip() + "\n"


def _explained(exercise: Exercise, lang: str) -> str:
    return _fill(EXPLAINED.say(lang, {"where": page_address(exercise.page, lang)}))


def _rules(exercise: Exercise, lang: str) -> dict[str, str]:
    """What each check and property asks, in their order."""
    texts = exercise.text(lang).checks
    grader = exercise.grader
    rules = {check.__name__: texts[check.__name__].rule for check in grader.checks}
    return rules | {name: PROPERTIES[name].statement.say(lang) for name in grader.properties}


def _explain(exercise: Exercise, outcome: Outcome, lang: str) -> Iterator[str]:
    finding = outcome.finding
    assert finding is not None
    yield _fill(_sentence(finding, lang), first="    ", rest="    ")
    if outcome.name in exercise.grader.properties:
        yield ""
        for line in Result(PROPERTIES[outcome.name], finding).details(lang):
            yield f"    {line}"
        return
    yield from _call(finding, lang)
    said = _hint(exercise, outcome.name, finding, lang)
    if said is not None:
        yield ""
        yield _fill(said, first="    ", rest="    ")


def _hint(exercise: Exercise, name: str, finding: Finding, lang: str) -> str | None:
    """The usual slip where it explains what came, otherwise what to do about that."""
    what = kind(finding)
    usual = {(check.__name__, other) for check, other in exercise.grader.usual}
    if what == "value" or (name, what) in usual:
        return SLIP.say(lang, {"slip": exercise.text(lang).checks[name].slip})
    text = advice(finding)
    return None if text is None else ADVICE.say(lang, {"advice": text})


def _call(finding: Finding, lang: str) -> Iterator[str]:
    """What went in, what should have come out and what did, one below the other."""
    shown = finding.counterexample
    if shown is None:  # it hung, or ended the process
        return
    yield ""
    yield f"    {CALLED.say(lang)}"
    named = [(f"{name} = ", value) for name, value in shown.arguments.items()]
    results = [(EXPECTED.say(lang), shown.expected), (GOT.say(lang), shown.got)]
    width = max(len(word) for word, _ in results) + 2
    named += [(word.ljust(width), value) for word, value in results if value is not None]
    for word, value in named:
        start = 6 if word.endswith("= ") else 4
        yield " " * start + word + str(value).replace("\n", "\n" + " " * (start + len(word)))


def _sentence(finding: Finding, lang: str) -> str:
    return finding.say(lang)


def _fill(text: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
