"""Publishes the code that the pages show, so that it can be taken.

- ``source/`` has each file of the package and of the snippets; the title of a block leads to its
  file.
- ``code/`` has what ``attnref copy`` writes, a file a method; the page that explains one ends
  with a link to it, a button that copies it, and the name of what has every option.
"""

import re
from html import escape
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from attnref.copying.catalogue import Entry, entries, header
from book.page import ROOT
from book.stage import names

SHOWN = ("attnref", "snippets")
TITLE = re.compile(r'<span class="filename">(?P<path>(?:attnref|snippets)/[\w/]+\.py)</span>')
WORDS = {
    "pt": {
        "take": "Para levar, o método em um só arquivo que pede apenas o PyTorch, sem avisos a "
        "conservar:",
        "whole": "com todas as opções",
        "copy": "Copiar",
        "copied": "Copiado",
        "failed": "Não foi possível copiar; baixe o arquivo",
    },
    "en": {
        "take": "Take it with you, the method in one file that needs nothing but PyTorch, without "
        "a notice to keep:",
        "whole": "with every option",
        "copy": "Copy",
        "copied": "Copied",
        "failed": "Copying failed; download the file",
    },
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    published = {path: f"source/{path.relative_to(ROOT).as_posix()}" for path in sources()}
    for path, name in published.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for entry in entries():
        files.append(
            File.generated(config, f"code/{entry.name}.py", content=header(entry) + entry.text)
        )
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    def link(match: re.Match[str]) -> str:
        address = get_relative_url(f"source/{match['path']}", page.url)
        return f'<span class="filename"><a href="{address}">{match["path"]}</a></span>'

    words = WORDS[Path(config.docs_dir).name]
    explained = [
        (entry, names.resolve(entry.whole, names.read(config)))
        for entry in entries()
        if entry.page == page.url.rstrip("/")
    ]
    return TITLE.sub(link, html) + _take(page.url, explained, words)


def _take(url: str, explained: list[tuple[Entry, str | None]], words: dict[str, str]) -> str:
    """The files of the methods that a page explains, with the entries of what has every option."""
    if not explained:
        return ""
    items = []
    for entry, path in explained:
        address = get_relative_url(f"code/{entry.name}.py", url)
        item = f'<a href="{address}" download>{entry.name}.py</a>'
        if path:
            link = f'<autoref identifier="{path}" optional><code>{entry.whole}</code></autoref>'
            item += f" ({words['whole']}: {link})"
        items.append(f"<li>{item}</li>")
    data = " ".join(f'data-{key}="{escape(words[key])}"' for key in ("copy", "copied", "failed"))
    return (
        f'<div class="take" data-search-exclude {data}><p>{words["take"]}</p>'
        f"<ul>{''.join(items)}</ul></div>"
    )


def sources() -> list[Path]:
    """The files of the package and of the snippets."""
    return [path for folder in SHOWN for path in sorted((ROOT / folder).rglob("*.py"))]


def file(entry: Entry) -> str:
    """What its copy is called: a module's name has no dots."""
    return f"{entry.name.replace('.', '_')}.py"
