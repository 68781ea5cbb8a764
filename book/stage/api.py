"""Ties the reference of the package, which mkdocstrings writes, to the pages.

A page of the reference names modules, ``::: attnref.masks``; ``::: attnref.variants.*`` stands for
those that no page names. Each entry gets what mkdocstrings does not know: its sentence in
Portuguese, from docs/api.pt.yml, for docstrings are in English; its tests; how to copy it; and the
pages that speak of it. In the other direction, inline code that names something public becomes a
link to its entry, and each page ends with the names that its snippets use.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import griffe

from attnref.copying.catalogue import entries
from book.edition import Edition
from book.page import ROOT, BookError, Page, Problem, front_matter, read_yaml
from book.stage import docstrings, guide, names

FOLDER = "reference/api/"
AFTER = ("cores", "marks")
PLACE = "<!-- every name -->"
ASKED = re.compile(r"^::: (?P<path>[\w.]+?)(?P<rest>\.\*)?$", re.MULTILINE)
ENGLISH = "en"  # the language of the docstrings
LONGEST = 200  # letters of a sentence
SOURCE = {"pt": "**Fonte:**{ lang=pt }", "en": "**Source:**"}
WORDS = {
    "pt": {
        "tests": "Testes",
        "copy": "Para copiar",
        "explained": "Explicado em",
        "used": "Aparece em",
        "here": "Do pacote, nesta página",
        "top": "Chamam-se como `attnref.nome`; os das seções seguintes, com o da seção.",
    },
    "en": {
        "tests": "Tests",
        "copy": "Copy it",
        "explained": "Explained in",
        "used": "Found in",
        "here": "Of the package, on this page",
        "top": "Called as `attnref.name`; the names of the sections below, with the section.",
    },
}
SAID = "docs/api.pt.yml"
# The page that explains a module, or one of its names. Other variants have one of their own name.
EXPLAINED = {
    "adaptive_scaling": "scale/factors-compared",
    "bounded_scores": "scale/factors-compared",
    "cache": "foundations/kv-cache",
    "masks": "foundations/masks",
    "masks.tree": "variants/draft-trees",
    "multihead": "foundations/multi-head",
    "paged_cache": "variants/paged",
    "positions": "foundations/positions",
    "reference": "foundations/matrix-form",
    "roofline": "complexity/roofline",
    "scaling": "scale/factors-compared",
    "score_statistics": "scale/saturation",
    "similarity": "foundations/dot-product",
    "softmax": "foundations/softmax-or-sum",
    "streaming_cache": "variants/sinks",
    "integrations.transformers": "practice/look-inside",
    "variants.indexer": "variants/selected",
    "variants.moba": "variants/selected",
    "variants.native_sparse": "variants/selected",
    "watching": "practice/look-inside",
    "watching.comparing": "practice/look-inside",
    "watching.seen": "practice/look-inside",
}


def places(texts: Mapping[str, str], package: griffe.Module) -> dict[str, str]:
    """The page that has each module, in the order of the pages, which are given by their paths."""
    asked = [(page, match) for page, text in texts.items() for match in ASKED.finditer(text)]
    named = {match["path"] for _, match in asked if not match["rest"]}
    found: dict[str, str] = {}
    for page, match in asked:
        paths = [match["path"]]
        if match["rest"]:
            inside = [path for path in names.modules(package) if path.startswith(f"{paths[0]}.")]
            paths = [path for path in inside if path not in named]
        found |= dict.fromkeys(paths, page)
    return found


def page_problems(page: Path, text: str, package: griffe.Module) -> list[Problem]:
    """Names that there are not, and what asks for an entry of anything but a public module."""
    found, known = names.misspellings(page, text, package), names.modules(package)
    for match in ASKED.finditer(text):
        path, rest = match["path"], match["rest"]
        if not any(one.startswith(f"{path}.") if rest else one == path for one in known):
            line = text.count("\n", 0, match.start()) + 1
            message = f"{match[0]}: expected one of {', '.join(known)}"
            found.append(Problem(page, line, message))
    return found


def edition_problems(edition: Edition) -> list[Problem]:
    return [
        found
        for page in edition.pages.values()
        for found in page_problems(page.path, page.source, edition.package)
    ]


def sentence_problems(root: Path, package: griffe.Module) -> list[str]:
    """Modules and entries without a sentence in Portuguese, and sentences on nothing public."""
    wanted = {_key(path) for path in (*names.modules(package), *names.entries(package))}
    said = sentences(root)
    listed = read_yaml((root / SAID).read_text(encoding="utf-8"))
    found = [f"{SAID}: {key} is not public" for key in listed.keys() - wanted]
    for key in wanted:
        if not (sentence := said.get(key, "")).endswith(".") or len(sentence) > LONGEST:
            found.append(f"{SAID}: {key}: expected a sentence of it, got {sentence!r}")
    return sorted(found)


def sentences(root: Path) -> dict[str, str]:
    """What the reference says of each module and entry in Portuguese.

    What the file does not say of a variant and of its function, the description of its page says.
    """
    said: dict[str, str] = {}
    for page in sorted((root / "docs" / "pt" / "variants").glob("*.md")):
        description = front_matter(page.read_text(encoding="utf-8"), page).get("description", "")
        name = guide.module(page.name)
        said |= dict.fromkeys(
            (f"variants.{name}", f"variants.{name}.{name}_attention"), description
        )
    return said | dict(read_yaml((root / SAID).read_text(encoding="utf-8")))


def tests(path: str, defined: str, root: Path) -> list[str]:
    """The file that tests the module in which an entry is defined, or the folder of its tests."""
    folder, _, stem = _key(defined).rpartition(".")[0].rpartition(".")
    mirror = f"tests/{folder}/test_{stem}.py" if folder else f"tests/test_{stem}.py"
    room = f"tests/{_name(path.rpartition('.')[0])}"
    return [test for test in (mirror, room, f"tests/{folder or stem}") if (root / test).exists()][
        :1
    ]


def explained(key: str) -> str:
    """The page that explains a name of the package; "" where none does by itself.

    >>> explained("masks.causal"), explained("variants.lsh.lsh_attention"), explained("cost.of")
    ('foundations/masks.md', 'variants/lsh.md', '')
    """
    module = key.rpartition(".")[0]
    folder, _, variant = module.rpartition(".")
    page = EXPLAINED.get(key) or EXPLAINED.get(module) or EXPLAINED.get(folder, "")
    if not page and folder == "variants":
        page = f"variants/{variant.replace('_', '-')}"
    return page and f"{page}.md"


def _key(path: str) -> str:
    return path.partition(".")[2]


def _name(path: str) -> str:
    return path.rpartition(".")[2]


@dataclass(frozen=True)
class Reference:
    """What is known of the package and of the pages that have it.

    Attributes:
        package: as it is read.
        places: the page of the reference that has each module.
        language: of the pages.
    """

    package: griffe.Module
    places: dict[str, str]
    language: str

    def names(self, page: str) -> list[str]:
        """The paths of all that a page has."""
        inside = tuple(f"{module}." for module, there in self.places.items() if there == page)
        return [path for path in names.public_names(self.package) if f"{path}.".startswith(inside)]

    def index(self, link: Callable[[str], str]) -> str:
        """All names with what they do: those of the package itself, and a list for each room."""
        top = f"## `{self.package.name}` {{#{self.package.name}}}"
        own, parts = [top, WORDS[self.language]["top"]], list[str]()
        for module in self.places:
            inside = [path for path in names.entries(self.package) if path.startswith(f"{module}.")]
            lines = "\n".join(
                f"- [`{_name(one)}`]({link(one)}): {self._summary(one)}" for one in inside
            )
            if self._is_room(module):
                heading = f"## `{module}` {{#{_key(module).replace('.', '-')}}}"
                parts += [heading, self._summary(module), lines]
            else:
                own.append(lines)
        return "\n\n".join([own[0], own[1], "\n".join(own[2:]), *parts])

    def _is_room(self, module: str) -> bool:
        """Whether its names are called with it, ``masks.causal``, and not ``attnref.causal``."""
        top = set(names.exports(self.package))
        return _key(module) in top or not top.issuperset(
            names.ordered_exports(names.modules(self.package)[module])
        )

    def _summary(self, path: str) -> str:
        return str(names.public_names(self.package)[path].extra["attnref"]["summary"])

    def request(self, module: str) -> str:
        """What asks mkdocstrings for a module, its names in the order of the index.

        Its heading is the one path by which they are called.
        """
        members = names.ordered_exports(names.modules(self.package)[module])
        heading = module
        if not self._is_room(module):
            heading = f"from {self.package.name} import {', '.join(members)}"
        options = f"heading: {heading}\n      toc_label: {heading}\n      members: {members}"
        return f"::: {module}\n    options:\n      {options}"

    def short_name(self, path: str) -> str:
        """How a program that imports the package calls something."""
        own = not self._is_room(path.rpartition(".")[0])
        return _name(path) if own else ".".join(path.split(".")[-2:])


@cache
def reference(edition: Edition) -> Reference:
    """That of a language."""
    package = edition.package
    return Reference(package, places(edition.texts, package), edition.language)


def address(path: str, edition: Edition) -> str:
    """Where the entry of a name is published."""
    return f"{edition.pages[_place(path, edition)].url}#{path}"


def link(page: Page, edition: Edition) -> Callable[[str], str]:
    """How a page names the entry of each path."""
    return lambda path: page.link(f"{_place(path, edition)}#{path}")


def _place(path: str, edition: Edition) -> str:
    """The page that has the entry: that of the innermost module."""
    known = reference(edition).places
    return known[max((one for one in known if f"{path}.".startswith(f"{one}.")), key=len)]


def tell(package: griffe.Module, edition: Edition) -> None:
    """Gives each entry what its templates show: its sentence, its docstring, its foot."""
    language, texts = edition.language, edition.texts
    if found := sentence_problems(ROOT, package):
        raise BookError("\n".join(found))
    known = places(texts, package)
    if lost := names.modules(package).keys() - known.keys():
        raise BookError(f"{edition.docs / FOLDER}: no page has ::: {', '.join(sorted(lost))}")
    room = Reference(package, known, language)
    links = {uri: (edition.pages[uri].title, f"../../../{edition.pages[uri].url}") for uri in texts}
    speaking = names.speaking(texts, ROOT, package)
    shorter = entries()
    said = sentences(ROOT) if language != ENGLISH else {}
    for path, one in names.public_names(package).items():
        if one.docstring is None:
            continue
        text = docstrings.markdown(one, package, SOURCE[language])
        if path in names.modules(package) or path in names.entries(package):
            first, _, text = text.partition("\n\n")
            one.extra["attnref"]["summary"] = said.get(_key(path)) or " ".join(first.split())
        one.docstring.value = text
    for path, one in names.entries(package).items():
        explains = explained(_key(path))
        called = f"{package.name}.{room.short_name(path)}"
        foot = {
            "tests": [(test, "") for test in tests(path, one.path, ROOT)],
            "copy": [
                (f"attnref copy {short.name}", "") for short in shorter if short.whole == called
            ],
            "explained": [links[explains]] if explains else [],
            "used": [links[page] for page in speaking.get(path, ()) if page != explains],
        }
        one.extra["attnref"] |= {
            "code": docstrings.code(one),
            "path": one.relative_package_filepath,
            "foot": [(WORDS[language][key], values) for key, values in foot.items() if values],
        }


def stage(markdown: str, page: Page, edition: Edition) -> str:
    known, package, to = reference(edition), edition.package, link(page, edition)
    used = names.snippet_uses(page.source, ROOT, package, "snippets/")

    def expand(match: re.Match[str]) -> str:
        start = f"{match['path']}."
        inside = [path for path, there in known.places.items() if there == page.uri]
        shown = (
            [path for path in inside if path.startswith(start)] if match["rest"] else [start[:-1]]
        )
        return "\n\n".join(map(known.request, shown))

    markdown = ASKED.sub(expand, names.add_links(markdown, package, to))
    if page.uri.startswith(FOLDER) and PLACE in markdown:
        markdown = markdown.replace(PLACE, known.index(to))
    if used:
        shown = ", ".join(f"[`{known.short_name(path)}`]({to(path)})" for path in used)
        # The search would find every page that uses a name before the entry of the name itself.
        attributes = "{ .api-uses data-search-exclude='' }"
        markdown += f"\n\n{WORDS[edition.language]['here']}: {shown}.\n{attributes}"
    return markdown
