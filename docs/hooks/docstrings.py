"""Turns a docstring of the package into Markdown: formulas, sections, examples, references.

The package's docstrings are written for Python's help and for Sphinx alike. Only what they use
is understood here: inline roles, ``.. math::``, ``::`` blocks, lists, the sections of Google's
style, and examples, which become code and the output below it, as everywhere in the book.
"""

import doctest
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator

LABELS = {
    "pt": {
        "Args": "Argumentos",
        "Attributes": "Atributos",
        "Returns": "Devolve",
        "Raises": "Erros",
        "Source": "Fonte",
        "Example": "Exemplo",
    },
    "en": {
        "Args": "Arguments",
        "Attributes": "Attributes",
        "Returns": "Returns",
        "Raises": "Raises",
        "Source": "Source",
        "Example": "Example",
    },
}
SECTION = re.compile(r"(?P<name>Args|Attributes|Returns|Raises):")
ROLE = re.compile(r":(?P<role>[a-z]+):`(?P<text>[^`]+)`|``(?P<code>.+?)``")
ITEM = re.compile(r"(?P<names>[*\w]+(?:, [*\w]+)*): (?P<text>.*)", re.DOTALL)
ARXIV = re.compile(r"arXiv (?P<id>\d{4}\.\d{4,5})")
MATH = ".. math::"


def summary(docstring: str, link: Callable[[str], str]) -> str:
    """The first paragraph, in one line of Markdown; ``link`` shows the name of something."""
    return inline(inspect.cleandoc(docstring).partition("\n\n")[0], link)


def body(docstring: str, language: str, link: Callable[[str], str]) -> str:
    """All that follows the first paragraph; labels are in ``language``, the rest is as it is."""
    rest = inspect.cleandoc(docstring).partition("\n\n")[2]
    return "\n\n".join(_blocks(rest, language, link))


def inline(text: str, link: Callable[[str], str]) -> str:
    """One paragraph, its lines joined."""

    def show(match: re.Match) -> str:
        if match["code"] is not None:
            return f"`{match['code']}`"
        if match["role"] == "math":
            return f"${match['text'].strip()}$"
        return link(match["text"].lstrip("~"))

    line = ROLE.sub(show, " ".join(text.split()))
    return ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\g<id>)", line)


def _blocks(text: str, language: str, link: Callable[[str], str]) -> Iterator[str]:
    lines, shown = text.split("\n"), False
    while lines:
        first = lines[0]
        section = SECTION.fullmatch(first)
        if not first.strip():
            del lines[0]
        elif first.startswith(MATH):
            formula = [first.removeprefix(MATH), *_take(lines)[1:]]
            yield _formula([line.strip() for line in formula])
        elif first.startswith(">>> "):
            if not shown:
                yield _label("Example", language)
            shown = True
            yield from _examples(_take(lines, lambda line: bool(line.strip())))
        elif section:
            yield _label(section["name"], language)
            yield from _section(_dedented(_take(lines)[1:]), link)
        elif first.startswith("- "):
            items = _take(lines, lambda line: line.startswith(("- ", "  ")))
            yield "\n".join(
                f"- {inline(item, link)}" for item in re.split(r"(?m)^- ", "\n".join(items))[1:]
            )
        else:
            paragraph = "\n".join(_take(lines, lambda line: bool(line.strip())))
            if paragraph.endswith("::"):
                if said := paragraph.removesuffix("::").rstrip():
                    yield inline(f"{said}:", link)
                while not lines[0].strip():
                    del lines[0]
                code = _take(lines, lambda line: not line or line.startswith(" "))
                yield _fenced("python", _dedented(code))
            elif paragraph.startswith("Source: "):
                said = inline(paragraph.removeprefix("Source: "), link)
                yield f"{_label('Source', language)}\n\n{said}"
            else:
                yield inline(paragraph, link)


def _take(lines: list[str], wanted: Callable[[str], bool] | None = None) -> list[str]:
    """Removes and returns the first line and those after it that are wanted, or are indented."""
    stop = 1
    while stop < len(lines) and (
        wanted(lines[stop]) if wanted else not lines[stop].strip() or lines[stop][0] == " "
    ):
        stop += 1
    taken, lines[:] = lines[:stop], lines[stop:]
    return taken


def _dedented(lines: list[str]) -> str:
    """Without the indentation that all share: cleandoc would not count that of the first line."""
    return textwrap.dedent("\n".join(lines)).strip("\n")


def _section(text: str, link: Callable[[str], str]) -> Iterator[str]:
    """Definitions of named things, or paragraphs where the text begins without a name."""
    for item in re.split(r"\n(?=\S)", text) if ITEM.match(text) else re.split(r"\n\n", text):
        named = ITEM.match(item)
        if named is None:
            yield inline(item, link)
            continue
        terms = ", ".join(f"`{name}`" for name in named["names"].split(", "))
        yield f"{terms}\n:   {inline(named['text'], link)}"


def _examples(lines: list[str]) -> Iterator[str]:
    """Code without its prompts, and what it prints where it prints."""
    code = ""
    for example in doctest.DocTestParser().get_examples("\n".join(lines) + "\n"):
        code += example.source
        if example.want:
            yield _fenced("python", code)
            yield _fenced("text", example.want)
            code = ""
    if code:
        yield _fenced("python", code)


def _formula(lines: list[str]) -> str:
    tex = "\n".join(line for line in lines if line)
    return f"$$\n{tex}\n$$"


def _fenced(language: str, code: str) -> str:
    return f"```{language}\n{code.rstrip()}\n```"


def _label(name: str, language: str) -> str:
    return f"{LABELS[language][name]}\n{{ .api-label lang={language} }}"
