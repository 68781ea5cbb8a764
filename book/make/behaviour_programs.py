"""How an implementation answers a question, with the smallest program that shows it.

python -m book.make.behaviour_programs FOLDER PROJECT IMPLEMENTATION QUESTION…

prints a line of JSON for each question. FOLDER is docs/behaviours: questions.yml has what is asked,
implementations.yml who is asked and how each is called. From both comes a program as a reader would
write it. It is run as it is shown, and the value of its last line is the answer.
"""

import ast
import contextlib
import io
import json
import re
import sys
import textwrap
import warnings
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import yaml

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "behaviours"
# Answers that every question may have, beside its own.
ABSENT, RAISES, OTHER, ENDS, LATE = "absent", "raises", "other", "ends", "late"
LIBRARY = ("autograd", "memory")  # what PyTorch can do for a function that is made of it


@dataclass(frozen=True)
class Cell:
    """An answer's name, the program that shows it, and what that gave or raised."""

    answer: str
    program: str = ""
    output: str = ""


@dataclass(frozen=True)
class Question:
    """A program with a place for the call, and what each of its results is called."""

    name: str
    title: dict[str, str]
    program: str
    sizes: dict[str, int | str]
    answers: dict[str, dict[str, Any]]
    uses: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    of: str = "attention"
    omits: tuple[str, ...] = ()
    mask: str = "as it means"


@dataclass(frozen=True)
class Implementation:
    """A function or a layer of a project, and how it is written with each option.

    It is ``of`` attention, a recurrence with log ``decay`` and ``rate``, or a whole model of
    ``tokens``, vectors of 32. A program is filled in from these texts: ``{query}``, ``{key}`` and
    ``{value}`` are the tensors as it ``takes`` them, ``{mask}``, ``{causal}``, ``{gqa}``,
    ``{window}``, ``{sink}`` and ``{scale}`` its options, ``{n}``, ``{m}``, ``{d}``, ``{heads}``
    and ``{width}``, of a window, the sizes. ``{it}`` in a mask is the mask over the keys. One may
    be asked ``only`` some.
    """

    name: str
    call: str
    setup: str = ""
    of: str = "attention"
    takes: str = "{}"
    gives: str = "{}"
    mask_means: str = "allowed"
    mask: str | None = None
    causal: str | None = None
    gqa: str | None = None
    window: str | None = None
    sink: str | None = None
    scale: str = ""
    without: dict[str, str] | None = None
    can: tuple[str, ...] = LIBRARY
    skip: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    issues: dict[str, str] | None = None

    def offers(self, question: Question) -> bool:
        """Whether it takes what the question passes, and can do what the question needs."""
        if self.of != question.of:
            return False
        if question.name in self.skip or not set(question.needs) <= set(self.can):
            return False
        if self.only and question.name not in self.only:
            return False
        return all(getattr(self, option) is not None for option in question.uses)


@dataclass(frozen=True)
class Project:
    """A project, with the name of its package on PyPI."""

    name: str
    package: str
    implementations: dict[str, Implementation]


@cache
def questions(folder: Path = DATA) -> dict[str, Question]:
    """By name, in the order of the page."""
    listed = yaml.safe_load((folder / "questions.yml").read_text(encoding="utf-8"))
    return {name: Question(name, **about) for name, about in listed.items()}


@cache
def projects(folder: Path = DATA) -> dict[str, Project]:
    """By name, in the order of the page."""
    listed = yaml.safe_load((folder / "implementations.yml").read_text(encoding="utf-8"))
    return {
        name: Project(
            name,
            about["package"],
            {
                called: Implementation(called, **(about.get("all", {}) | own))
                for called, own in about["implementations"].items()
            }
            | (_own_methods(about["records"]) if "records" in about else {}),
        )
        for name, about in listed.items()
    }


def _own_methods(module: str) -> dict[str, Implementation]:
    """The methods of attnref, which say themselves how they are called."""
    masks = {"all": ", attn_mask={it}.expand({n}, {m})", "keys": ", attn_mask={it}[None]"}
    found = {}
    for name, method in import_module(module).records().items():
        asked = ", is_causal=True" if method.takes("is_causal") else None
        called = method.function.__name__
        found[called] = Implementation(
            called,
            "attention({query}, {key}, {value}{mask}{causal}{gqa})",
            f'from {module} import records\nattention = records()["{name}"].as_called()',
            mask=masks.get(method.masks) if method.takes("attn_mask") else None,
            causal="" if method.causal else asked,
            gqa=", enable_gqa=True" if method.takes("enable_gqa") else None,
            # Differences of what is rounded say nothing.
            skip=("double_backward",) if method.error else (),
        )
    return found


# What a function with masks of each meaning is given for a mask whose True allows.
_SAID = {"allowed": "mask", "forbidden": "~mask", "added": "mask.log()"}


def program(who: Implementation, question: Question) -> str:
    """Imports, inputs and a call; the last line is what to look at."""
    text, setup = question.program, who.setup.strip()
    inside = re.search(r"^( +)SETUP\n", text, re.MULTILINE)
    if inside:
        lines = textwrap.indent(f"{setup}\n", inside[1]) if setup else ""
        text = "import torch\n" + text.replace(inside[0], lines)
    else:
        text = "\n".join(filter(None, ["import torch", setup, text]))
    text = text.replace("CALL", who.gives.replace("{}", who.call))
    tensors = {name: who.takes.replace("{}", name) for name in ("query", "key", "value")}
    sizes = {"heads": 1, "groups": 1, **question.sizes}
    for place, written in {**_options(who, question), **tensors, **sizes}.items():
        text = text.replace(f"{{{place}}}", str(written))
    return text


def _options(who: Implementation, question: Question) -> dict[str, str]:
    """How this implementation is told each option that the question passes, or does not pass."""
    given = "mask" if question.mask == "as it is" else _SAID[who.mask_means]
    mask = (who.mask or "").replace("{it}", given)
    without = who.without or {}
    written = {"causal": who.causal, "gqa": who.gqa, "window": who.window, "sink": who.sink}
    options = {
        option: (text or "") if option in question.uses else without.get(option, "")
        for option, text in {"mask": mask, **written}.items()
    }
    return {**options, "scale": "" if "scale" in question.omits else who.scale}


def ask(who: Implementation, question: Question) -> Cell:
    """Runs the program of a question in this process."""
    if not who.offers(question):
        return Cell(ABSENT)
    text = program(who, question)
    *before, last = ast.parse(text).body
    assert isinstance(last, ast.Expr)
    space: dict[str, object] = {}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            for statement in before:
                _run(statement, space)
            found = eval(compile(ast.Expression(last.value), "<program>", "eval"), space)
        except ImportError:
            raise  # of nothing that it was asked
        except Exception as error:
            return Cell(
                _answer_name(question, "raises", type(error).__name__, RAISES),
                text,
                _describe_error(error),
            )
    output = str(round_numbers(found))
    return Cell(_answer_name(question, "output", output, OTHER), text, output)


def _run(statement: ast.stmt, space: dict[str, object]) -> None:
    try:
        exec(compile(ast.Module([statement], []), "<program>", "exec"), space)
    except Exception as error:
        imports = isinstance(statement, ast.Import | ast.ImportFrom)
        if imports and not isinstance(error, ImportError):  # a package for another PyTorch
            raise ImportError(_describe_error(error)) from error
        raise


def _answer_name(question: Question, kind: str, found: str, otherwise: str) -> str:
    """What a question calls an output, or an error."""
    names = (name for name, about in question.answers.items() if str(about.get(kind)) == found)
    return next(names, otherwise)


def round_numbers(found: object) -> object:
    """A tensor as lists of numbers with two decimals; anything else as it is."""
    if isinstance(found, torch.Tensor):
        return round_numbers(found.detach().double().tolist())
    if isinstance(found, list):
        return [round_numbers(one) for one in found]
    return round(found, 2) + 0.0 if isinstance(found, float) else found  # + 0.0: no minus zero


def _describe_error(error: Exception) -> str:
    """The kind of an error, and the beginning of what it says."""
    said = next(iter(str(error).strip().splitlines()), "")
    kind = type(error).__name__
    return f"{kind}: {textwrap.shorten(said, 160, placeholder=' …')}" if said else kind


if __name__ == "__main__":
    _, folder, project, implementation, *names = sys.argv
    who = projects(Path(folder))[project].implementations[implementation]
    for name in names:
        cell = ask(who, questions(Path(folder))[name])
        print(json.dumps({"question": name, **asdict(cell)}), flush=True)
