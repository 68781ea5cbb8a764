"""Writes an exercise as a Python file: to be solved, or solved."""

import ast
import re
import textwrap

from attnref.exercises.exercise import Exercise

_WIDTH = 79
_INDENT = "    "
# A solution is made of other solutions, the learner's file of the learner's files.
_PART = re.compile(r"^from attnref\.exercises\.course\.(\w+)\.solution import", re.MULTILINE)


def starter(exercise: Exercise, language: str, heading: str, reminder: str) -> str:
    """The file that a learner begins with: it runs, and its function is not written yet.

    Args:
        exercise: which.
        language: of the docstrings.
        heading: paragraphs for the top of the file, such as how to check it.
        reminder: the message of the ``NotImplementedError``.
    """
    before, _ = _parts(exercise)
    return _file(exercise, language, heading, before, [f"{_INDENT}raise {_error(reminder)}"])


def solution(exercise: Exercise, language: str) -> str:
    """The same file with the function written, and why it is written so."""
    text = exercise.text(language)
    return _file(exercise, language, f"{text.title}\n\n{text.why}", *_parts(exercise))


def _file(
    exercise: Exercise, language: str, heading: str, before: list[str], body: list[str]
) -> str:
    text = exercise.text(language)
    task = textwrap.indent(text.task, _INDENT)
    return "\n".join(
        [
            f'"""{fill(heading)}',
            '"""',
            *before,
            f'{_INDENT}"""{task.lstrip()}',
            f'{_INDENT}"""',
            *body,
            *(_given(exercise, text.given) if text.given else ()),
            "",
        ]
    )


def _parts(exercise: Exercise) -> tuple[list[str], list[str]]:
    """The lines of the solution from its imports to the signature, and those of the body."""
    source = _read(exercise)
    lines = source.splitlines()
    top, *statements = ast.parse(source).body
    functions = [node for node in statements if isinstance(node, ast.FunctionDef)]
    (function,) = (node for node in functions if node.name == exercise.name)
    imports = lines[top.end_lineno : functions[0].lineno - 1]
    if not any(imports):  # there is always something to try out with torch
        imports = ["", "import torch", "", ""]
    end = _signature_end(function, lines)
    documented = ast.get_docstring(function) is not None
    begin = function.body[0].end_lineno if documented else end
    return [*imports, *lines[function.lineno - 1 : end]], lines[begin : function.end_lineno]


def _given(exercise: Exercise, docstrings: dict[str, str]) -> list[str]:
    """The lines after the function, which are given, with their docstrings."""
    source = _read(exercise)
    lines = source.splitlines()
    body = ast.parse(source).body
    functions = {each.name: each for each in body if isinstance(each, ast.FunctionDef)}
    begin = functions[exercise.name].end_lineno
    for name, docstring in reversed(docstrings.items()):
        text = textwrap.indent(fill(f'"""{docstring}"""'), _INDENT)
        lines.insert(_signature_end(functions[name], lines), text)
    return lines[begin:]


def _read(exercise: Exercise) -> str:
    return _PART.sub(r"from \1 import", exercise.solution_path.read_text(encoding="utf-8"))


def _signature_end(function: ast.FunctionDef, lines: list[str]) -> int:
    """The number of the last line before the body."""
    numbers = range(function.lineno, len(lines) + 1)
    return next(number for number in numbers if lines[number - 1].endswith(":"))


def _error(message: str) -> str:
    return f'NotImplementedError("{message}")'


def fill(text: str) -> str:
    """Each paragraph filled to the width of the file."""
    return "\n\n".join(textwrap.fill(each, _WIDTH - 3) for each in text.split("\n\n"))
