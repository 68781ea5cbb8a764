"""Each contract catches what it is for: a page is broken on purpose, and the contract says so."""

import re
import shutil
from pathlib import Path

import agreement
import claims
import contracts
import pages
import pytest
import record

from attnref.bench.fingerprint import fingerprint
from attnref.bench.record import Record

ROOT = Path(__file__).parent.parent.parent
SIX = "foundations/six-words.md"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A copy of what the contracts read."""
    root = tmp_path_factory.mktemp("copy")
    for folder in (
        "docs/pt",
        "docs/en",
        "docs/figures",
        "docs/shared/fonts",
        "snippets",
        "attnref",
        "tests",
    ):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        "docs/references.bib",
        "docs/glossary.yml",
        "docs/not-shown.yml",
        "CONTRIBUTING.md",
        "CONTRIBUTING.pt.md",
        "pyproject.toml",
    ):
        shutil.copy2(ROOT / name, root / name)
    return root


@pytest.fixture
def copy(root):
    """That copy, of which a test may change what it likes: afterwards it is as it was."""

    def state():
        found = {path: path.stat() for path in root.rglob("*") if path.is_file()}
        return {path: (stat.st_mtime_ns, stat.st_size) for path, stat in found.items()}

    before = state()
    yield root
    after = state()
    for path in after.keys() - before.keys():
        path.unlink()
    for path in before:
        if before[path] != after.get(path):
            shutil.copy2(ROOT / path.relative_to(root), path)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {path}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def messages(problems) -> str:
    return "\n".join(map(str, problems))


INCLUDE = '--8<-- "snippets/foundations/six-words/loop.py:example"'


@pytest.mark.claim("typed-code-is-found")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (INCLUDE, "print(1)", "code typed into the page: 'print(1)'"),
        (INCLUDE, '--8<-- "snippets/foundations/six-words/loop.py"', "name a section"),
        (INCLUDE, '--8<-- "snippets/foundations/six-words/loop.py:1:3"', "a mistyped include"),
        (INCLUDE, '--8<-- "snippets/foundations/six-words/loop.py:7"', "name a section"),
        (
            INCLUDE,
            '--8<-- "snippets/foundations/six-words/loop.py:nowhere"',
            "no section 'nowhere'",
        ),
        (INCLUDE, '--8<-- "snippets/nothing.py:example"', "no such file"),
        (INCLUDE, '--8<-- "docs/hooks/pages.py:example"', "includes from attnref/ or snippets/"),
        (INCLUDE, '--8<-- "snippets/../setup.py:example"', "includes from attnref/ or snippets/"),
        (INCLUDE, '--8<-- "attnref/softmax.py:stabel"', "no 'stabel' in 'stabel'; there is"),
        (INCLUDE, '-8<-- "snippets/foundations/six-words/loop.py:example"', "a mistyped include"),
        (INCLUDE, '--8<- "snippets/foundations/six-words/loop.py:example"', "a mistyped include"),
        (INCLUDE, f"x {INCLUDE}", "a mistyped include"),
        (INCLUDE, "", "an empty code block"),
        ("mark `context[p] += weights[word]`", "mark context[p]", "code typed into the page"),
        ("```python title", "```py title", "language 'py'"),
        ("## What you have", f"{INCLUDE}\n\n## What you have", "outside a code block"),
        (
            '--8<-- "snippets/foundations/six-words/loop.out"',
            "score 0.9544",
            "code typed into the page",
        ),
        ("```text", "```", "language ''"),
        ("## Four steps", "    print(1)\n\n## Four steps", "four blanks make code of this line"),
    ],
)
def test_a_broken_include_is_found_where_it_stands(copy, old, new, message):
    page = copy / "docs/en" / SIX
    edit(page, old, new)
    (problem, *_) = contracts.include_problems(copy)
    assert problem.path == page
    assert message in problem.message
    assert new.split("\n")[0].strip() in page.read_text().split("\n")[problem.line - 1] or not new


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# --8<-- [end:example]", "", "never ends"),
        ("# --8<-- [end:example]", "# --8<-- [end:exampel]", "never ends"),
        ("# --8<-- [end:example]", "# --8<- [end:example]", ":LINE: a mistyped section marker"),
        (
            "# --8<-- [start:example]",
            "# --8<-- [strat:example]",
            ":LINE: a mistyped section marker",
        ),
        ("# --8<-- [start:example]", "# -8<-- [start:example]", ":LINE: a mistyped section marker"),
        (
            "from math import exp",
            "# --8<-- [start:example]\nfrom math import exp",
            "defined more than once",
        ),
        ("from math import exp", "# --8<-- [end:example]\nfrom math import exp", "more than once"),
        (None, "# --8<-- [start:example]\n\n# --8<-- [end:example]\n", "'example' is empty"),
        (None, "# --8<-- [end:example]\nx = 1\n# --8<-- [start:example]\n", "never ends"),
        (None, "", "the file is empty"),
    ],
)
def test_a_broken_section_is_found(copy, old, new, message):
    snippet = copy / "snippets/foundations/six-words/loop.py"
    if old is None:
        snippet.write_text(new)
    else:
        edit(snippet, old, new)
    lines = snippet.read_text().split("\n")
    message = message.replace("LINE", str(lines.index(new) + 1 if new in lines else 0))
    problems = contracts.include_problems(copy)
    assert {problem.path.parent.parent.name for problem in problems} == {"pt", "en"}
    assert all(message in problem.message for problem in problems), messages(problems)


def test_a_body_that_no_page_shows_is_found(copy):
    assert contracts.body_problems(copy) == []
    for language in ("pt", "en"):
        page = copy / "docs" / language / "variants/topk.md"
        text = page.read_text()
        assert "attnref/variants/topk.py" in text
        page.write_text(text.replace("attnref/variants/topk.py", "attnref/nothing.py"))
    told = copy / contracts.NOT_SHOWN
    told.write_text(f"{told.read_text()}softmax.stable: no reason\n")
    body, reason = contracts.body_problems(copy)
    assert body.path.name == "topk.py"
    assert "topk_attention: no page shows its body" in body.message
    assert "softmax.stable: a page shows it" in reason.message


def test_an_empty_or_missing_output_is_found(copy):
    output = copy / "snippets/foundations/six-words/loop.out"
    output.write_text("\n")
    assert "the file is empty" in messages(contracts.include_problems(copy))
    output.unlink()
    assert "no such file" in messages(contracts.include_problems(copy))
    snippet = copy / "snippets/foundations/six-words/loop.py"
    assert "no recorded output" in messages(contracts.output_problems(snippet, "x"))


@pytest.mark.parametrize(
    ("recorded", "printed", "same"),
    [
        ("weight 0.1385", "weight 0.1385", True),
        ("weight 0.1385", "weight 0.1386", True),  # rounded the other way
        ("weight 0.1385", "weight 0.1387", False),
        ("weight 0.1385", "weights 0.1385", False),
        ("weight 0.1385", "weight 0.13850", True),
        ("shape (6, 3)", "shape (6, 4)", False),
        ("shape (6, 3)", "shape (6, 3)\nmore", False),
        ("agree: True", "agree: False", False),
        ("inf -inf", "inf nan", False),
        ("1.20e-05", "1.21e-05", True),
        ("1.20e-05", "1.22e-05", False),
        ("-0.5", "0.5", False),
        ("a  0.5", "a 0.5", True),
    ],
)
def test_outputs_agree_to_their_last_printed_digit(recorded, printed, same):
    assert (not list(contracts.different_lines(recorded, printed))) == same


@pytest.mark.claim("stale-output-is-found")
def test_a_stale_output_is_found(copy):
    snippet = copy / "snippets/foundations/six-words/loop.py"
    printed = snippet.with_suffix(".out").read_text()
    edit(snippet.with_suffix(".out"), "0.2379", "0.2479")
    (problem,) = contracts.output_problems(snippet, printed)
    assert problem.line == 2
    assert "0.2479" in problem.message


@pytest.mark.claim("unprinted-number-is-found")
@pytest.mark.parametrize("number", ["0.2397", "$0.2397$", "3.14", "**7.5**"])
def test_a_figure_that_nothing_printed_is_found(copy, number):
    page = copy / "docs/en" / SIX
    assert contracts.figure_problems(page, copy) == []
    edit(page, "Now look at the result.", f"Now look at the result, {number}.")
    (problem,) = contracts.figure_problems(page, copy)
    assert number.strip("$*") in problem.message
    assert number in page.read_text().split("\n")[problem.line - 1]


def test_a_rounded_figure_is_accepted_and_a_misrounded_one_is_not(copy):
    page = copy / "docs/en" / SIX
    edit(page, "Now look at", "About 0.24 of it. Now look at")
    assert not contracts.figure_problems(page, copy)
    edit(page, "About 0.24", "About 0.23")  # 0.2333 was printed, too
    assert not contracts.figure_problems(page, copy)
    edit(page, "About 0.23", "About 0.19")
    assert contracts.figure_problems(page, copy)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("@raschka2024", None),
        ("claim:six-word-weights", None),
        ("pyproject.toml", None),
        ("@nobody1999", "'@nobody1999' is no key"),
        ("claim:nothing", "'claim:nothing' is no key"),
        ("", "'' is no key"),
    ],
)
def test_a_declared_figure_needs_a_source_that_exists(copy, source, problem):
    page = copy / "docs/en" / SIX
    edit(page, "facts:\n", f'facts:\n  - {{value: "0.9999", source: "{source}"}}\n')
    edit(page, "Now look at", "It was 0.9999. Now look at")
    found = messages(contracts.figure_problems(page, copy))
    assert (problem in found) if problem else not found


def test_a_declared_figure_must_be_used(copy):
    page = copy / "docs/en" / SIX
    edit(page, "facts:\n", 'facts:\n  - {value: "0.9", source: "@raschka2024"}\n')
    assert "declared and not used" in messages(contracts.figure_problems(page, copy))


@pytest.mark.parametrize(("with_mark", "without"), [("pt", "en"), ("en", "pt")])
def test_a_line_that_one_language_alone_marks_is_found_where_it_is_marked(copy, with_mark, without):
    one, other = (copy / "docs" / language / SIX for language in (with_mark, without))
    last = 'mark `("softmax", lambda`'
    edit(other, last + "\n", "")
    (problem,) = contracts.mark_problems(copy)
    assert problem.path == one
    assert one.read_text().split("\n")[problem.line - 1] == last
    assert problem.message == (
        f'marks `("softmax", lambda`, but {other} does not; mark the same lines in both languages'
    )


def test_another_line_that_one_language_marks_is_told_with_both_places(copy):
    pt, en = (copy / "docs" / language / SIX for language in ("pt", "en"))
    edit(en, "mark `context[p] += weights[word]`", "mark `context = [`")
    (problem,) = contracts.mark_problems(copy)
    assert problem.path == pt
    line = en.read_text().split("\n").index("mark `context = [`") + 1
    assert f"marks `context[p] += weights[word]`, but {en}:{line} marks `context = [`" in str(
        problem
    )


@pytest.mark.claim("claim-without-test-is-found")
def test_a_claim_without_a_test_is_found(copy):
    for language in ("pt", "en"):
        edit(copy / "docs" / language / SIX, "(claim:six-word-context)", "(claim:six-word-contest)")
    found = messages(contracts.claim_problems(copy))
    assert "claim 'six-word-contest' has no test" in found
    assert "verifies 'six-word-context', which no page claims" in found


def test_a_claim_in_one_language_only_is_found(copy):
    edit(copy / "docs/en" / SIX, "](claim:rotation-changes-no-weight)", "](matrix-form.md)")
    found = messages(contracts.claim_problems(copy))
    assert "'rotation-changes-no-weight' stands in docs/pt only" in found


def test_a_claim_that_cannot_be_read_alone_is_found(copy):
    edit(copy / "docs/en" / SIX, "[Rotating every embedding leaves", "[This leaves")
    edit(copy / "docs/pt" / SIX, "[Girar todos os embeddings", "[Isso")
    found = messages(contracts.claim_problems(copy))
    assert "docs/en: claim 'rotation-changes-no-weight' says 'This leaves every weight" in found
    assert "docs/pt: claim 'rotation-changes-no-weight' says 'Isso" in found


def test_a_test_that_lost_its_mark_is_missed(copy):
    edit(copy / "tests/theory/test_six_words.py", '@pytest.mark.claim("six-word-weights")\n', "")
    found = contracts.claim_problems(copy)
    assert len([p for p in found if "'six-word-weights' has no test" in str(p)]) == 2


TEST = """
import pytest


def holds(x):
    assert x > 0


@pytest.mark.claim("six-word-weights")
@pytest.mark.parametrize("n", [1])
def test_it(n, randn):
    BODY
"""


@pytest.mark.parametrize(
    ("body", "can_fail"),
    [
        ("pass", False),
        ("assert True", False),
        ("assert n == 1", False),
        ("x = n + 1\n    assert x == 2", False),
        ("abs(n)", False),
        ("assert abs(n) == 1", True),
        ("x = abs(n)\n    for y in [x]:\n        z = y\n        assert z == 1", True),
        ("assert randn is None", True),
        ("holds(n)", True),
        ("abs(n)\n    torch.testing.assert_close(n, 1)", False),
        ("torch.testing.assert_close(abs(n), 1)", True),
        ("with pytest.raises(ValueError):\n        abs(n)", True),
    ],
)
def test_a_claim_whose_test_asserts_nothing_is_found(tmp_path, body, can_fail):
    """An empty test would verify any statement."""
    test = tmp_path / "tests" / "test_it.py"
    test.parent.mkdir()
    test.write_text(TEST.replace("BODY", body), encoding="utf-8")
    page = tmp_path / "page.md"
    found = claims.problems(page, "[It is so](claim:six-word-weights).", tmp_path)
    assert bool(found) == (not can_fail)
    if found:
        assert str(found[0]).startswith(f"{test}:11: test_it is the test of claim 'six-word-w")


def test_every_claim_names_a_test_that_exists():
    for tests in claims.tests_by_claim(ROOT).values():
        for test in tests:
            assert f"def {test.name}(" in (ROOT / test.path).read_text()
            assert f"def {test.name}(" in test.source


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{#four-steps}", "{#five-steps}", "headings differ"),
        ("## Four steps", "### Four steps", "headings differ"),
        ("{#four-steps}", "", "has no id"),
        (r"q_p\, x^{(j)}_p", r"q_p\, x_p", "equations differ"),
        ("$d = 3$", "$d = 4$", "equations differ"),
        ("```python title=", "```bash\nls\n```\n\n```python title=", "code blocks differ"),
        (":example", ":other", "code blocks differ"),
        ("(claim:six-word-weights)", "(claim:six-word-context)", "claims differ"),
        ("](matrix-form.md)", "](matrix-form.md#top)", "links differ"),
        ("## What you have", "![x](x.svg)\n\n## What you have", "figures differ"),
        ("[@raschka2024]", "[@vaswani2017]", "citations differ"),
        ("1.4950", "1.4754", "numbers differ"),
    ],
)
def test_a_difference_between_the_languages_is_found(copy, old, new, message):
    edit(copy / "docs/en" / SIX, old, new)
    assert message in messages(contracts.parity_problems(copy))


def test_a_difference_is_told_in_a_sentence_and_a_missing_id_where_it_is_missing(copy):
    edit(copy / "docs/en" / SIX, " {#four-steps}", "")
    found = messages(contracts.parity_problems(copy))
    lines = (copy / "docs/en" / SIX).read_text().split("\n")
    line = lines.index("## Four steps for one word") + 1
    assert (
        f"docs/en/{SIX}:{line}: 'Four steps for one word' has no id; end it with {{#its-id}}"
        in found
    )
    different = r"headings differ: number \d is ## four-steps in pt and ## without id in en"
    assert re.search(f"^{SIX}: {different}$", found, re.M)


def test_words_inside_a_formula_may_differ(copy):
    page = "scale/scale-factor.md"
    assert r"\text{ senão }" in (copy / "docs/pt" / page).read_text()
    assert r"\text{ if }" in (copy / "docs/en" / page).read_text()
    assert not contracts.parity_problems(copy)


def test_a_page_in_one_language_only_is_found(copy):
    (copy / "docs/en" / SIX).unlink()
    found = messages(contracts.parity_problems(copy))
    assert f"docs/pt/{SIX} has no counterpart docs/en/{SIX}" in found


@pytest.mark.claim("one-sided-change-is-found")
def test_a_page_changed_in_one_language_is_reported_by_name(copy):
    assert not agreement.problems(copy)
    edit(copy / "docs/pt" / SIX, "Seis palavras", "Meia dúzia de palavras")
    (found,) = agreement.problems(copy)
    assert found.startswith(f"docs/pt/{SIX} changed, docs/en/{SIX} did not")
    assert f"make agree PAGE={SIX}" in found
    edit(copy / "docs/en" / SIX, "Six words", "Half a dozen words")
    (found,) = agreement.problems(copy)
    assert found.startswith(f"{SIX} changed in both languages")


def test_citations_must_resolve_and_sources_be_cited(copy):
    edit(copy / "docs/en/index.md", "[@vaswani2017]", "[@vaswani2071]")
    found = messages(contracts.citation_problems(copy))
    assert "[@vaswani2071] is not in docs/references.bib" in found
    edit(copy / "docs/references.bib", "@book{raschka2024,", "@book{raschka2025,")
    found = messages(contracts.citation_problems(copy))
    assert "raschka2025 is cited by no page" in found


def test_an_output_whose_snippet_is_gone_is_found(copy):
    (copy / "snippets/orphan.out").write_text("1\n")
    assert messages(contracts.snippet_problems(copy)) == "snippets/orphan.out has no snippet"


def test_a_snippet_in_the_folder_of_another_page_is_found(copy):
    (copy / "snippets/scale/entropy/loop.py").write_text(
        (copy / "snippets/foundations/six-words/loop.py").read_text("utf-8"), encoding="utf-8"
    )
    assert "scale/entropy/loop.py: docs/en/scale/entropy.md does not show it" in messages(
        contracts.snippet_problems(copy)
    )


def test_a_record_of_other_code_is_noticed(tmp_path):
    """One method measured with this code, one with another, one that is gone."""
    (tmp_path / "docs" / "results").mkdir(parents=True)
    linear = ("attnref.variants.linear", "linear_attention")
    code = {
        name: {"module": module, "name": function, "fingerprint": digits}
        for name, module, function, digits in (
            ("linear", *linear, fingerprint(linear)),
            ("topk", "attnref.variants.topk", "topk_attention", "0" * 16),
            ("other", "attnref.variants.other", "other_attention", "0" * 16),
        )
    }
    path = tmp_path / "docs" / "results" / "cpu-float32.json"
    Record({"dirty": False}, {}, code).save(path)
    text = messages(contracts.stale_problems(tmp_path))
    assert "the code of topk has changed since it was measured; run make bench" in text
    assert "the code of other has changed" in text
    assert "linear" not in text
    assert contracts.result_problems(tmp_path) == []
    Record({"dirty": True}, {}, {}).save(path)
    assert "measured with uncommitted code" in messages(contracts.result_problems(tmp_path))


MAP = "](figure:attention-map-six-words)"


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (
            "](figure:nothing)",
            "'nothing' is not recorded in 'en': write docs/figures/ROOM/nothing.py",
        ),
        ("](figure: attention-map-six-words)", "a paragraph of its own, on one line"),
        ("](figure:attention-map-six-words) and text", "a paragraph of its own, on one line"),
        ("](figure:attention-map-six-words)\nand text", "a paragraph of its own, on one line"),
        ("](figure:attention-map-six-words 'A')", "a paragraph of its own, on one line"),
        (" of $n$ words](figure:attention-map-six-words)", "plain text, without $, `, * and"),
        (' of "words"](figure:attention-map-six-words)', "plain text, without $, `, * and"),
        (MAP + "\n\n![Again" + MAP, "stands on this page already"),
        (MAP + "\n\n![ ](figure:saturation)", "'saturation' has no alternative text"),
    ],
)
def test_a_broken_figure_is_found_where_it_stands(copy, new, message):
    page = copy / "docs/en" / SIX
    edit(page, MAP, new)
    (problem,) = (p for p in contracts.drawing_problems(copy) if isinstance(p, contracts.Problem))
    assert message in problem.message
    assert "figure:" in page.read_text().split("\n")[problem.line - 1]


def test_a_figure_with_a_caption_is_accepted(copy):
    before = messages(contracts.drawing_problems(copy))
    edit(copy / "docs/en" / SIX, MAP, MAP[:-1] + ' "Six words")')
    assert messages(contracts.drawing_problems(copy)) == before


def test_a_figure_that_no_page_shows_is_found(copy):
    edit(copy / "docs/en" / SIX, MAP, "](figure:attention-shapes)")
    found = messages(contracts.drawing_problems(copy))
    assert "attention-map-six-words.py is shown on no page of docs/en" in found
    assert "attention-map-six-words.py is shown on no page of docs/pt" not in found


def test_a_page_without_a_figure_is_found(copy, monkeypatch):
    page = copy / "docs/en" / SIX
    assert not contracts.prose_problems(page, copy)
    monkeypatch.setitem(contracts.NO_FIGURE, SIX, "a reason")
    assert "has a figure: remove its line" in messages(contracts.prose_problems(page, copy))
    edit(page, MAP, "](other.svg)")
    edit(page, "<!-- explorer: attention -->\n", "")
    assert not contracts.prose_problems(page, copy)
    monkeypatch.delitem(contracts.NO_FIGURE, SIX)
    assert ":1: has no figure" in messages(contracts.prose_problems(page, copy))


PROSE = "word " * 300


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("", True),
        ("## A heading\n", True),
        ("$$\nx = 1\n$$\n", True),
        ("![A photo](photo.png)\n", True),
        ("1. a list\n2. of notes to nothing\n", True),
        ("![A map](figure:attention-map-six-words)\n", False),
        ("![A chart](chart:window)\n", False),
        ("```text\n1\n```\n", False),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", False),
        ('!!! key "Key idea"\n    A box.\n', False),
        ('??? question "Why?"\n    A folded one.\n', False),
        ('??? question "Why?"\n    ' + 2 * PROSE + "\n", True),
        ("<!-- guide -->\n", False),
        ("```text\n1\n```\n\n1. a note " + PROSE + "\n", False),
    ],
)
def test_a_stretch_of_prose_alone_is_found_where_it_begins(copy, between, found):
    page = copy / "docs/en" / SIX
    page.write_text(
        f"---\ntitle: T\n---\n\n![Map{MAP}\n\n{PROSE}\n\n{between}\n{PROSE}\n", encoding="utf-8"
    )
    problems = contracts.prose_problems(page, copy)
    assert bool(problems) == found
    if found:
        assert problems[0].line == (9 if "?" in between else 7)
        assert re.match(r"6\d\d words without figure, program", problems[0].message)


def test_a_drawing_and_its_script_need_each_other(copy):
    folder = copy / "docs/figures"
    (folder / "drawn/saturation.pt.svg").unlink()
    (folder / "foundations/attention-shapes.py").unlink()
    found = messages(contracts.drawing_problems(copy))
    assert "docs/figures/scale/saturation.py is not recorded in 'pt'; run make record" in found
    assert "docs/figures/drawn/attention-shapes.en.svg has no script" in found


def test_text_of_a_figure_in_one_language_only_is_found(copy):
    script = copy / "docs/figures/scale/saturation.py"
    edit(script, '"largest": "largest', '"biggest": "largest')
    found = messages(contracts.drawing_problems(copy))
    assert "the text 'largest' is not in both languages" in found
    script.write_text("# TEXT = {\n")
    assert "expected a dictionary TEXT" in messages(contracts.text_problems(script))


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("0.2379", "0.2380", True),  # a printed number, rounded the other way
        ("0.2379", "0.2381", False),
        ("journey", "journeys", False),
        ("</svg>", "<path/>\n</svg>", False),
        ("</text>\n", "</text><path/>\n", False),
    ],
)
def test_a_stale_drawing_is_found(copy, old, new, same):
    recorded = copy / "docs/figures/drawn/attention-map-six-words.en.svg"
    drawn = recorded.read_text(encoding="utf-8")
    edit(recorded, old, new)
    problems = contracts.redrawn_problems(recorded, drawn)
    assert (not problems) == same
    if not same:
        (problem,) = problems
        line = recorded.read_text(encoding="utf-8").split("\n")[problem.line - 1]
        assert line in problem.message


@pytest.mark.parametrize(("moved", "same"), [(0.01, True), (0.02, False)])
def test_a_place_may_differ_by_its_last_digit(tmp_path, moved, same):
    recorded = tmp_path / "x.svg"
    assert "no recorded drawing" in messages(contracts.redrawn_problems(recorded, ""))
    recorded.write_text('<path d="M 1.5 2 L 3 4"/>\n')
    drawn = f'<path d="M 1.5 {2 + moved} L 3 4"/>\n'
    assert (not contracts.redrawn_problems(recorded, drawn)) == same


def test_a_changed_script_is_found(copy):
    script = copy / "docs/figures/foundations/attention-map-six-words.py"
    edit(script, "scale=1.0", "scale=1.1")
    for path, drawn in record.draw(script).items():
        assert contracts.redrawn_problems(path, drawn)


QUERY = """    term: query
    forms: [query, queries]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    term: query\n", "", ":LINE: query: en has no term"),
        (QUERY, "    term: query\n    forms: [key]\n", "query: 'key' in en is also a form of key"),
        (QUERY, QUERY.replace("forms", "form"), "query: en: expected term, meaning and forms"),
        (QUERY, f"{QUERY}  de:\n    term: Anfrage\n", "query: expected page, pt and en, got 'de'"),
        ("with all keys.", "with all keys", ":LINE: query: meaning in en: expected sentences"),
        (
            "with all keys.",
            "with all keys. " * 20,
            ":LINE: query: meaning in en: expected sentences",
        ),
        (
            "queries-keys-values.md\n  pt:\n    term: consulta",
            "queries-keys-values\n  pt:\n    term: consulta",
            ":LINE: query: page: expected a path such as foundations/masks.md, got",
        ),
        (
            "queries-keys-values.md\n  pt:\n    term: consulta",
            "queries.md\n  pt:\n    term: consulta",
            "query: there is no page docs/en/foundations/queries.md",
        ),
        (
            "queries-keys-values.md\n  pt:\n    term: consulta",
            "matrix-form.md#four-roles\n  pt:\n    term: consulta",
            "query: matrix-form.md has no heading {#four-roles}",
        ),
    ],
)
def test_an_entry_of_the_glossary_that_is_not_whole_is_found(copy, old, new, message):
    terms = copy / "docs/glossary.yml"
    edit(terms, old, new)
    line = terms.read_text(encoding="utf-8").split("\n").index("query:") + 1
    found = messages(contracts.glossary_problems(copy))
    assert message.replace("LINE", str(line)) in found


def test_a_language_missing_from_an_entry_is_found(copy):
    terms = copy / "docs/glossary.yml"
    text = terms.read_text(encoding="utf-8")
    start = text.index("  en:", text.index("\nquery:"))
    terms.write_text(text[:start] + text[text.index("\n\n", start) :], encoding="utf-8")
    found = messages(contracts.glossary_problems(copy))
    assert "query: en has no term" in found
    assert "query: en has no meaning" in found


def test_code_that_looks_like_a_citation_stays_as_it_is():
    text = "See [@one].\n\n```python\nx = '[@two]'\n```\n\nAnd `[@three]`, ``[@`` [@four]."
    changed = pages.replaced_in_prose(re.compile(r"\[@\w+\]"), lambda match: "it", text)
    assert changed == text.replace("[@one]", "it").replace("[@four]", "it")
    assert [match[0] for _, match in pages.in_prose(re.compile(r"@\w+"), text)] == ["@one", "@four"]
