"""The site of one language as a folder that is read from a disk, and the zip of that folder.

A server opens the index.html of a folder; from a disk a link must name it. A browser refuses to
read an index or to start a worker there: the search gets its index as a script, as the theme asks
for it then, and a worker from docs/disk/worker.js. Nor does it load a module: an explorer stays the
figure and the table that it is without JavaScript. The other language may not be there.
"""

import json
import os
import shutil
import time
import zipfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Browser, ConsoleMessage, TimeoutError
from selectolax.lexbor import LexborHTMLParser

ROOT = Path(__file__).parents[2]
NAME = "attnref"
WORKER = ROOT / "docs" / "disk" / "worker.js"
INDEX = Path("search", "search_index.json")
TEXTS = Path("search", "search_text.json")
# The switch of language, the links to this, what a browser takes from a server alone, the books.
LEFT_OUT = (
    ".md-header__option:has(> .md-select), "
    'link:is([rel~="alternate"][hreflang], [rel="preload"], [rel="manifest"]), '
    'script[type="module"], .books'
)
UNUSED = shutil.ignore_patterns("*.map", "manifest.webmanifest")
BOOKS = shutil.ignore_patterns("*.pdf", "*.zip")
WORD = "query"  # which both languages have
PATIENCE = 30_000  # milliseconds for the search to find it


def copy_for_disk(site: Path, language: str, folder: Path) -> Path:
    """Copies a language of the site, with the wheel, so that it needs no server; where it is."""
    pages = folder / NAME / language
    shutil.copytree(site / language, pages, ignore=UNUSED)
    shutil.copytree(site / "dist", folder / NAME / "dist", ignore=BOOKS)
    shutil.copy(WORKER, pages / "style")
    for path in pages.rglob("*.html"):
        path.write_text(rewrite_links(path, pages), encoding="utf-8")
    index = json.loads((pages / INDEX).read_text(encoding="utf-8"))
    texts = json.loads((pages / TEXTS).read_text(encoding="utf-8"))
    index["config"].pop("texts")  # a page that is read from a disk asks for nothing more
    for entry, text in zip(index["docs"], texts, strict=True):
        entry["text"] = text
        place, hash_, anchor = entry["location"].partition("#")
        entry["location"] = f"{place}index.html{hash_}{anchor}"
    (pages / INDEX).unlink()
    (pages / TEXTS).unlink()
    fonts = pages / "fonts" / "fonts.css"
    # Without the links that ask for them ahead, fonts come too late for what makes them optional.
    text = fonts.read_text(encoding="utf-8")
    fonts.write_text(text.replace("display: optional", "display: swap"), encoding="utf-8")
    script = f"var __index = {json.dumps(index, ensure_ascii=False)};\n"
    (pages / INDEX.with_suffix(".js")).write_text(script, encoding="utf-8")
    return pages


def rewrite_links(path: Path, pages: Path) -> str:
    """A page whose links name the files that they lead to."""
    tree = LexborHTMLParser(path.read_text(encoding="utf-8"))
    for node in tree.css(LEFT_OUT):
        node.decompose()
    for node in tree.css("[data-asleep]"):
        node.attrs["data-still"] = ""
        del node.attrs["data-asleep"]
    for attribute in ("href", "action"):
        for node in tree.css(f"[{attribute}]"):
            split = urlsplit(node.attributes[attribute] or "")
            if not split.scheme and split.path and (path.parent / split.path).is_dir():
                link = split._replace(path=f"{split.path.rstrip('/')}/index.html")
                node.attrs[attribute] = link.geturl()
    worker = os.path.relpath(pages / "style" / WORKER.name, path.parent)
    head = f'<head><script src="{worker}"></script>'
    return f"<!doctype html>\n{tree.html}\n".replace("<head>", head, 1)


def verify(pages: Path, browser: Browser) -> None:
    """Looks for what does not work in a folder that is read from a disk.

    Raises:
        ValueError: where a link leads nowhere, or a browser complains, or finds nothing.
    """
    if lost := broken_links(pages.parent):
        raise ValueError(f"{pages.name}: links to nothing:\n" + "\n".join(lost))
    if complaints := browser_complaints(pages, browser):
        raise ValueError(f"{pages.name}, opened from a disk:\n" + "\n".join(complaints))


def broken_links(folder: Path) -> list[str]:
    """Links of all pages of a folder to a file or an id that is not in it."""
    pages = {
        path: LexborHTMLParser(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }
    ids = {
        path: {node.attributes["id"] for node in page.css("[id]")} for path, page in pages.items()
    }
    found = []
    for path, page in pages.items():
        links = {
            node.attributes[name] or ""
            for name in ("href", "src", "action")
            for node in page.css(f"[{name}]:not(use)")
        }
        for link in sorted(links):
            split = urlsplit(link)
            if split.scheme:
                continue
            there = Path(os.path.normpath(path.parent / unquote(split.path)))
            there = there if split.path else path
            known = there.is_file() and there.is_relative_to(folder)
            if not known or (split.fragment and unquote(split.fragment) not in ids.get(there, ())):
                found.append(f"{path.relative_to(folder)}: {link}")
    return found


def browser_complaints(pages: Path, browser: Browser) -> list[str]:
    """What a browser complains of that opens the folder, searches it and goes to what it finds."""
    complaints: list[str] = []
    page = browser.new_page()

    def listen(said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            complaints.append(said.text)

    page.on("console", listen)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(f"{request.url} failed"))
    page.goto((pages / "index.html").as_uri())
    page.locator(".md-search__input").fill(WORD)
    try:
        with page.expect_navigation(timeout=PATIENCE):
            page.locator(".md-search-result__link").first.click(timeout=PATIENCE)
    except TimeoutError:
        complaints.append(f"the search finds nothing for {WORD!r}")
    page.close()
    return complaints


def pack(folder: Path, path: Path, written: int) -> None:
    """The files of a folder as if all were written at that time, in seconds."""
    when = time.gmtime(written)[:6]
    with zipfile.ZipFile(path, "w", compresslevel=9) as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes())
