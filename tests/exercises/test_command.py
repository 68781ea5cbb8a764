"""The command line, in a temporary folder: what it writes, prints and answers."""

import functools
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from attnref.book import page_address
from attnref.exercises import command, findings, memory, source, watching
from attnref.exercises.command import HEADING, REMINDER
from attnref.exercises.exercise import all_exercises
from attnref.exercises.findings import failure
from attnref.exercises.judging import FILE, Outcome, judge

COURSE = {exercise.name: exercise for exercise in all_exercises()}
PARTS = ("masks", "heads", "positions")  # the topics of what a model is made of


@pytest.fixture
def exercise(attnref, monkeypatch, tmp_path):
    """Runs the command in a temporary folder: exit status, standard output, standard error."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    return functools.partial(attnref, "exercise")


def write(folder, name, old, new):
    """A started file with one change."""
    path = folder / f"{name}.py"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


TO_WRITE = 'raise NotImplementedError("yours to write")'


def test_an_exercise_from_start_to_end(exercise, tmp_path):
    assert exercise("start", "dot_scores") == (
        0,
        "Wrote dot_scores.py. Write the function in it, then: attnref exercise check dot_scores\n",
        "",
    )
    text = (tmp_path / "dot_scores.py").read_text(encoding="utf-8")
    assert text.startswith(
        '"""Dot-product scores (exercise 1 of 43)\n\n'
        "Read:  the page foundations/six-words of the attnref book\n\n"
        "Check: attnref exercise ch"
    )
    assert exercise("check", "dot_scores") == (
        1,
        "dot_scores is not written yet: replace the line that raises NotImplementedError.\n\n"
        "Explained in: the page foundations/six-words of the attnref book\n",
        "",
    )
    write(tmp_path, "dot_scores", TO_WRITE, "return (key @ query).abs()")
    status, out, err = exercise("check", "dot_scores")
    assert (status, err) == (1, "")
    assert out == (
        "dot_scores is not solved yet: 2 of 3 checks passed.\n"
        "\n"
        "✓ There is one score for each key, the sum of d products.\n"
        "✗ Keys that point away from the query get a negative score.\n"
        "\n"
        "    The result is wrong in 1 of 3 numbers, first at [0]: expected -1, got 1.\n"
        "\n"
        "    called with\n"
        "      query = tensor([1., 0.])\n"
        "      key = tensor([[-1.0000,  0.0000],\n"
        "                    [ 0.0000,  1.0000],\n"
        "                    [ 0.6000,  0.8000]])\n"
        "    expected  tensor([-1.0000,  0.0000,  0.6000])\n"
        "    returned  tensor([1.0000, 0.0000, 0.6000])\n"
        "\n"
        "    Common mistake: An absolute value or a square somewhere. Less than 0 is a score like\n"
        "    any other: it says that the angle exceeds 90°.\n"
        "\n"
        "✓ A key twice as long scores twice as much.\n"
        "\n"
        "Explained in: the page foundations/six-words of the attnref book\n"
    )
    write(tmp_path, "dot_scores", "(key @ query).abs()", "key @ query")
    status, out, err = exercise("check", "dot_scores")
    assert (status, err) == (0, "")
    assert out.startswith("dot_scores is solved: 3 of 3 checks passed.\n\n✓ There is one score")
    assert "\nA score is a sum over the d components" in out
    assert out.endswith("\n\nNext: attnref exercise start sum_normalise\n")


@pytest.mark.claim("watch-follows-saves")
def test_watching_checks_after_each_save_until_it_is_solved(exercise, tmp_path, monkeypatch):
    """The clock of the watch saves the file, in pieces too, instead of waiting for it."""
    path = tmp_path / "dot_scores.py"
    head = "def dot_scores(query, key):\n    return "
    saved = iter(
        [
            lambda: None,
            path.unlink,
            lambda: path.write_text("", encoding="utf-8"),  # not left so, and so not judged
            lambda: path.write_text(f"{head}(key\n", encoding="utf-8"),
            lambda: None,
            lambda: path.write_text(f"{head}key @ query\n", encoding="utf-8"),
            lambda: None,
        ]
    )
    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=lambda _: next(saved)()))
    path.write_text(f"{head}(key @ query).abs()\n", encoding="utf-8")
    status, out, err = exercise("check", "dot_scores", "--watch")
    assert (status, err, list(saved)) == (0, "", [])
    first, second, third = re.split(r"\n\u2500\u2500 \d\d:\d\d:\d\d \u2500{76}\n", out)
    assert first.startswith(
        "dot_scores is not solved yet: 2 of 3 checks passed.\n"
        "\n"
        "✗ Keys that point away from the query get a negative score.\n"
        "\n"
        "    The result is wrong in"
    )
    waiting = "\n\nSave dot_scores.py to have it checked again; Ctrl-C ends.\n"
    assert first.endswith(
        f"Explained in: the page foundations/six-words of the attnref book{waiting}"
    )
    assert "✓" not in first
    assert second == (
        "dot_scores could not be graded.\n\nThe file is not valid Python: '(' was never closed, "
        f"in line 2: return (key{waiting}"
    )
    assert third.startswith("dot_scores is solved: 3 of 3 checks passed.\n\nA score is a sum")
    assert third.endswith("\n\nNext: attnref exercise start sum_normalise\n")


def test_watching_ends_with_ctrl_c_and_the_last_status(exercise, tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=interrupt))
    (tmp_path / "rotary.py").write_text("def rotary(x)\n", encoding="utf-8")
    status, out, err = exercise("check", "rotary", "--watch", "--lang", "pt")
    assert (status, err) == (2, "")
    assert out.endswith("\n\nSalve rotary.py para verificar de novo; Ctrl-C encerra.\n\n")


def test_an_exercise_in_portuguese(exercise, tmp_path):
    status, out, _ = exercise("start", "entropy", "--lang", "pt", "--folder", str(tmp_path))
    options = f"--folder {tmp_path} --lang pt"
    assert status == 0
    assert out == (
        f"{tmp_path}/entropy.py está pronto. Escreva a função que está nele; depois: "
        f"attnref exercise check entropy {options}\n"
    )
    text = (tmp_path / "entropy.py").read_text(encoding="utf-8")
    assert text.startswith(
        '"""Quão espalhados estão os pesos (exercício 28 de 43)\n\n'
        "Ler:       a página scale/entropy do livro attnref\n\nVerificar: "
    )
    assert 'raise NotImplementedError("é a sua vez")' in text
    write(tmp_path, "entropy", 'raise NotImplementedError("é a sua vez")', "return weights.nope")
    status, out, _ = exercise("check", "entropy", "--lang", "pt")
    assert status == 1
    assert out.startswith("entropy ainda não está resolvido: 0 de 4 verificações passaram.\n\n✗ ")
    assert "    Ela lançou um erro. O Python diz: AttributeError: 'Tensor' object has no" in out
    assert "    chamada com\n      weights = tensor([0.5000, 0.5000])\n\n" in out
    assert "    O que fazer: O objeto não tem nada com esse nome." in out
    assert "deslize" not in out
    assert out.endswith("\n\nOnde se explica: a página scale/entropy do livro attnref\n")
    write(tmp_path, "entropy", "return weights.nope", "return (")
    assert exercise("check", "entropy", "--lang", "pt")[1].startswith(
        "entropy não pôde ser avaliado.\n\n"
        "O arquivo não é Python válido. O Python diz: '(' was never closed, na linha "
    )


def test_the_language_is_that_of_the_locale(exercise, monkeypatch):
    monkeypatch.setenv("LANG", "pt_BR.UTF-8")
    _, out, _ = exercise("hint", "dot_scores")
    assert out.startswith("Dica 1 de 3:\n")
    _, out, _ = exercise("hint", "dot_scores", "--lang", "en")
    assert out.startswith("Hint 1 of 3:\n")


def test_what_cannot_be_written_is_refused(exercise, tmp_path):
    (tmp_path / "dot_scores.py").mkdir()
    assert exercise("start", "dot_scores", "--force") == (
        2,
        "",
        "attnref exercise: dot_scores.py cannot be written: Is a directory. Choose another place "
        "with --folder.\n",
    )


def test_hints_lead_to_each_other_and_to_the_solution(exercise):
    assert exercise("hint", "entropy", "2")[1] == (
        "Hint 2 of 3:\n"
        "log(0) is -inf, and 0 * -inf is nan. The term has to be 0 instead.\n"
        "The next one: attnref exercise hint entropy 3\n"
    )
    out = exercise("hint", "entropy", "3", "--lang", "en")[1]
    end = "That was the last hint. The solution: attnref exercise solution entropy --lang en\n"
    assert out.endswith(end)


def test_the_solution_solves_the_exercise(exercise, tmp_path):
    for language in ("en", "pt"):
        status, out, err = exercise("solution", "rotary", "--lang", language)
        assert (status, err) == (0, "")
        assert COURSE["rotary"].text(language).title in out
        (tmp_path / "rotary.py").write_text(out, encoding="utf-8")
        assert exercise("check", "rotary")[0] == 0


@pytest.fixture
def judged_at_once(monkeypatch):
    """A file is solved if it begins with #."""

    def judged(each, path):
        solved = path.read_text(encoding="utf-8").startswith("#")
        return [Outcome(FILE, None if solved else failure(findings.SYNTAX, error="", line=1))]

    monkeypatch.setattr(command, "judge", judged)


@pytest.mark.claim("started-files-are-kept")
@pytest.mark.usefixtures("judged_at_once")
def test_next_starts_the_first_that_is_not_solved_and_writes_over_none(exercise, tmp_path):
    said = "Write the function in it, then: attnref exercise check"
    assert exercise("next") == (
        0,
        f"0 of 43 solved.\nWrote dot_scores.py. {said} dot_scores\n",
        "",
    )
    text = (tmp_path / "dot_scores.py").read_text(encoding="utf-8")
    assert TO_WRITE in text
    (tmp_path / "rotary.py").write_text("#\n", encoding="utf-8")
    assert exercise("next", "--lang", "pt") == (
        0,
        "1 de 43 resolvidos.\nO próximo é dot_scores.py, que você já começou. "
        "Para verificar: attnref exercise check dot_scores --lang pt\n",
        "",
    )
    assert (tmp_path / "dot_scores.py").read_text(encoding="utf-8") == text
    (tmp_path / "dot_scores.py").write_text("#\n", encoding="utf-8")
    assert exercise("next")[1] == (
        f"2 of 43 solved.\nWrote sum_normalise.py. {said} sum_normalise\n"
    )
    for name in COURSE:
        (tmp_path / f"{name}.py").write_text("#\n", encoding="utf-8")
    assert exercise("next") == (
        0,
        "43 of 43 solved.\nNo exercise is left. What comes next is your own attention: "
        "the page practice/checker of the attnref book\n",
        "",
    )


@pytest.mark.usefixtures("judged_at_once")
def test_what_comes_next_is_the_next_that_is_not_solved(exercise, tmp_path):
    names = list(COURSE)

    def next_after(number, *options):
        name = names[number - 1]
        (tmp_path / f"{name}.py").write_text("#\n", encoding="utf-8")
        status, out, _ = exercise("check", name, *options)
        assert status == 0
        return out.split("\n\n")[-1].splitlines()

    left_out = (
        "Before this one, not known to be solved: {}, the first {}. See: attnref exercise list"
    )
    assert next_after(6) == [
        "Next: attnref exercise start causal_mask",
        left_out.format(5, "dot_scores"),
    ]
    assert next_after(2)[0] == "Next: attnref exercise start stable_softmax"
    assert next_after(1) == ["Next: attnref exercise start stable_softmax"]
    (tmp_path / "stable_softmax.py").write_text("half\n", encoding="utf-8")
    assert next_after(1) == ["Next: attnref exercise check stable_softmax"]
    assert next_after(43) == ["That was the last one.", left_out.format(39, "stable_softmax")]
    assert next_after(43, "--lang", "pt") == [
        "Esse era o último.",
        "Antes deste, não constam como resolvidos: 39, o primeiro stable_softmax. "
        "Veja: attnref exercise list --lang pt",
    ]
    for name in names:
        (tmp_path / f"{name}.py").write_text("#\n", encoding="utf-8")
    exercise("list")
    assert next_after(43) == ["That was the last one: all 43 are solved."]
    assert next_after(43, "--lang", "pt") == ["Esse era o último: todos os 43 estão resolvidos."]


@pytest.mark.claim("solved-files-are-remembered")
def test_a_solved_file_is_run_again_only_when_it_has_changed(exercise, tmp_path, monkeypatch):
    (tmp_path / "sign.py").write_text("SIGN = 1\n", encoding="utf-8")
    path = tmp_path / "dot_scores.py"
    right = (
        "import torch\nfrom sign import SIGN\n\n\n"
        "def dot_scores(query, key):\n    return SIGN * (key @ query)\n"
    )
    path.write_text(right, encoding="utf-8")
    solved = "   1  solved   •    dot_scores "
    started = "   1  started  •    dot_scores "
    ran = []

    def noted(each, path):
        ran.append(each.name)
        return judge(each, path)

    monkeypatch.setattr(command, "judge", noted)
    for _ in range(2):
        assert solved in exercise("list")[1]
    assert ran == ["dot_scores"]

    path.write_text(right.replace("SIGN *", "-SIGN *"), encoding="utf-8")
    for count in (2, 3):  # what is not solved is judged each time
        assert started in exercise("list")[1]
        assert len(ran) == count
    path.write_text(right, encoding="utf-8")
    assert solved in exercise("list")[1]
    assert len(ran) == 4
    (tmp_path / "sign.py").write_text("SIGN = -1\n", encoding="utf-8")
    assert started in exercise("list")[1]
    assert len(ran) == 5


def test_the_list_sees_what_the_folder_holds(exercise, tmp_path):
    exercise("start", "causal_mask")
    (tmp_path / "dot_scores.py").write_text(
        source.solution(COURSE["dot_scores"], "en"), encoding="utf-8"
    )
    (tmp_path / "entropy.py").write_text("def entropy(weights)\n", encoding="utf-8")
    status, out, err = exercise("list")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == [
        "Six words",
        "   1  solved   •    dot_scores               Dot-product scores",
        "   2           •    sum_normalise            Scores divided by their sum",
    ]
    assert "   7  started  •    causal_mask              The causal mask" in lines
    assert "  12           ••   safe_softmax             A row with nothing to see" in lines
    assert "  28  started  •    entropy                  How spread the weights are" in lines
    assert {each.difficulty for each in COURSE.values()} == {1, 2, 3}
    assert sum("solved" in line for line in lines) == 2
    assert lines[-2:] == ["", "1 of 43 solved."]
    assert [line for line in lines[:-1] if line and line[0] != " "] == [
        *("Six words", "The formula", "Masks", "Heads"),
        *("Positions", "In blocks", "Training", "Linear attention", "Today's models"),
        "Assembled",
    ]
    assert [line.split()[-1] for line in lines if line.startswith(" ")] == [
        each.text("en").title.split()[-1] for each in COURSE.values()
    ]
    portuguese = exercise("list", "--lang", "pt")[1]
    assert "   1  resolvido  •    dot_scores               Escores por produto esc" in portuguese
    assert "   7  começado   •    causal_mask              A máscara causal\n" in portuguese
    assert portuguese.endswith("\n\n1 de 43 resolvidos.\n")


@pytest.mark.claim("started-files-are-kept")
def test_a_started_file_is_not_written_over(exercise, tmp_path):
    exercise("start", "rotary")
    (tmp_path / "rotary.py").write_text("mine\n", encoding="utf-8")
    assert exercise("start", "rotary") == (
        2,
        "",
        "attnref exercise: rotary.py exists already. To write over it, and lose what is in it, "
        "pass --force.\n",
    )
    assert (tmp_path / "rotary.py").read_text(encoding="utf-8") == "mine\n"
    assert exercise("start", "rotary", "--force")[0] == 0
    assert "def rotary(" in (tmp_path / "rotary.py").read_text(encoding="utf-8")


REFUSED = {
    "start dot-scores": "There is no exercise 'dot-scores'. Did you "
    "mean dot_scores? See: attnref exercise list",
    "check zzz": "There is no exercise 'zzz'. See: attnref exercise list\n",
    "solution zzz --lang pt": "Não existe exercício chamado 'zzz'. Veja: attnref exercise list",
    "check rotary": "rotary.py does not exist. Begin with: attnref exercise start rotary\n",
    "start rotary --folder none": "The folder 'none' does not exist. Create it first.",
    "list --folder nada --lang pt": "A pasta 'nada' não existe. Crie-a antes.",
    "check rotary --watch": "rotary.py does not exist. Begin with: attnref exercise start rotary\n",
    "next --folder none": "The folder 'none' does not exist. Create it first.",
    "list --lang fr": "lang: expected one of en, pt, got 'fr'.\n",
    "hint rotary 4": "There is no hint 4. Choose one from 1 to 3.\n",
    "hint rotary 0 --lang pt": "Não existe a dica 0. Escolha uma de 1 a 3.\n",
}


def test_a_wrong_wish_is_one_line_and_status_2(exercise):
    for arguments, message in REFUSED.items():
        status, out, err = exercise(*arguments.split())
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"attnref exercise: {message}")


def test_a_file_that_cannot_be_judged_is_status_2(exercise, tmp_path):
    for body, said in (
        ("def rotary(x)\n", "The file is not valid Python: expected ':', in line 1: def rotary(x)"),
        ("import os\nos._exit(0)\n", "It ended its process: exit status 0."),
        ("def rotate(x): pass\n", "The file has no function rotary. It has: rotate."),
    ):
        (tmp_path / "rotary.py").write_text(body, encoding="utf-8")
        assert exercise("check", "rotary") == (2, f"rotary could not be graded.\n\n{said}\n", "")


@pytest.mark.claim("assembled-from-solved-functions")
def test_a_model_of_ones_own_functions_names_those_that_are_not_solved(
    exercise, tmp_path, monkeypatch
):
    monkeypatch.setattr(command, "judge", lambda each, path: judge(each, path, 120.0))  # it trains
    status, out, _ = exercise("start", "model")
    assert status == 0
    parts = ("causal_mask", "masked_attention", "split_heads", "decode_step", "rotary")
    unsolved = "The file uses functions of yours, and in its folder these are not solved: {}.\n{}"
    assert out.endswith(
        unsolved.format(
            ", ".join(parts), "".join(f"  attnref exercise start {name}\n" for name in parts)
        )
    )
    for name in parts:
        text = source.solution(COURSE[name], "en")
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    assert exercise("check", "model")[:2] == (
        1,
        "model is not written yet: replace the line that raises NotImplementedError.\n\n"
        "Explained in: the page foundations/kv-cache of the attnref book\n",
    )
    text = source.solution(COURSE["model"], "en")
    (tmp_path / "model.py").write_text(text, encoding="utf-8")
    status, out, _ = exercise("check", "model")
    assert (status, out.split("\n")[0]) == (0, "model is solved: 4 of 4 checks passed."), out

    # What was right is wrong now: without the scale, and with a mask of the first sequence only.
    write(tmp_path, "masked_attention", " / query.shape[-1] ** 0.5", "")
    write(tmp_path, "causal_mask", "diagonal=m - n", "")
    status, out, _ = exercise("check", "model", "--lang", "pt")
    assert (status, out) == (
        2,
        "model não pôde ser avaliado.\n\nO arquivo usa funções suas, e na pasta dele estas não "
        "estão resolvidas: causal_mask,\nmasked_attention.\n"
        "  attnref exercise check causal_mask --lang pt\n"
        "  attnref exercise check masked_attention --lang pt\n",
    )
    (tmp_path / "rotary.py").write_text("def rotary(x)\n", encoding="utf-8")
    assert "\n  attnref exercise check rotary\n" in exercise("check", "model")[1]
    assert "  43  started  •••  model " in exercise("list")[1]


@pytest.mark.claim("assembled-model-writes")
def test_the_file_of_the_model_trains_it_and_writes_the_same_with_the_cache_and_without(
    exercise, tmp_path
):
    for name in ("model", *(each.name for each in COURSE.values() if each.topic in PARTS)):
        text = source.solution(COURSE[name], "pt")
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    ran = subprocess.run([sys.executable, "model.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    *losses, cached, whole, same = ran.stdout.splitlines()
    falling = [float(line.rpartition("= ")[2]) for line in losses]
    assert falling == sorted(falling, reverse=True)
    assert len(falling) == 7
    assert falling[0] > 3 > 0.5 > falling[-1]
    assert [cached, whole] == [
        "cached = 'journeyjourneyjourney'",
        "whole  = 'journeyjourneyjourney'",
    ]
    assert same == "cached == whole = True"


def test_a_call_that_hangs_is_told_without_a_slip(exercise, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "judge", lambda each, path: judge(each, path, 1.0))
    (tmp_path / "rotary.py").write_text(
        "def rotary(x, offset=0):\n    while True: pass\n", encoding="utf-8"
    )
    status, out, _ = exercise("check", "rotary")
    assert status == 1
    assert out == (
        "rotary is not solved yet: 0 of 5 checks passed.\n"
        "\n"
        "✗ Position 0 is left as it is, and a lone row is position 0.\n"
        "\n"
        "    It did not return within 1 s, and was stopped.\n"
        "\n"
        "· The rotation goes from the first component of a pair towards the second.\n"
        "· A pair is two neighbours, 2i and 2i + 1, with the frequency w_i.\n"
        "· The first row is at position `offset`.\n"
        "· Positions run along dimension -2, in every head and sample alike.\n"
        "\n"
        "Explained in: the page foundations/positions of the attnref book\n"
    )


def test_a_property_is_explained_by_the_checker(exercise, tmp_path):
    (tmp_path / "matrix_attention.py").write_text(
        "import torch\n\n\n"
        "def matrix_attention(query, key, value):\n"
        "    if key.shape[-2] == 7 == query.shape[-2]:\n"
        "        return query @ key.mT @ value\n"
        "    return torch.softmax(query @ key.mT, -1) @ value\n",
        encoding="utf-8",
    )
    status, out, _ = exercise("check", "matrix_attention")
    assert status == 1
    assert out.startswith("matrix_attention is not solved yet: ")
    assert "\n✗ The weights of each query sum to 1.\n\n    " in out
    assert f"see {page_address('foundations/softmax-or-sum', 'en')}" in out
    assert "slip" not in out


@pytest.mark.claim("slips-explain-what-came")
def test_the_usual_slip_is_told_where_it_explains_what_came(exercise, tmp_path):
    for name, body, advice in (
        (
            "causal_mask",
            "torch.ones(n, m).tril(m - n)",
            "What to do: The values may be right, but the caller counts on bool.",
        ),
        (
            "sliding_window_mask",
            "(d := torch.arange(n)[:, None] - torch.arange(n)) >= 0 & d < window",
            "What to do: Python asked a whole tensor for a single True or False. `if`, `and`,",
        ),
        ("dot_scores", "(key * query)", "Common mistake: Stopping at the products, which"),
    ):
        assert exercise("start", name)[0] == 0
        write(tmp_path, name, TO_WRITE, f"return {body}")
        status, out, _ = exercise("check", name)
        assert status == 1
        assert f"    {advice}" in out
        assert ("Common mistake" in out) == ("Common mistake" in advice)


def test_the_starter_names_its_commands():
    values = {"title": "T", "number": 1, "all": 30, "page": "P", "check": "C", "hint": "H"}
    heading = HEADING.say("pt", values)
    text = source.starter(COURSE["rotary"], "pt", heading, REMINDER.say("pt"))
    assert text.startswith(
        '"""T (exercício 1 de 30)\n\nLer:       P\n\nVerificar: C\n\nDica:      H\n"""\n\n'
        "import torch\n"
    )


def test_without_a_subcommand_it_explains_itself(exercise):
    status, out, err = exercise()
    assert status == 2
    for word in ("list", "next", "start", "check", "hint", "solution"):
        assert f"\n  {word} " in out + err


def test_a_started_file_runs_and_is_judged_by_the_installed_command(exercise, tmp_path, capsys):
    assert exercise("start", "entropy")[0] == 0
    runpy.run_path(str(tmp_path / "entropy.py"), run_name="__main__")
    assert capsys.readouterr() == ("", "")
    command = [Path(sys.executable).with_name("attnref"), "exercise", "check", "entropy"]
    judged = subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert judged.returncode == 1, judged.stderr


def test_what_may_depend_on_more_than_can_be_seen_is_not_remembered(tmp_path):
    (tmp_path / "one.py").write_text("import rotary\n", encoding="utf-8")
    path = tmp_path / "rotary.py"
    for text, known in {
        "import math\nfrom torch import nn\n": True,
        "import os\n": False,
        "import missing\n": False,
        "from . import rotary\n": False,
        "import one\n": True,  # which imports this one
        "def rotary(x\n": False,
        "\0": False,
    }.items():
        path.write_text(text, encoding="utf-8")
        found = memory.digest(path)
        assert (found is not None) == known, text
        path.write_text(text + "\n", encoding="utf-8")
        assert not known or memory.digest(path) != found
    assert memory.digest(tmp_path / "none.py") is None


def test_what_is_remembered_never_says_more_than_was_seen(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "rotary.py"
    path.write_text("one = 1\n", encoding="utf-8")
    before = memory.digest(path)
    memory.remember(path, before)
    assert memory.is_solved(path)
    memory.remember(path, before)  # nothing new to be written
    path.write_text("one = 2\n", encoding="utf-8")
    assert not memory.is_solved(path)
    memory.remember(path, before)  # it was changed while it was judged
    assert not memory.is_solved(path)

    memory.remember(path, memory.digest(path))
    assert memory.is_solved(path)
    monkeypatch.setattr(memory, "_judge_digest", lambda: b"another package")
    assert not memory.is_solved(path)
    monkeypatch.undo()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "attnref" / "solved.json"
    for text in ("{", "[]"):
        kept.write_text(text, encoding="utf-8")
        assert not memory.is_solved(path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))  # a file, in which nothing can be written
    memory.remember(path, memory.digest(path))
    assert not memory.is_solved(path)
