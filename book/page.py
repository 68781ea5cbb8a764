"""A page of the book, and how its Markdown is read.

Fenced blocks, headings and links are told by markdown-it, with the line where each begins. What
a pass replaces in running text it finds with a pattern: tokens do not know their column.
"""

import json
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml
from click import ClickException
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

ROOT = Path(__file__).parents[1]
LANGUAGES = ("pt", "en")
# Within a line, for what replaces text beside them.
HEADING = re.compile(r"^(?P<level>#{1,6}) .*?(?:\{ ?#(?P<id>[\w-]+) ?\})?\s*$")
LINK = re.compile(r"(?P<image>!?)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\((?P<target>[^)\s]+)[^)]*\)")
FRONT_MATTER = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)
IDENT = re.compile(r"\s*\{:?[^}]*?#(?P<id>[\w-]+)[^}]*\}\s*$")
SHOWN = ("*.md", "docs/*.yml", "docs/*.bib", "snippets/**/*.py", "attnref/**/*.py", "tests/**/*.py")
CODE = r"(?P<ticks>(?<!`)`+)(?!`).*?(?<!`)(?P=ticks)(?!`)"  # in running text


@dataclass(frozen=True)
class Problem:
    """Something wrong on a page: where, what, and how to fix it."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class BookError(ClickException, SystemExit):
    """The book cannot be made: what is wrong, where, and how to fix it.

    Commands say it without a trace, and so does ``mkdocs serve``, which goes on.
    """

    @property
    def code(self) -> str:  # type: ignore[override]
        """What Python says when nothing has caught it; the status is then 1."""
        return f"attnref: {self.format_message()}"


@dataclass(eq=False)
class Page:
    """A page of one language: where it stands, and what its author wrote.

    Attributes:
        uri: its path below the folder of its language, ``foundations/masks.md``.
        path: its file.
        source: what is in it; of a notebook that is JSON.
    """

    uri: str
    path: Path
    source: str

    @cached_property
    def matter(self) -> dict[str, Any]:
        """What it says of itself before its first line."""
        if not self.is_notebook:
            return front_matter(self.source, self.path)
        notebook = json.loads(self.source)
        heading = "".join(notebook["cells"][0]["source"]).partition("\n")[0]
        return {**notebook["metadata"], "title": heading.removeprefix("# ")}

    @property
    def is_notebook(self) -> bool:
        return self.uri.endswith(".ipynb")

    @property
    def staged(self) -> str:
        """Where its Markdown is staged: that of a notebook beside it, out of an engine's sight."""
        if not self.is_notebook:
            return self.uri
        folder, _, name = self.uri.rpartition("/")
        return f"{folder}/.{name.removesuffix('.ipynb')}.md"

    @property
    def title(self) -> str:
        return str(self.matter.get("title", self.uri))

    @property
    def name(self) -> str:
        """What the navigation calls it: its title, or a shorter one."""
        return str(self.matter.get("nav", self.title))

    @property
    def url(self) -> str:
        """Where it is published: ``foundations/masks/``."""
        place = self.uri.rpartition(".")[0]
        return "" if place == "index" else f"{place.removesuffix('/index')}/"

    def address(self, place: str) -> str:
        """The address of something published, as its HTML has to name it.

        >>> Page("variants/ring.md", Path(), "").address("code/ring.py")
        '../../code/ring.py'
        """
        ends = "/" if place.endswith("/") else ""
        return posixpath.relpath(place or ".", self.url or ".") + ends

    def link(self, uri: str) -> str:
        """The way from its file to another of the same language, as Markdown has to name it.

        >>> Page("variants/ring.md", Path(), "").link("foundations/masks.md#causal")
        '../foundations/masks.md#causal'
        """
        uri, hash_sign, place = uri.partition("#")
        return posixpath.relpath(uri, posixpath.dirname(self.uri) or ".") + hash_sign + place

    def fill(self, markdown: str, place: str, content: str) -> str:
        """The page with ``content`` in its place, which its author marked with a comment."""
        if place not in markdown:
            raise BookError(f"{self.path}:1: expected the line {place}")
        return markdown.replace(place, content)


def files(root: Path) -> list[Path]:
    """The Markdown pages of both languages."""
    folders = (root / "docs" / language for language in LANGUAGES)
    return sorted(path for folder in folders for path in folder.rglob("*.md"))


def locate(path: Path, text: str, root: Path = ROOT) -> tuple[Path, int]:
    """File and line of what is seen on a page: its own file, or else one that is shown on it.

    It is looked for in prose, then in code; a notebook quotes it.
    """
    quoted = json.dumps(text, ensure_ascii=False)[1:-1]
    for file in (path, *(file for pattern in SHOWN for file in sorted(root.glob(pattern)))):
        source = file.read_text(encoding="utf-8")
        lines = [line for line, _ in find_in_prose(re.compile(re.escape(text)), source)]
        lines += [
            n for n, line in enumerate(source.split("\n"), 1) if text in line or quoted in line
        ]
        if lines:
            return file, lines[0]
    return path, 1


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its first and its last line, and the lines between them.

    The language is ``unclosed`` where the second fence is missing, and ``indented`` where there
    is none, but four blanks before each line, which makes code of it, too.
    """

    language: str
    line: int
    end: int
    body: tuple[str, ...]


@dataclass(frozen=True)
class Heading:
    """A heading: its level, its words, its id if it has one, and its line."""

    level: int
    title: str
    id: str | None
    line: int


@dataclass(frozen=True)
class Link:
    """What a link leads to or an image shows, and the line where it stands."""

    target: str
    is_image: bool
    line: int


def blocks(text: str) -> list[Block]:
    """The blocks of code of a page, also those in a list or an admonition."""
    return _structure(text)[0]


def headings(text: str) -> list[Heading]:
    return _structure(text)[1]


@lru_cache(maxsize=1000)  # each page is asked for by many passes
def _structure(text: str) -> tuple[list[Block], list[Heading]]:
    blocks, headings = [], []
    parsed = _markdown(with_inline=False).parse(text)
    for place, token in enumerate(parsed):
        first, end = token.map or (0, 0)
        if token.type in ("fence", "code_block"):
            body = tuple(token.content.split("\n")[:-1])
            info = re.sub(r"[{}]", " ", token.info).split()
            language = info[0].lstrip(".").lower() if info else ""
            if token.type == "code_block":
                language = "indented"
            elif end - first < len(body) + 2:
                language = "unclosed"
            blocks.append(Block(language, first + 1, end, body))
        elif token.type == "heading_open":
            title, level = parsed[place + 1].content, int(token.tag[1])
            ident = IDENT.search(title)
            headings.append(Heading(level, IDENT.sub("", title), ident and ident["id"], first + 1))
    return blocks, headings


@lru_cache(maxsize=1000)
def links(text: str) -> list[Link]:
    """The links and images of a page; an address alone, ``<https://…>``, is none of them."""
    links = []
    for token in tokens(text):
        if token.type == "inline":
            line = (token.map or (0, 0))[0] + 1
            for child in token.children or ():
                line += child.type in ("softbreak", "hardbreak")
                if child.type in ("link_open", "image") and child.markup != "autolink":
                    target = child.attrs["src" if child.type == "image" else "href"]
                    links.append(Link(str(target), child.type == "image", line))
    return links


def tokens(text: str) -> list[Token]:
    """A page as markdown-it reads it."""
    return _markdown(with_inline=True).parse(text)


@cache
def _markdown(with_inline: bool) -> MarkdownIt:
    """A parser of the dialect in which the pages are written; without what is in a line, faster."""
    parser = MarkdownIt("commonmark").enable("table")
    parser.use(front_matter_plugin).use(dollarmath_plugin).use(admon_plugin)
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]  # as it is written
    if not with_inline:
        parser.disable("inline")
    return parser


def lines_outside_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line that no block of code holds."""
    inside = {n for block in blocks(text) for n in range(block.line, block.end + 1)}
    for number, line in enumerate(text.split("\n"), 1):
        if number not in inside:
            yield number, line


def find_in_prose(pattern: re.Pattern[str], text: str) -> list[tuple[int, re.Match[str]]]:
    """Each match in running text, with its line: code is passed over, in blocks and in the line."""
    either = _code_or(pattern)
    return [
        (number, match)
        for number, line in lines_outside_blocks(text)
        for match in either.finditer(line)
        if not match["ticks"]
    ]


def replace_in_prose(
    pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], text: str
) -> str:
    """The page with each match in running text replaced; code is shown as it is."""
    either, lines = _code_or(pattern), text.split("\n")
    for number, line in lines_outside_blocks(text):
        lines[number - 1] = either.sub(lambda m: m[0] if m["ticks"] else replace(m), line)
    return "\n".join(lines)


def _code_or(pattern: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile(f"{CODE}|{pattern.pattern}")


def is_alone(lines: list[str], number: int) -> bool:
    """Whether the line of this number, counted from 1, is a paragraph of its own."""
    before, after = lines[: number - 1][-1:], lines[number : number + 1]
    return not any(map(str.strip, before + after))


def front_matter(text: str, path: Path) -> dict[str, Any]:
    """What the page in this file says of itself before its first line."""
    match = FRONT_MATTER.match(text)
    try:
        return read_yaml(match[1]) if match else {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        message = f"no YAML, {error.problem}: put a text with a colon between quotation marks"
        raise BookError(str(Problem(path, line, message))) from None


def read_yaml(text: str) -> Any:
    """As ``yaml.safe_load`` reads it; ten times faster where PyYAML has its parser in C."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def of_the_package() -> dict[str, Any]:
    """What docs/package.py has told, as it is recorded: a build imports no package."""
    told: dict[str, Any] = json.loads((ROOT / "docs" / "package.json").read_text(encoding="utf-8"))
    return told


def title(path: Path) -> str:
    """What the front matter of a page calls it."""
    return str(front_matter(path.read_text(encoding="utf-8"), path)["title"])


def strip_accents(word: str) -> str:
    """The word with its letters bare: "atenção" is "atencao"."""
    return "".join(
        letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter)
    )
