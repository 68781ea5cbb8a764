"""Publishes the code that the pages show, so that it can be taken.

- ``source/`` has each file of the package and of the snippets; finish/titles.py leads to it.
- ``code/`` has what ``attnref copy`` writes, a file a method; the page that explains one ends
  with a link to it, a button that copies it, and the name of what has every option.
"""

from html import escape
from pathlib import Path

from attnref.copying.catalogue import Entry, entries, header
from book.edition import Edition
from book.page import ROOT, Page
from book.stage import api, names

AFTER = ("api", "doing")
SHOWN = ("attnref", "snippets")
WORDS = {
    "pt": {
        "title": "Para levar",
        "take": "O método num só arquivo, que pede apenas o PyTorch, sem avisos a conservar:",
        "whole": "com todas as opções",
        "copy": "Copiar",
        "copied": "Copiado",
        "failed": "Não foi possível copiar; baixe o arquivo",
    },
    "en": {
        "title": "Take it with you",
        "take": "The method in one file that needs nothing but PyTorch, without a notice to keep:",
        "whole": "with every option",
        "copy": "Copy",
        "copied": "Copied",
        "failed": "Copying failed; download the file",
    },
}


def files() -> dict[str, Path | str]:
    """What is published: each by its place, the file, or what is to be in it."""
    shown: dict[str, Path | str] = {
        f"source/{path.relative_to(ROOT).as_posix()}": path for path in sources()
    }
    return shown | {f"code/{entry.name}.py": header(entry) + entry.text for entry in entries()}


def stage(markdown: str, page: Page, edition: Edition) -> str:
    explained = [entry for entry in entries() if entry.page == page.url.rstrip("/")]
    if not explained:
        return markdown
    words, items = WORDS[edition.language], []
    for entry in explained:
        address = page.address(f"code/{entry.name}.py")
        item = f'<a href="{address}" download>{entry.name}.py</a>'
        if path := names.resolve(entry.whole, edition.package):
            there = page.address(api.address(path, edition))
            item += f' ({words["whole"]}: <a href="{there}"><code>{entry.whole}</code></a>)'
        items.append(f"<li>{item}</li>")
    data = " ".join(f'data-{key}="{escape(words[key])}"' for key in ("copy", "copied", "failed"))
    return (
        f"{markdown}\n\n## {words['title']} {{#take data-search-exclude=''}}\n\n"
        f'<div class="take" data-search-exclude {data}><p>{words["take"]}</p>'
        f"<ul>{''.join(items)}</ul></div>\n"
    )


def sources() -> list[Path]:
    """The files of the package and of the snippets."""
    return [path for folder in SHOWN for path in sorted((ROOT / folder).rglob("*.py"))]


def file(entry: Entry) -> str:
    """What its copy is called: a module's name has no dots."""
    return f"{entry.name.replace('.', '_')}.py"
