"""Writes the reference of the package from its docstrings, and links pages and reference.

A page of the reference names modules, one a line (``variants.*`` means those that no page names):

    ```api
    masks
    positions
    ```

and gets an entry for each public name: its signature, what its docstring says, where its code
and its tests are, and the pages that speak of it. In the other direction, inline code that names
something public, such as `masks.causal` or `attention_weights`, becomes a link to its entry where
it first stands in a section, and each page ends with the names that its snippets use.

Docstrings are in English. What is said of each name in Portuguese, in one line, is in
docs/api.pt.yml.
"""

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import docstrings
import mentions
import public_names
import yaml
from mkdocs.exceptions import PluginError
from pages import ROOT, Block, Problem, blocks, stop_at, title
from public_names import Name, modules, names, signature, tests

FOLDER = "reference/api/"
PLACE = "<!-- every name -->"
SOURCE = "en"  # the language of the docstrings
WORDS = {
    "pt": {
        "code": "Código",
        "tests": "Testes",
        "copy": "Para copiar",
        "explained": "Explicado em",
        "used": "Aparece em",
        "here": "Do pacote, nesta página",
    },
    "en": {
        "code": "Code",
        "tests": "Tests",
        "copy": "Copy it",
        "explained": "Explained in",
        "used": "Found in",
        "here": "Of the package, on this page",
    },
}


@cache
def places(root: Path) -> dict[str, str]:
    """The page of the reference that holds each module, in the order of the blocks."""
    return {
        module: page.relative_to(root / "docs" / "en").as_posix()
        for page, block in _blocks(root)
        for module in asked(block, root)
    }


def asked(block: Block, root: Path) -> list[str]:
    """The modules that a block means; ``variants.*`` are those that no block names."""
    lines = list(filter(None, map(str.strip, block.body)))
    if not any(line.endswith("*") for line in lines):
        return lines
    named = {line.strip() for _, other in _blocks(root) for line in other.body}
    found = []
    for line in lines:
        folder = line.removesuffix("*")
        rest = [module for module in modules(root) if module.startswith(folder)]
        found += [line] if folder == line else [one for one in rest if one not in named] or [line]
    return found


def _blocks(root: Path) -> Iterator[tuple[Path, Block]]:
    for page in sorted((root / "docs" / "en" / FOLDER).glob("*.md")):
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.language == "api":
                yield page, block


@cache
def summaries(root: Path, language: str) -> dict[str, str]:
    """What is said of each name in another language than that of the docstrings."""
    path = root / "docs" / f"api.{language}.yml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """Modules that are none, and blocks that ask for nothing."""
    found = []
    for block in blocks(text):
        if block.language != "api":
            continue
        wanted, known = asked(block, root), ", ".join(modules(root))
        for module in wanted:
            if module not in modules(root):
                message = f"module {module!r}: expected one of {known}"
                found.append(Problem(page, block.line, message))
        if not wanted:
            found.append(Problem(page, block.line, f"no module: name one of {known}"))
    return found


_order: list[str] = []


def on_pre_build(config) -> None:
    for cached in (places, summaries, *public_names.CACHED, *mentions.CACHED):
        cached.cache_clear()


def on_nav(nav, config, files) -> None:
    _order[:] = [page.file.src_uri for page in nav.pages]


def _rank(page: str) -> int:
    """Its place in the navigation, those outside of it last."""
    return _order.index(page) if page in _order else len(_order)


def on_page_markdown(markdown: str, page, config, files) -> str:
    stop_at(problems, page)
    here, language = page.file.src_uri, Path(config.docs_dir).name
    writer = Writer(here, language)
    if here.startswith(FOLDER):
        lines = markdown.split("\n")
        for block in reversed(blocks(markdown)):
            if block.language == "api":
                entries = [writer.module(module) for module in asked(block, ROOT)]
                lines[block.line - 1 : block.line + len(block.body) + 1] = ["\n\n".join(entries)]
        markdown = "\n".join(lines)
        if PLACE in markdown:
            markdown = markdown.replace(PLACE, writer.index())
    used_here = mentions.used(markdown, ROOT)
    markdown = mentions.linked(markdown, ROOT, writer.link)
    if used_here:
        shown = ", ".join(writer.link(names(ROOT)[key]) for key in used_here)
        # The search would find every page that uses a name before the entry of the name itself.
        attributes = "{ .api-uses data-search-exclude='' }"
        markdown += f"\n\n{WORDS[language]['here']}: {shown}.\n{attributes}"
    return markdown


@dataclass(frozen=True)
class Writer:
    """Writes Markdown for one page.

    Attributes:
        here: the path of the page.
        language: of the page.
    """

    here: str
    language: str

    def link(self, name: Name, code: str = "") -> str:
        """A link to the entry of a name."""
        page = places(ROOT)[name.module]
        target = "" if page == self.here else self._path(page)
        return f"[`{code or name.short}`]({target}#{name.anchor})"

    def index(self) -> str:
        """All names with what they do, a list for each module."""
        parts = []
        for module in self._modules():
            entries = [
                f"- {self.link(name, name.anchor)}: {self._summary(name)}"
                for name in self._of(module)
            ]
            heading = f"## `attnref.{module.key}` {{#{module.anchor}}}"
            parts += [heading, self._summary(module), "\n".join(entries)]
        return "\n\n".join(parts)

    def module(self, key: str) -> str:
        """A module and all its names."""
        module = modules(ROOT)[key]
        parts = [
            f"## `attnref.{key}` {{#{module.anchor}}}",
            self._summary(module),
            self._body(module),
        ]
        for name in self._of(module):
            parts += [
                f"### `{name.anchor}` {{#{name.anchor}}}",
                self._summary(name),
                f"```python\n{signature(name.node)}\n```",
                self._body(name),
            ]
            for method in name.methods:
                parts += [
                    f"#### `{method.anchor}` {{#{method.anchor}}}",
                    f"```python\n{signature(method.node)}\n```",
                    self._english(docstrings.summary(method.docstring, self._role(name))),
                    self._body(method),
                ]
            parts.append(self._foot(name))
        return "\n\n".join(filter(None, parts))

    def _modules(self) -> list[Name]:
        """In the order of the pages."""
        return [
            modules(ROOT)[key]
            for key in sorted(places(ROOT), key=lambda key: _rank(places(ROOT)[key]))
        ]

    def _of(self, module: Name) -> list[Name]:
        return [name for name in names(ROOT).values() if name.module == module.key]

    def _summary(self, name: Name) -> str:
        if self.language == SOURCE:
            return docstrings.summary(name.docstring, self._role(name))
        said = summaries(ROOT, self.language).get(name.key)
        if not said:
            raise PluginError(f"docs/api.{self.language}.yml: expected a sentence for {name.key}")
        return said

    def _body(self, name: Name) -> str:
        return self._english(docstrings.body(name.docstring, self.language, self._role(name)))

    def _english(self, text: str) -> str:
        return text and f'<div class="api-text" lang="en" markdown>\n\n{text}\n\n</div>'

    def _role(self, user: Name) -> Callable[[str], str]:
        """Shows what a docstring refers to; names of its own module may stand alone."""

        def show(text: str) -> str:
            bare = text.removeprefix("attnref.")
            known = mentions.by_ending(ROOT)
            name = known.get(f"{user.module}.{bare}") or known.get(bare) or modules(ROOT).get(bare)
            if name is None or name.key == user.key:
                return f"`{text}`"
            return self.link(name, text)

        return show

    def _foot(self, name: Name) -> str:
        """Where its code is, its tests, how to copy it, and who speaks of it."""
        words = WORDS[self.language]
        lines = [f"{words['code']}: `{name.path}`"]
        lines += [f"{words['tests']}: {', '.join(f'`{path}`' for path in tests(name, ROOT))}"]
        if name.copy:
            lines.append(f"{words['copy']}: `attnref copy {name.copy}`")
        speaking = mentions.speaking(ROOT, self.language).get(name.key, ())
        pages = [page for page in speaking if page != name.page]
        if name.page:
            lines.append(f"{words['explained']}: {self._page(name.page)}")
        if pages:
            ordered = sorted(pages, key=_rank)
            lines.append(f"{words['used']}: {', '.join(map(self._page, ordered))}")
        shown = "\n".join(f"- {line}" for line in lines)
        return f'<div class="api-foot" markdown>\n\n{shown}\n\n</div>'

    def _page(self, page: str) -> str:
        return f"[{title(ROOT / 'docs' / self.language / page)}]({self._path(page)})"

    def _path(self, page: str) -> str:
        return posixpath.relpath(page, posixpath.dirname(self.here) or ".")
