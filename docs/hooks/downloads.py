"""Publishes the code that the pages show, so that it can be taken.

- ``source/`` has each file of the package and of the snippets; the title of a block leads to its
  file.
- ``code/`` has what ``attnref copy`` writes, a file a name; the page that explains a name ends
  with a link to it, and a button that copies it.
"""

import hashlib
import re
import shutil
from functools import cache
from html import escape
from pathlib import Path

from filelock import FileLock
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from pages import ROOT

from attnref.copying.assembly import assemble
from attnref.copying.catalogue import Entry, catalogue, package
from attnref.copying.header import header

SHOWN = ("attnref", "snippets")
COPIES = ROOT / ".cache" / "code"
TITLE = re.compile(r'<span class="filename">(?P<path>(?:attnref|snippets)/[\w/]+\.py)</span>')
WORDS = {
    "pt": {
        "take": "Para levar, cada nome em um só arquivo que pede apenas o PyTorch:",
        "copy": "Copiar",
        "copied": "Copiado",
        "failed": "Não foi possível copiar; baixe o arquivo",
    },
    "en": {
        "take": "Take it with you, each name in one file that needs nothing but PyTorch:",
        "copy": "Copy",
        "copied": "Copied",
        "failed": "Copying failed; download the file",
    },
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    published = {path: f"source/{path.relative_to(ROOT).as_posix()}" for path in sources()}
    published |= {path: f"code/{path.name}" for path in sorted(copies().glob("*.py"))}
    for path, name in published.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    def link(match: re.Match[str]) -> str:
        address = get_relative_url(f"source/{match['path']}", page.url)
        return f'<span class="filename"><a href="{address}">{match["path"]}</a></span>'

    words = WORDS[Path(config.docs_dir).name]
    return TITLE.sub(link, html) + _take(page.url, words)


def _take(url: str, words: dict[str, str]) -> str:
    """The files of the names that a page explains."""
    addresses = {
        entry.name: get_relative_url(f"code/{file(entry)}", url)
        for entry in _entries()
        if entry.page == url.rstrip("/")
    }
    items = [
        f'<li><a href="{address}" download>{name}</a></li>' for name, address in addresses.items()
    ]
    if not items:
        return ""
    data = " ".join(f'data-{key}="{escape(said)}"' for key, said in words.items() if key != "take")
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


def copies(folder: Path = COPIES) -> Path:
    """A folder with the copy of each name, made again when the package has changed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):  # both languages are built at the same time
        stamp, now = folder / "of", _digest()
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != now:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for entry in _entries():
                text = assemble(entry.definition, header(entry))
                (folder / file(entry)).write_text(text, encoding="utf-8")
            stamp.write_text(now, encoding="utf-8")
    return folder


@cache
def _entries() -> list[Entry]:
    return catalogue(package())


def _digest() -> str:
    found = hashlib.sha256()
    # pyproject.toml has the address that the copies give.
    for path in (ROOT / "pyproject.toml", *sorted((ROOT / "attnref").rglob("*.py"))):
        found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()
