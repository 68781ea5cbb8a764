"""Test cases as JUnit XML, which services that run tests read."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple
from xml.etree import ElementTree

SUITE = "attnref check"
# What XML 1.0 cannot hold, such as half of a pair of surrogates.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Case(NamedTuple):
    """A test of a function: how it ended, in a sentence, and for a failure in more words."""

    function: str
    name: str
    outcome: Literal["passed", "noted", "skipped", "failure", "error"]
    said: str
    kind: str = ""
    details: str = ""


def document(suites: Sequence[Sequence[Case]]) -> str:
    """One suite for each function, whose cases follow each other.

    Examples:
        >>> xml = document([[Case("my:attention", "scale", "failure", "1/d_k", "wrong")]])
        >>> ElementTree.fromstring(xml)[0].get("failures")
        '1'
    """
    root = ElementTree.Element("testsuites", _counts([case for suite in suites for case in suite]))
    for cases in suites:
        suite = ElementTree.SubElement(root, "testsuite", {"name": SUITE, **_counts(cases)})
        for case in cases:
            about = {"classname": _xml(case.function), "name": case.name}
            element = ElementTree.SubElement(suite, "testcase", about)
            said = _xml(case.said)
            if case.outcome == "noted":
                ElementTree.SubElement(element, "system-out").text = said
            elif case.outcome == "skipped":
                ElementTree.SubElement(element, "skipped", message=said)
            elif case.outcome != "passed":
                ended = {"message": said, "type": case.kind}
                ElementTree.SubElement(element, case.outcome, ended).text = _xml(case.details)
    # What is declared is UTF-8, whatever the encoding of the machine.
    xml: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml.decode()


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    outcomes = [case.outcome for case in cases]
    errors = outcomes.count("error")
    return {
        "tests": str(len(cases)),
        "failures": str(outcomes.count("failure")),
        **({"errors": str(errors)} if errors else {}),
        "skipped": str(outcomes.count("skipped")),
    }


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", text)
