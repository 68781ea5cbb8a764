"""How implementations are asked, recorded and compared with their record."""

import json
from importlib import metadata

import pytest

from attnref.conformance import check
from book.make import behaviour_programs, behaviours
from book.make.behaviour_programs import ABSENT, DATA, Cell, Implementation, Project, ask, program

QUESTIONS, PROJECTS = behaviour_programs.questions(), behaviour_programs.projects()
RECORDS = {name: found for name, project in PROJECTS.items() if (found := behaviours.load(project))}
SLOW = ("indexer_attention", "moba_attention", "native_sparse_attention")  # to count their memory
HERE = [
    (project, name)
    for project in ("attnref", "PyTorch")
    for name in PROJECTS[project].implementations
]
CELLS = [
    (project, name, question, cell)
    for project, found in RECORDS.items()
    for name, cells in found["implementations"].items()
    for question, cell in cells.items()
]


def test_the_record_is_as_wide_as_the_page_says():
    assert len(RECORDS) >= 15
    assert sum(len(found["implementations"]) for found in RECORDS.values()) >= 30
    for project, found in RECORDS.items():
        assert list(found["implementations"]) == list(PROJECTS[project].implementations)
        assert all(list(cells) == list(QUESTIONS) for cells in found["implementations"].values())
        assert found["version"]
        assert found["date"] >= "2026"


@pytest.mark.claim("behaviours-programs-run")
def test_each_recorded_program_is_the_one_that_the_data_make():
    for project, name, question, cell in CELLS:
        who = PROJECTS[project].implementations[name]
        if cell["answer"] == ABSENT:
            assert not who.offers(QUESTIONS[question])
        else:
            assert cell["program"] == program(who, QUESTIONS[question]), "run make behaviours"


@pytest.mark.claim("behaviours-recomputed")
@pytest.mark.parametrize(("project", "name"), HERE)
def test_what_is_here_answers_as_recorded(project, name, request):
    recorded, here = RECORDS["PyTorch"]["version"], metadata.version("torch")
    if recorded.partition("+")[0] != here.partition("+")[0]:
        pytest.skip(f"recorded with torch {recorded}, here is {here}")
    who = PROJECTS[project].implementations[name]
    left = () if name not in SLOW or request.config.getoption("--audit") else ("memory",)
    recorded = RECORDS[project]["implementations"][name]
    found = {
        question: behaviours._cell_entry(ask(who, about))
        for question, about in QUESTIONS.items()
        if question not in left
    }
    expected = {question: cell for question, cell in recorded.items() if question not in left}
    assert found == expected, "run make behaviours"


@pytest.mark.parametrize("project", ["attnref", "PyTorch"])
def test_the_checker_says_the_same(project):
    answers = {
        "fully_masked": ("fully_masked", "zeros"),
        "nan_behind_mask": ("nan_behind_mask", "hidden"),
        "mask_with_causal": ("mask_with_causal", "both"),
        "grouped_queries": ("group_order", "neighbours"),
        "mask_polarity": ("mask_meaning", "allowed"),
        "float_mask": ("float_mask", "added"),
    }
    name = "scaled_dot_product_attention"
    space: dict[str, object] = {}
    exec(PROJECTS[project].implementations[name].setup, space)
    report = check(space[name], only=list(answers), limit=None)
    said = {each.property: each.verdict.value == "pass" for each in report.results}
    recorded = RECORDS[project]["implementations"][name]
    assert said == {
        rule: recorded[question]["answer"] == answer for rule, (question, answer) in answers.items()
    }


def asked(call, question="fully_masked", **about):
    """The answer of a function of one line, which is called ``f``."""
    who = Implementation("f", "f({query}, {key}, {value}{mask})", setup=call, **about)
    return ask(who, QUESTIONS[question])


MASK = ", {it}.expand({n}, {m})"


NAMED = [
    ("f = lambda q, k, v, mask: v", "other", "[0.0, 1.0]"),
    ("f = lambda q, k, v, mask: v * 0", "zeros", "[0.0, 0.0]"),
    ("f = lambda q, k, v, mask: -v * 0", "zeros", "[0.0, 0.0]"),
    ("f = lambda q, k, v, mask: v / 0", "other", "[nan, inf]"),
    ("f = lambda q, k, v, mask: v / 0 - v / 0", "nan", "[nan, nan]"),
    ("f = lambda q, k, v, mask: v * 0 + 0.5", "mean", "[0.5, 0.5]"),
    ("f = lambda q, k, v, mask: v * 0 + 0.496", "mean", "[0.5, 0.5]"),
    ("f = lambda q, k, v, mask: v[7]", "raises", "IndexError: index 7 is out of bounds for"),
    ("f = lambda q, k, v, mask: mask.no", "raises", "AttributeError: 'Tensor' object has no"),
]


def test_an_answer_has_the_name_of_its_output(subtests):
    for function, answer, output in NAMED:
        with subtests.test(function):
            found = asked(function, mask=MASK)
            assert (found.answer, found.output[: len(output)]) == (answer, output)
            assert found.program.startswith(f"import torch\n{function}\n")


def test_an_error_may_have_a_name_too():
    function = "def f(q, k, v, *, scale): return v"
    who = Implementation("f", "f({query}, {key}, {value}{scale})", function, scale=", scale=1.0")
    assert ask(who, QUESTIONS["scale"]).answer == "required"
    assert ask(who, QUESTIONS["large_scores"]).answer == "other"


def test_a_mask_is_passed_as_it_is_meant():
    for means, written in {"allowed": "mask", "forbidden": "~mask", "added": "mask.log()"}.items():
        who = Implementation("f", "f({query}{mask})", mask=MASK, mask_means=means)
        assert f"f(query, {written}.expand(2, 2))" in program(who, QUESTIONS["fully_masked"])
        assert "f(query, mask.expand(2, 2))" in program(who, QUESTIONS["mask_meaning"])


def test_who_does_not_offer_an_option_is_not_asked():
    assert asked("f = None") == Cell(ABSENT)
    assert asked("f = None", mask=MASK, skip=("fully_masked",)) == Cell(ABSENT)
    assert asked("f = None", "double_backward", can=()) == Cell(ABSENT)


def test_an_import_that_fails_is_no_answer(tmp_path, monkeypatch):
    with pytest.raises(ModuleNotFoundError):
        asked("import nothing_of_that_name", "float64")
    (tmp_path / "of_another_torch.py").write_text("raise RuntimeError('no such operator')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="RuntimeError: no such operator"):
        asked("import of_another_torch", "float64")


MADE = """
Made up:
  package: numpy
  implementations:
    f: {setup: "SETUP", call: "f({query}, {key}, {value})"}
"""


@pytest.fixture
def folder(tmp_path):
    """Two questions to an implementation that answers them as it is written."""
    listed = "\n".join(
        f"{name}:\n  title: {{en: T, pt: T}}\n  sizes: {{n: 1, m: 1, d: 1}}\n"
        "  program: |\n    query = key = value = torch.ones(1)\n    CALL\n"
        "  answers:\n    one: {output: [1.0], en: one, pt: um}"
        for name in ("first", "second")
    )
    (tmp_path / "questions.yml").write_text(listed, encoding="utf-8")

    def written(setup):
        behaviour_programs.questions.cache_clear()
        behaviour_programs.projects.cache_clear()
        text = MADE.replace("SETUP", setup)
        (tmp_path / "implementations.yml").write_text(text, encoding="utf-8")
        return behaviour_programs.projects(tmp_path)["Made up"]

    return tmp_path, written


def test_a_difference_between_versions_is_told(folder, monkeypatch):
    path, written = folder
    project = written("f = lambda q, k, v: v")
    assert behaviours.update(project, path).startswith(f"Made up {metadata.version('numpy')}: rec")
    kept = behaviours.load(project, path)
    assert kept["implementations"]["f"]["first"]["answer"] == "one"
    assert behaviours.update(project, path).endswith(": as before.")

    now = {**kept, "version": "99.0", "implementations": {"g": {}, "f": {}}}
    now["implementations"]["f"] = {**kept["implementations"]["f"], "first": {"answer": "two"}}
    monkeypatch.setattr(behaviours, "record", lambda *_: now)
    told = behaviours.update(project, path).splitlines()
    assert told[0] == f"Made up {kept['version']} → 99.0: recorded, 2 changes."
    assert sorted(told[1:]) == ["  f, first: one ([1.0]) → two", "  g: not asked before"]
    assert behaviours.load(project, path) == now

    monkeypatch.setattr(behaviours, "record", lambda *_: kept)
    assert "  g: no longer asked" in behaviours.update(project, path)


def test_a_call_that_ends_its_process_ends_no_other(folder, monkeypatch):
    path, written = folder
    project = written("import os; f = lambda *_: os.abort()")
    found = behaviours.answers(project, project.implementations["f"], path)
    assert [cell.answer for cell in found.values()] == ["ends", "ends"]
    assert found["first"].output == "signal 6"
    assert "os.abort()" in found["first"].program

    second = "import os; n = os.environ.get('N'); os.environ['N'] = '1'"
    project = written(f"{second}; f = lambda *tensors: os.abort() if n else tensors[2]")
    found = behaviours.answers(project, project.implementations["f"], path)
    assert [cell.answer for cell in found.values()] == ["one", "ends"]

    monkeypatch.setattr(behaviours, "LIMIT", 2.0)
    project = written("import time; f = lambda *_: time.sleep(60)")
    found = behaviours.answers(project, project.implementations["f"], path)
    assert [(cell.answer, cell.output) for cell in found.values()] == [("late", "2 s")] * 2


def test_who_is_not_installed_is_named_and_keeps_the_record(folder):
    path, written = folder
    absent = Project("Made up", "no-such-package", {})
    assert behaviours.update(absent, path) == (
        "Made up: no-such-package is not installed; it has no record."
    )
    behaviours.path_of(absent, path).parent.mkdir()
    kept = json.dumps({"version": "1.2"})
    behaviours.path_of(absent, path).write_text(kept, encoding="utf-8")
    assert behaviours.update(absent, path) == (
        "Made up: no-such-package is not installed; its record of 1.2 stays."
    )
    assert behaviours.path_of(absent, path).read_text(encoding="utf-8") == kept

    project = written("import nothing_of_that_name")
    assert behaviours.update(project, path) == (
        "Made up: ModuleNotFoundError: No module named 'nothing_of_that_name'; it has no record."
    )


def test_projects_are_chosen_by_their_packages():
    assert [project.name for project in behaviours.select(["TORCH"])] == ["PyTorch"]
    assert behaviours.select([]) == list(PROJECTS.values())
    with pytest.raises(SystemExit, match="torhc: expected a package among attnref, torch, "):
        behaviours.select(["torhc"])


def test_every_project_keeps_its_record_in_a_file_of_its_own():
    kept = {path.stem for path in (DATA / "records").glob("*.json")}
    assert kept == {PROJECTS[name].package.lower() for name in RECORDS}
