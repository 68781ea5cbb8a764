"""The contracts hold for the pages as they are. One test a pass; book/contracts.py says how."""

import json
import re
import traceback
from pathlib import Path

import pytest

from book import contracts
from book.make import agree, compare, record
from book.page import Problem, files, front_matter
from book.stage import claims, results

ROOT = Path(__file__).parent.parent.parent


def below(folder: str):
    """Names a test for a file by its path below a folder, without suffix."""
    return lambda path: path.relative_to(ROOT / folder).with_suffix("").as_posix()


def listed(problems) -> str:
    return "\n" + "\n".join(map(str, problems))


@pytest.mark.parametrize("name", contracts.PASSES)
def test_the_project_keeps_its_contracts(name):
    problems = contracts.problems(name)
    assert not problems, listed(problems)


def test_both_languages_say_the_same():
    problems = agree.problems(ROOT)
    assert not problems, listed(problems)


# It starts processes, and has tests of its own.
SLOW = [ROOT / "snippets" / "variants" / "ring" / "ring.py"]
SNIPPETS: dict[str, list[Path]] = {}  # by their folders, which are called as their pages are
for one in record.snippets():
    SNIPPETS.setdefault(one.parent.relative_to(ROOT / "snippets").as_posix(), []).append(one)


def printed(snippet: Path) -> list[Problem]:
    """What is otherwise; one that fails does not hide the others of its page."""
    try:
        return compare.output_problems(snippet, record.run(snippet))
    except Exception:
        return [Problem(snippet, 1, traceback.format_exc())]


@pytest.mark.parametrize("page", SNIPPETS)
def test_recorded_output_is_what_the_snippet_prints(page):
    quick = [snippet for snippet in SNIPPETS[page] if snippet not in SLOW]
    problems = [problem for snippet in quick for problem in printed(snippet)]
    assert not problems, listed(problems)


@pytest.mark.audit
@pytest.mark.parametrize("snippet", SLOW, ids=below("snippets"))
def test_recorded_output_of_a_slow_snippet_is_what_it_prints(snippet):
    problems = printed(snippet)
    assert not problems, listed(problems)


@pytest.mark.parametrize("script", record.figures(), ids=below("docs/figures"))
def test_recorded_drawing_is_what_the_script_draws(script):
    made = record.draw(script).items()
    problems = [p for path, now in made for p in compare.redrawn_problems(path, now)]
    assert not problems, listed(problems)


@pytest.mark.parametrize("script", record.first_values(), ids=below("docs"))
def test_what_a_page_first_shows_is_what_the_package_says(script):
    for path, now in record.shown(script).items():
        assert compare.same_values(json.loads(path.read_text("utf-8")), json.loads(now)), path


@pytest.mark.audit
def test_recorded_measurements_are_of_the_code_as_it_is():
    problems = results.stale_problems(ROOT)
    assert not problems, listed(problems)


def test_every_claim_names_a_test_that_exists():
    for tests in claims.tests_by_claim(ROOT).values():
        for test in tests:
            assert f"def {test.name}(" in (ROOT / test.path).read_text(encoding="utf-8")
            assert f"def {test.name}(" in test.source


def test_a_body_that_is_an_author_is_one_name():
    """A blank would cut it in two, and pages cite the second part alone; ``~`` keeps it whole."""
    text = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    assert re.findall(r"author *= *\{\{[^{}]* [^{}]*\}\}", text) == []


def test_every_page_has_a_title_and_a_description():
    assert len(files(ROOT)) >= 2 * 8
    for page in files(ROOT):
        meta = front_matter(page.read_text(encoding="utf-8"), page)
        assert meta.get("title"), page
        assert 30 <= len(meta.get("description", "")) <= 200, page
