"""Each contract catches what it is for: a page is broken on purpose, and the contract says so."""

import contextlib
import re
import shutil
from pathlib import Path

import pytest

from attnref.bench.fingerprint import fingerprint
from attnref.bench.record import Record
from book import contracts
from book import page as pages
from book.make import agree, compare, record
from book.stage import claims, cores, figures, numbers, prose, results

ROOT = Path(__file__).parent.parent.parent
SIX = "foundations/six-words.md"
# What the contracts read of it, beside these pages, what they show and what it is made of.
PAGES = (
    "foundations/matrix-form",
    "foundations/queries-keys-values",
    "foundations/six-words",
    "scale/scale-factor",
)
FILES = (
    "CONTRIBUTING.md",
    "CONTRIBUTING.pt.md",
    "attnref/minimal/attention.py",
    "attnref/minimal/cross.py",
    "attnref/minimal/merge.py",
    "attnref/reference.py",
    "attnref/scaling.py",
    "constraints.txt",
    "attnref/softmax.py",
    "docs/glossary.yml",
    "docs/references.bib",
    "pyproject.toml",
    "tests/site/explorers/test_attention.py",
    "tests/theory/test_six_words.py",
    *(f"docs/{language}/{page}.md" for language in pages.LANGUAGES for page in PAGES),
)


@pytest.fixture
def copy(tmp_path):
    """A project of a few pages, of which a test may change what it likes."""
    paths = [ROOT / name for name in FILES]
    for script in (script for page in PAGES for script in record.page_scripts(page)):
        paths += [script, *script.parent.glob("[!_]*.py"), script.with_suffix(".out")]
        paths += (ROOT / "docs/figures/drawn").glob(f"{script.stem}.*.svg")
    for path in {path for path in paths if path.is_file()}:
        place = tmp_path / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {path}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@contextlib.contextmanager
def edited(path: Path, old: str, new: str):
    """The file with this change, and then as it was."""
    text = path.read_text(encoding="utf-8")
    edit(path, old, new)
    yield path.read_text(encoding="utf-8").split("\n")
    path.write_text(text, encoding="utf-8")


def messages(problems) -> str:
    return "\n".join(map(str, problems))


SECTION = '--8<-- "snippets/foundations/six-words/loop.py:example"'
LOOP = SECTION.removesuffix(':example"')
OTHER = "includes from attnref/ or snippets/"


@pytest.mark.claim("typed-code-is-found")
def test_a_broken_include_is_found_where_it_stands(copy):
    page = copy / "docs/en" / SIX
    for old, new, message in (
        (SECTION, "print(1)", "code typed into the page: 'print(1)'"),
        (SECTION, f'{LOOP}"', "name a section"),
        (SECTION, f'{LOOP}:1:3"', "a mistyped include"),
        (SECTION, f'{LOOP}:7"', "name a section"),
        (SECTION, f'{LOOP}:nowhere"', "no section 'nowhere'"),
        (SECTION, '--8<-- "snippets/nothing.py:example"', "no such file"),
        (SECTION, '--8<-- "book/page.py:example"', OTHER),
        (SECTION, '--8<-- "snippets/../setup.py:example"', OTHER),
        (SECTION, '--8<-- "attnref/softmax.py:stabel"', "no 'stabel' in 'stabel'; there is"),
        (SECTION, SECTION.removeprefix("-"), "a mistyped include"),
        (SECTION, SECTION.replace("<--", "<-"), "a mistyped include"),
        (SECTION, f"x {SECTION}", "a mistyped include"),
        (SECTION, "", "an empty code block"),
        ("mark `context[p] += weights[word]`", "mark context[p]", "code typed into the page"),
        ("```python title", "```py title", "language 'py'"),
        ("## What you have", f"{SECTION}\n\n## What you have", "outside a code block"),
        (f'{LOOP.removesuffix("py")}out"', "score 0.9544", "code typed into the page"),
        ("```text", "```", "language ''"),
        ("## Four steps", "    print(1)\n\n## Four steps", "four blanks make code of this line"),
    ):
        with edited(page, old, new) as lines:
            (problem, *_) = contracts.problems("includes", copy)
        assert problem.path == page
        assert message in problem.message
        assert new.split("\n")[0].strip() in lines[problem.line - 1] or not new
    assert contracts.problems("includes", copy) == []


def test_a_broken_section_is_found(copy):
    snippet = copy / "snippets/foundations/six-words/loop.py"
    whole = snippet.read_text(encoding="utf-8")
    start, end, first = "# --8<-- [start:example]", "# --8<-- [end:example]", "from math import exp"
    for old, new, message in (
        (end, "", "never ends"),
        (end, "# --8<-- [end:exampel]", "never ends"),
        (end, "# --8<- [end:example]", ":LINE: a mistyped section marker"),
        (start, "# --8<-- [strat:example]", ":LINE: a mistyped section marker"),
        (start, "# -8<-- [start:example]", ":LINE: a mistyped section marker"),
        (first, f"{start}\n{first}", "defined more than once"),
        (first, f"{end}\n{first}", "defined more than once"),
        (whole, f"{start}\n\n{end}\n", "'example' is empty"),
        (whole, f"{end}\nx = 1\n{start}\n", "never ends"),
        (whole, "", "the file is empty"),
    ):
        with edited(snippet, old, new) as lines:
            problems = contracts.problems("includes", copy)
        expected = message.replace("LINE", str(lines.index(new) + 1 if new in lines else 0))
        assert {problem.path.parent.parent.name for problem in problems} == {"pt", "en"}, new
        assert all(expected in problem.message for problem in problems), messages(problems)


BOX = """\
__all__ = ["half", "lost", "told", "whole"]

def _behind(x):
    return x

def half(x):
    return x / 2

def told(x):
    return x

def whole(x):
    return _behind(x)



def lost(x):
    return half(x)
"""


def test_a_body_that_no_page_shows_is_found(tmp_path):
    page = '```python\n--8<-- "attnref/box.py:{}"\n```\n'
    for name, text in {
        "attnref/__init__.py": "",
        "attnref/box.py": BOX,
        "docs/en/a.md": page.format("half"),
        "docs/pt/a.md": page.format("_behind"),
        "docs/en/reference/a.md": page.format("lost"),
        cores.NOT_SHOWN: "box.told: a reason\nbox.half: no reason\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    body, reason = contracts.problems("cores", tmp_path)
    assert (body.path, body.line) == (tmp_path / "attnref/box.py", 17)
    assert body.message == "lost: no page shows its body, or a function behind it"
    assert reason.message.startswith("box.half: a page shows it")


def test_an_empty_or_missing_output_is_found(copy):
    output = copy / "snippets/foundations/six-words/loop.out"
    output.write_text("\n")
    assert "the file is empty" in messages(contracts.problems("includes", copy))
    output.unlink()
    assert "no such file" in messages(contracts.problems("includes", copy))
    snippet = copy / "snippets/foundations/six-words/loop.py"
    assert "no recorded output" in messages(compare.output_problems(snippet, "x"))


def test_outputs_agree_to_their_last_printed_digit():
    for recorded, printed, same in (
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
    ):
        assert (not list(compare.differences(recorded, printed))) == same, printed


@pytest.mark.claim("stale-output-is-found")
def test_a_stale_output_is_found(copy):
    snippet = copy / "snippets/foundations/six-words/loop.py"
    printed = snippet.with_suffix(".out").read_text()
    edit(snippet.with_suffix(".out"), "0.2379", "0.2479")
    (problem,) = compare.output_problems(snippet, printed)
    assert problem.line == 2
    assert "0.2479" in problem.message


@pytest.mark.claim("unprinted-number-is-found")
def test_a_figure_that_nothing_printed_is_found(copy):
    page = copy / "docs/en" / SIX
    assert numbers.figure_problems(page, page.read_text(encoding="utf-8"), copy) == []
    for number in ("0.2397", "$0.2397$", "3.14", "**7.5**"):
        look = "Now look at the result"
        with edited(page, f"{look}.", f"{look}, {number}.") as lines:
            (problem,) = numbers.figure_problems(page, page.read_text(encoding="utf-8"), copy)
        assert number.strip("$*") in problem.message
        assert number in lines[problem.line - 1]


def test_a_rounded_figure_is_accepted_and_a_misrounded_one_is_not(copy):
    page = copy / "docs/en" / SIX
    edit(page, "Now look at", "About 0.24 of it. Now look at")
    assert not numbers.figure_problems(page, page.read_text(encoding="utf-8"), copy)
    edit(page, "About 0.24", "About 0.23")  # 0.2333 was printed, too
    assert not numbers.figure_problems(page, page.read_text(encoding="utf-8"), copy)
    edit(page, "About 0.23", "About 0.19")
    assert numbers.figure_problems(page, page.read_text(encoding="utf-8"), copy)


def test_a_declared_figure_needs_a_source_that_exists_and_is_used(copy):
    page = copy / "docs/en" / SIX
    fact = "\nagrees:", '\nfacts:\n  - {{value: "0.9999", source: "{}"}}\nagrees:'
    with edited(page, fact[0], fact[1].format("pyproject.toml")):
        assert "declared and not used" in messages(
            numbers.figure_problems(page, page.read_text(encoding="utf-8"), copy)
        )
    edit(page, "Now look at", "It was 0.9999. Now look at")
    for source, problem in {
        "@raschka2024": "",
        "claim:six-word-weights": "",
        "pyproject.toml": "",
        "@nobody1999": "'@nobody1999' is no key",
        "claim:nothing": "'claim:nothing' is no key",
        "": "'' is no key",
    }.items():
        with edited(page, fact[0], fact[1].format(source)):
            found = messages(numbers.figure_problems(page, page.read_text(encoding="utf-8"), copy))
        assert (problem in found) if problem else not found, source


@pytest.mark.parametrize(("with_mark", "without"), [("pt", "en"), ("en", "pt")])
def test_a_line_that_one_language_alone_marks_is_found_where_it_is_marked(copy, with_mark, without):
    one, other = (copy / "docs" / language / SIX for language in (with_mark, without))
    last = 'mark `("softmax", lambda`'
    edit(other, last + "\n", "")
    (problem,) = contracts.problems("marks", copy)
    assert problem.path == one
    assert one.read_text().split("\n")[problem.line - 1] == last
    assert problem.message == (
        f'marks `("softmax", lambda`, but {other} does not; mark the same lines in both languages'
    )


def test_another_line_that_one_language_marks_is_told_with_both_places(copy):
    pt, en = (copy / "docs" / language / SIX for language in ("pt", "en"))
    edit(en, "mark `context[p] += weights[word]`", "mark `context = [`")
    (problem,) = contracts.problems("marks", copy)
    assert problem.path == pt
    line = en.read_text().split("\n").index("mark `context = [`") + 1
    assert f"marks `context[p] += weights[word]`, but {en}:{line} marks `context = [`" in str(
        problem
    )


@pytest.mark.claim("claim-without-test-is-found")
def test_a_claim_without_a_test_is_found(copy):
    for language in ("pt", "en"):
        edit(copy / "docs" / language / SIX, "(claim:six-word-context)", "(claim:six-word-contest)")
    found = messages(contracts.problems("claims", copy))
    assert "claim 'six-word-contest' has no test" in found
    assert "verifies 'six-word-context', which no page claims" in found


def test_a_claim_in_one_language_only_is_found(copy):
    edit(copy / "docs/en" / SIX, "](claim:rotation-changes-no-weight)", "](matrix-form.md)")
    found = messages(contracts.problems("claims", copy))
    assert "'rotation-changes-no-weight' stands in docs/pt only" in found


def test_a_claim_that_cannot_be_read_alone_is_found(copy):
    edit(copy / "docs/en" / SIX, "[Rotating every embedding leaves", "[This leaves")
    edit(copy / "docs/pt" / SIX, "[Girar todos os embeddings", "[Isso")
    found = messages(contracts.problems("claims", copy))
    assert (
        "docs/en: claim 'rotation-changes-no-weight' says 'This leaves every attention weight"
        in found
    )
    assert "docs/pt: claim 'rotation-changes-no-weight' says 'Isso" in found


TEST = """
import pytest


def holds(x):
    assert x > 0


@pytest.mark.claim("six-word-weights")
@pytest.mark.parametrize("n", [1])
def test_it(n, randn):
    BODY
"""


def test_a_claim_whose_test_asserts_nothing_is_found(tmp_path):
    """An empty test would verify any statement."""
    for number, (body, can_fail) in enumerate(
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
        ]
    ):
        root = tmp_path / str(number)
        test = root / "tests" / "test_it.py"
        test.parent.mkdir(parents=True)
        test.write_text(TEST.replace("BODY", body), encoding="utf-8")
        found = claims.problems(root / "a.md", "[It is so](claim:six-word-weights).", root)
        said = f"{test}:11: test_it is the test of claim 'six-word-w"
        assert [str(one).startswith(said) for one in found] == [True] * (not can_fail), body


def test_a_difference_between_the_languages_is_found(copy):
    for old, new, message in (
        ("{#four-steps}", "{#five-steps}", "headings differ"),
        ("## Four steps", "### Four steps", "headings differ"),
        ("level: first steps", "level: core", "level and needs differ"),
        (r"q_p\, x^{(j)}_p", r"q_p\, x_p", "equations differ"),
        ("$d = 3$", "$d = 4$", "equations differ"),
        ("```python title=", "```bash\nls\n```\n\n```python title=", "code blocks differ"),
        (":example", ":other", "code blocks differ"),
        ("(claim:six-word-weights)", "(claim:six-word-context)", "claims differ"),
        ("](matrix-form.md#all-six-at-once)", "](matrix-form.md#top)", "links differ"),
        ("## What you have", "![x](x.svg)\n\n## What you have", "figures differ"),
        ("[@raschka2024]", "[@vaswani2017]", "citations differ"),
        ("1.4950", "1.4754", "numbers differ"),
    ):
        with edited(copy / "docs/en" / SIX, old, new):
            assert message in messages(contracts.problems("parity", copy)), new


def test_a_difference_is_told_in_a_sentence_and_a_missing_id_where_it_is_missing(copy):
    edit(copy / "docs/en" / SIX, " {#four-steps}", "")
    found = messages(contracts.problems("parity", copy))
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
    assert not contracts.problems("parity", copy)


def test_a_page_in_one_language_only_is_found(copy):
    (copy / "docs/en" / SIX).unlink()
    found = messages(contracts.problems("parity", copy))
    assert f"docs/pt/{SIX} has no counterpart docs/en/{SIX}" in found


@pytest.mark.claim("one-sided-change-is-found")
def test_a_page_changed_in_one_language_is_reported_by_name(copy):
    assert not agree.problems(copy)
    edit(copy / "docs/pt" / SIX, "Seis palavras", "Meia dúzia de palavras")
    (found,) = agree.problems(copy)
    assert found.startswith(f"docs/pt/{SIX} changed, docs/en/{SIX} did not")
    assert f"make agree PAGE={SIX}" in found
    edit(copy / "docs/en" / SIX, "Six words", "Half a dozen words")
    (found,) = agree.problems(copy)
    assert found.startswith(f"{SIX} changed in both languages")


def test_citations_must_resolve_and_sources_be_cited(copy):
    edit(copy / "docs/en" / SIX, "[@raschka2024]", "[@raschka2042]")
    found = messages(contracts.problems("citations", copy))
    assert "[@raschka2042] is not in docs/references.bib" in found
    edit(copy / "docs/references.bib", "@book{raschka2024,", "@book{raschka2025,")
    found = messages(contracts.problems("citations", copy))
    assert "raschka2025 is cited by no page" in found


def test_an_output_whose_snippet_is_gone_is_found(copy):
    (copy / "snippets/orphan.out").write_text("1\n")
    assert (
        messages(contracts.problems("snippet_list", copy)) == "snippets/orphan.out has no snippet"
    )


def test_a_snippet_in_the_folder_of_another_page_is_found(copy):
    loop = copy / "snippets/foundations/six-words/loop.py"
    shutil.copy(loop, copy / "snippets/scale/scale-factor")
    assert "scale-factor/loop.py: docs/en/scale/scale-factor.md does not show it" in messages(
        contracts.problems("snippet_list", copy)
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
    text = messages(results.stale_problems(tmp_path))
    assert "the code of topk has changed since it was measured; run make bench" in text
    assert "the code of other has changed" in text
    assert "linear" not in text
    assert contracts.problems("results", tmp_path) == []
    Record({"dirty": True}, {}, {}).save(path)
    assert "measured with uncommitted code" in messages(contracts.problems("results", tmp_path))


# As the page has it, whatever its caption.
(MAP,) = re.findall(
    r"\]\(figure:attention-map-six-words[^)]*\)",
    (ROOT / "docs/en" / SIX).read_text(encoding="utf-8"),
)


def test_a_broken_figure_is_found_where_it_stands(copy):
    page = copy / "docs/en" / SIX
    alone, plain = "a paragraph of its own, on one line", "plain text, without $, `, * and"
    for new, message in (
        ("](figure:nothing)", "'nothing' is not recorded in 'en': write docs/figures/ROOM/noth"),
        ("](figure: attention-map-six-words)", alone),
        (f"{MAP} and text", alone),
        (f"{MAP}\nand text", alone),
        ("](figure:attention-map-six-words 'A')", alone),
        (f" of $n$ words{MAP}", plain),
        (f' of "words"{MAP}', plain),
        (f"{MAP}\n\n![Again{MAP}", "stands on this page already"),
        (f"{MAP}\n\n![ ](figure:saturation)", "'saturation' has no alternative text"),
    ):
        with edited(page, MAP, new) as lines:
            found = contracts.problems("figures", copy)
        (problem,) = (each for each in found if isinstance(each, pages.Problem))
        assert message in problem.message
        assert "figure:" in lines[problem.line - 1]


def test_a_figure_is_accepted_with_and_without_a_caption(copy):
    page = copy / "docs/en" / SIX
    before = messages(contracts.problems("figures", copy))
    for new in (
        "](figure:attention-map-six-words)",
        '](figure:attention-map-six-words "Six words")',
    ):
        with edited(page, MAP, new):
            assert messages(contracts.problems("figures", copy)) == before


def test_a_figure_that_no_page_shows_is_found(copy):
    edit(copy / "docs/en" / SIX, MAP, "](figure:attention-shapes)")
    found = messages(contracts.problems("figures", copy))
    assert "attention-map-six-words.py is shown on no page of docs/en" in found
    assert "attention-map-six-words.py is shown on no page of docs/pt" not in found


def test_a_page_without_a_figure_is_found(copy, monkeypatch):
    page = copy / "docs/en" / SIX
    assert not prose.contract(page, page.read_text(encoding="utf-8"), copy)
    monkeypatch.setitem(prose.NO_FIGURE, SIX, "a reason")
    assert "has a figure: remove its line" in messages(
        prose.contract(page, page.read_text(encoding="utf-8"), copy)
    )
    edit(page, MAP, "](other.svg)")
    edit(page, "<!-- explorer: attention small -->\n", "")
    assert not prose.contract(page, page.read_text(encoding="utf-8"), copy)
    monkeypatch.delitem(prose.NO_FIGURE, SIX)
    assert ":1: has no figure" in messages(
        prose.contract(page, page.read_text(encoding="utf-8"), copy)
    )


PROSE = "word " * 300


def test_a_stretch_of_prose_alone_is_found_where_it_begins(copy):
    page = copy / "docs/en" / SIX
    for between, found in {
        "": True,
        "## A heading\n": True,
        "$$\nx = 1\n$$\n": True,
        "![A photo](photo.png)\n": True,
        "1. a list\n2. of notes to nothing\n": True,
        "![A map](figure:attention-map-six-words)\n": False,
        "![A chart](chart:window)\n": False,
        "```text\n1\n```\n": False,
        "| a | b |\n|---|---|\n| 1 | 2 |\n": False,
        '!!! key "Key idea"\n    A box.\n': False,
        '??? question "Why?"\n    A folded one.\n': False,
        '??? question "Why?"\n    ' + 2 * PROSE + "\n": True,
        "<!-- guide -->\n": False,
        "```text\n1\n```\n\n1. a note " + PROSE + "\n": False,
    }.items():
        text = f"---\ntitle: T\n---\n\n![Map{MAP}\n\n{PROSE}\n\n{between}\n{PROSE}\n"
        page.write_text(text, encoding="utf-8")
        problems = prose.contract(page, page.read_text(encoding="utf-8"), copy)
        assert bool(problems) == found, between
        if found:
            assert problems[0].line == (9 if "?" in between else 7)
            assert re.match(r"6\d\d words without figure, program", problems[0].message)


def test_a_drawing_and_its_script_need_each_other(copy):
    folder = copy / "docs/figures"
    (folder / "drawn/saturation.pt.svg").unlink()
    (folder / "foundations/attention-shapes.py").unlink()
    found = messages(contracts.problems("figures", copy))
    assert "docs/figures/scale/saturation.py is not recorded in 'pt'; run make record" in found
    assert "docs/figures/drawn/attention-shapes.en.svg has no script" in found


def test_text_of_a_figure_in_one_language_only_is_found(copy):
    script = copy / "docs/figures/scale/saturation.py"
    edit(script, '"largest": "largest', '"biggest": "largest')
    found = messages(contracts.problems("figures", copy))
    assert "the text 'largest' is not in both languages" in found
    script.write_text("# TEXT = {\n")
    assert "expected a dictionary TEXT" in messages(figures.text_problems(script))


def test_a_stale_drawing_is_found(copy):
    recorded = copy / "docs/figures/drawn/attention-map-six-words.en.svg"
    drawn = recorded.read_text(encoding="utf-8")
    for old, new, same in (
        ("0.2379", "0.2380", True),  # a printed number, rounded the other way
        ("0.2379", "0.2381", False),
        ("journey", "journeys", False),
        ("</svg>", "<path/>\n</svg>", False),
        ("</text>\n", "</text><path/>\n", False),
    ):
        with edited(recorded, old, new) as lines:
            problems = compare.redrawn_problems(recorded, drawn)
        assert [lines[problem.line - 1] in problem.message for problem in problems] == (
            [] if same else [True]
        ), new


def test_a_place_may_differ_by_its_last_digit(tmp_path):
    recorded = tmp_path / "x.svg"
    assert "no recorded drawing" in messages(compare.redrawn_problems(recorded, ""))
    recorded.write_text('<path d="M 1.5 2 L 3 4"/>\n')
    for moved, same in ((0.01, True), (0.02, False)):
        drawn = f'<path d="M 1.5 {2 + moved} L 3 4"/>\n'
        assert (not compare.redrawn_problems(recorded, drawn)) == same


def test_a_changed_script_is_found(copy):
    script = copy / "docs/figures/foundations/attention-map-six-words.py"
    edit(script, "scale=1.0", "scale=1.1")
    for path, drawn in record.draw(script).items():
        assert compare.redrawn_problems(path, drawn)


QUERY = """    term: query
    forms: [query, queries]
"""
KEYS = "with all keys."


def test_an_entry_of_the_glossary_that_is_not_whole_is_found(copy):
    terms = copy / "docs/glossary.yml"
    page, after = "queries-keys-values.md", "\n  pt:\n    term: consulta"
    for old, new, message in (
        ("    term: query\n", "", ":LINE: query: en has no term"),
        (QUERY, "    term: query\n    forms: [key]\n", "query: 'key' in en is also a form of key"),
        (QUERY, QUERY.replace("forms", "form"), "query: en: expected term, meaning and forms"),
        (QUERY, f"{QUERY}  de:\n    term: Anfrage\n", "query: expected page, pt and en, got 'de'"),
        (KEYS, KEYS[:-1], ":LINE: query: meaning in en: expected sentences"),
        (KEYS, f"{KEYS} " * 20, ":LINE: query: meaning in en: expected sentences"),
        (
            page + after,
            "queries-keys-values" + after,
            ":LINE: query: page: expected a path such as",
        ),
        (page + after, "queries.md" + after, "query: there is no page docs/en/foundations/queries"),
        (page + after, f"matrix-form.md#roles{after}", "matrix-form.md has no heading {#roles}"),
    ):
        with edited(terms, old, new) as lines:
            found = messages(contracts.problems("glossary", copy))
        assert message.replace("LINE", str(lines.index("query:") + 1)) in found, new


def test_a_language_missing_from_an_entry_is_found(copy):
    terms = copy / "docs/glossary.yml"
    text = terms.read_text(encoding="utf-8")
    start = text.index("  en:", text.index("\nquery:"))
    terms.write_text(text[:start] + text[text.index("\n\n", start) :], encoding="utf-8")
    found = messages(contracts.problems("glossary", copy))
    assert "query: en has no term" in found
    assert "query: en has no meaning" in found


def test_code_that_looks_like_a_citation_stays_as_it_is():
    text = "See [@one].\n\n```python\nx = '[@two]'\n```\n\nAnd `[@three]`, ``[@`` [@four]."
    changed = pages.replace_in_prose(re.compile(r"\[@\w+\]"), lambda match: "it", text)
    assert changed == text.replace("[@one]", "it").replace("[@four]", "it")
    assert [match[0] for _, match in pages.find_in_prose(re.compile(r"@\w+"), text)] == [
        "@one",
        "@four",
    ]
