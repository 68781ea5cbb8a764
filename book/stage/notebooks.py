"""Makes a page of each notebook, with what its cells put out, and a file to be downloaded.

A notebook is kept with what its cells put out, which ``make record`` writes there, and says the
same in Jupyter as on its page. mkdocs-jupyter
lets notebooks be pages, but its rendering is replaced: it brings 595 KB of styles to each page,
its own look and its own formulas, and MkDocs checks none of its links. Here such a page gets its
Markdown, and goes the way of all pages: headings, links, formulas, terms. The id of a cell that
begins with a heading is its anchor. Alternative text of a figure stands in the metadata of its
cell, as ``alt``, and what the page is about in those of the notebook, as ``description``.

The file that readers download has in its first code cell what it loads of attnref, modules and
texts, which is how it runs alone: attnref is in no registry. Which they are is noted when it runs,
as ``files`` of the notebook's metadata. Below its title it says of what book it is, and its links
lead there once the book is on the web. Colab opens the file that is kept, if the code is on GitHub.
"""

import base64
import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import yaml

from book.edition import Edition
from book.page import BookError, Page, Problem, headings
from book.stage import figures
from book.stage.explorers import PLACE

PACKAGE = 'PACKAGE = ""'  # in the first code cell
GITHUB, COLAB = "https://github.com/", "https://colab.research.google.com/github/"
IDENT = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
PAGE_LINK = re.compile(r"\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])+)\]\((?P<target>[^)\s:]+)\)")
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+")
KEPT = ("description", "needs", "kernelspec", "language_info", "agrees", "files")  # of metadata
ONLY_HERE = re.compile(r"^(?:!!!|\?\?\?)|\[@|\{ ?[#.]|\]\((?:claim|figure|chart):|8<", re.MULTILINE)
SVG = "image/svg+xml"
WIDEST = 79  # characters of a line of code, which is read in a column of the site
WORDS = {
    "pt": {
        "download": "Baixar este caderno",
        "colab": "Abrir no Colab",
        "from": "Este caderno é uma página de {book}",
        "alone": "Ele roda sozinho: a primeira célula instala o que falta. O que se vê abaixo de "
        "cada célula é o que ela produziu aqui; os testes a rodam de novo e comparam.",
    },
    "en": {
        "download": "Download this notebook",
        "colab": "Open in Colab",
        "from": "This notebook is a page of {book}",
        "alone": "It runs by itself: the first cell installs what is missing. What you see below "
        "a cell is what it put out here; the tests run it again, and compare.",
    },
}


def read(text: str) -> nbformat.NotebookNode:
    notebook: nbformat.NotebookNode = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    return notebook


def problems(page: Path, text: str, root: Path) -> list[Problem]:
    """All that is wrong with a notebook as it is kept, without running it."""
    notebook = read(text)
    lines = text.split("\n")
    found = []

    def note(cell: nbformat.NotebookNode | None, message: str) -> None:
        mark = f'"id": "{cell.id}"' if cell else ""
        number = next((n for n, line in enumerate(lines, 1) if mark and mark in line), 1)
        found.append(Problem(page, number, message))

    if (notebook.nbformat, notebook.nbformat_minor) != (4, 5):
        note(None, "expected a notebook of format 4.5, whose cells have ids")
        return found
    if not 30 <= len(notebook.metadata.get("description", "")) <= 200:
        note(None, "expected a description of 30 to 200 characters in the notebook's metadata")
    if unknown := sorted(notebook.metadata.keys() - {*KEPT}):
        note(None, f"metadata {unknown[0]!r}: expected {', '.join(KEPT)}")
    first = notebook.cells[0]
    if first.cell_type != "markdown" or not first.source.startswith("# "):
        note(first, "expected a first cell that begins with # and the title")
    for cell in notebook.cells:
        if not IDENT.fullmatch(cell.id):
            note(cell, f"id {cell.id!r}: expected English words with hyphens, as in to-the-query")
        if cell.cell_type == "code":
            if cell.execution_count is not None or "files" not in notebook.metadata:
                note(cell, "outputs are written by make record, and counts of runs are left out")
            if wide := [line for line in cell.source.split("\n") if len(line) > WIDEST]:
                note(cell, f"expected lines of {WIDEST} characters at most: {wide[0]!r}")
        else:
            for message in _prose_problems(cell.source):
                note(cell, message)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not code or code[0].source.count(PACKAGE) != 1:
        note(code[0] if code else None, f"expected a first code cell that installs, with {PACKAGE}")
    return found


def _prose_problems(source: str) -> Iterator[str]:
    if any(heading.line > 1 for heading in headings(source)):
        yield "expected a heading at the beginning of its cell, whose id becomes its anchor"
    if any("$" in heading.title for heading in headings(source)):
        yield "expected a heading without formulas"
    if only := ONLY_HERE.search(source):
        yield f"{only[0]!r} means nothing in Jupyter, where this file is read, too"
    if number := DECIMAL.search(re.sub(r"`[^`]*`", "", source)):
        yield f"{number[0]} is typed: let a cell print it, and say it in words"


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if not page.is_notebook:
        return markdown
    edition.files[page.uri] = bundle(page, edition)
    return as_page(page, read(page.source), edition)


def as_page(page: Page, notebook: nbformat.NotebookNode, edition: Edition) -> str:
    """The page: prose, code, and what the code put out."""
    meta = {"title": page.title, "description": notebook.metadata["description"]}
    parts = [f"---\n{yaml.safe_dump(meta, allow_unicode=True)}---"]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            first, newline, rest = cell.source.partition("\n")
            ident = f" {{#{cell.id}}}" if headings(first) else ""
            parts.append(first + ident + newline + rest)
            if cell is notebook.cells[0]:
                parts.append(_download(page, edition))
        else:
            parts.append(_fence("python", cell.source))
            parts += output_blocks(page, cell, edition)
    return "\n\n".join(parts) + "\n"


def _download(page: Page, edition: Edition) -> str:
    words, name = WORDS[edition.language], page.path.name
    buttons = f'<a class="md-button" href="{name}" download>{words["download"]}</a>'
    if edition.repo_url.startswith(GITHUB):
        repository = edition.repo_url.removeprefix(GITHUB).strip("/")
        address = f"{COLAB}{repository}/blob/main/docs/{edition.language}/notebooks/{name}"
        buttons += f' <a class="md-button" href="{address}">{words["colab"]}</a>'
    return f'<p class="notebook">{buttons}<br>{words["alone"]}</p>'


def output_blocks(page: Page, cell: nbformat.NotebookNode, edition: Edition) -> Iterator[str]:
    """What a cell has put out, as Markdown."""
    alt, outputs = cell.metadata.get("alt", ""), put_out(cell.outputs)
    drawn = sum(kind == "svg" for kind, _ in outputs)
    if drawn != bool(alt) or re.search(r"[$`*\[\]\"]", alt):
        raise BookError(
            f"{page.path}: cell {cell.id!r} drew {drawn} figures: expected one, with its "
            "alternative text in plain words as alt in the cell's metadata, or none and no alt"
        )
    for kind, content in outputs:
        if kind == "svg":
            place = f"{figures.FOLDER}/{page.path.stem}-{cell.id}.svg"
            edition.files[place] = content
            yield figures.image(page, alt, place, "", cell.id)
        else:
            yield _fence("text", content)


def put_out(outputs: list[nbformat.NotebookNode]) -> list[tuple[str, str]]:
    """Of each output its kind, ``text`` or ``svg``, and what it is."""
    found = []
    for output in outputs:
        data = output.get("data", {})
        drawn = SVG in data
        text = data[SVG] if drawn else output.get("text") or data["text/plain"]
        found.append(("svg" if drawn else "text", text))
    return found


def _fence(language: str, content: str) -> str:
    return f"```{language}\n{content.rstrip()}\n```"


def bundle(page: Page, edition: Edition) -> str:
    """The notebook as it is downloaded: with attnref, and without what only pages have."""

    def link(found: re.Match[str]) -> str:
        path, mark, anchor = found["target"].partition("#")
        uri = posixpath.normpath(f"{posixpath.dirname(page.uri)}/{path}") if path else page.uri
        address = edition.address(edition.pages[uri]) + mark + anchor
        return f"[{found['text']}]({address})" if edition.site_url else found["text"]

    notebook = read(page.source)
    # An explorer is of the page: in Jupyter its section would speak of what is not there.
    notebook.cells = [cell for cell in notebook.cells if not PLACE.search(cell.source)]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = PAGE_LINK.sub(link, cell.source)
    book = f"[{edition.site_name}]({edition.site_url})" if edition.site_url else edition.site_name
    way = " › ".join((WORDS[edition.language]["from"].format(book=book), *edition.rooms_of(page)))
    title, newline, rest = notebook.cells[0].source.partition("\n")
    notebook.cells[0].source = f"{title}\n\n*{way}.*\n{newline}{rest.lstrip()}"
    setup = next(cell for cell in notebook.cells if cell.cell_type == "code")
    packed = base64.b85encode(_zip_files(notebook.metadata.pop("files"), edition.root)).decode()
    setup.source = setup.source.replace(PACKAGE, f'{PACKAGE[:-1]}{packed}"')
    return f"{nbformat.writes(notebook)}\n"


def _zip_files(names: list[str], root: Path) -> bytes:
    """The files under their names, the same bytes at each run."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as package:
        for name in names:
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, (root / name).read_bytes())
    return stream.getvalue()
