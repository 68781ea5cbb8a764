"""What the hooks and the contracts both need to know of a Markdown page."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parent.parent.parent
HEADING = re.compile(r"^(?P<level>#{1,6}) .*?(?:\{ ?#(?P<id>[\w-]+) ?\})?\s*$")
LINK = re.compile(r"(?P<image>!?)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\((?P<target>[^)\s]+)[^)]*\)")
FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})\s*(?P<info>.*?)\s*$")


@dataclass(frozen=True)
class Problem:
    """Something wrong on a page: where, what, and how to mend it."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def stop_at(problems: Callable[[Path, str, Path], list[Problem]], page) -> None:
    """Stops the build if ``problems`` finds any in the page's file, as its author wrote it."""
    path = Path(page.file.abs_src_path)
    found = problems(path, path.read_text(encoding="utf-8"), ROOT)
    if found:
        raise PluginError("\n".join(map(str, found)))


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the line of its fence, and its lines."""

    language: str
    line: int
    body: tuple[str, ...]


def replaced_outside_blocks(pattern: re.Pattern, replace: Callable, text: str) -> str:
    """The page with each match replaced, except in fenced blocks, which show code as it is."""
    lines = text.split("\n")
    for number, line in lines_outside_blocks(text):
        lines[number - 1] = pattern.sub(replace, line)
    return "\n".join(lines)


def lines_outside_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line that no fenced block holds."""
    inside = {
        n for block in blocks(text) for n in range(block.line, block.line + len(block.body) + 2)
    }
    for number, line in enumerate(text.split("\n"), 1):
        if number not in inside:
            yield number, line


def is_alone(lines: list[str], number: int) -> bool:
    """Whether the line of this number, counted from 1, is a paragraph of its own."""
    before, after = lines[: number - 1][-1:], lines[number : number + 1]
    return not any(map(str.strip, before + after))


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, also those indented in a list or an admonition."""
    found: list[Block] = []
    opened, body = None, []
    for number, line in enumerate(text.split("\n"), 1):
        fence = FENCE.match(line)
        if opened is None:
            if fence:
                opened, body = (number, fence), []
        elif fence and not fence["info"] and fence["ticks"].startswith(opened[1]["ticks"]):
            info = opened[1]["info"].replace("{", " ").replace("}", " ").split()
            language = info[0].lstrip(".").lower() if info else ""
            found.append(Block(language, opened[0], tuple(body)))
            opened = None
        else:
            body.append(line)
    if opened is not None:
        found.append(Block("unclosed", opened[0], tuple(body)))
    return found


def title(path: Path) -> str:
    """What the front matter of a page calls it."""
    said = re.search(r"^title: *(.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)[1]
    return yaml.safe_load(said)  # in quotes where it holds a colon


def without_accents(word: str) -> str:
    """The word with its letters bare: "atenção" is "atencao"."""
    return "".join(
        letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter)
    )
