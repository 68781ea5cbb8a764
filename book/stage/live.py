"""While somebody writes (make live), builds again only the pages that an edit changes.

MkDocs' ``--dirty`` looks at the Markdown of a page alone. Here a page is built again also when a
program, a result, a definition of the package or a drawing that it shows has changed. Of pages
that are not built again the navigation and the links into the reference need the names. What is
made of all pages, as the list of claims and the search, is as it was when ``make live`` began.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs_autorefs import AutorefsPlugin

from book.page import ROOT, front_matter, path_of
from book.stage import api, names
from book.stage.figures import drawing_path, figures_of
from book.stage.includes import INCLUDE

NAME = "ATTNREF_LIVE"
SHOWN = re.compile(INCLUDE.pattern, re.MULTILINE)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    if not os.environ.get(NAME):
        return
    package, references = names.read(config), config.plugins["autorefs"]
    assert isinstance(references, AutorefsPlugin)
    kept, texts = {}, {}
    for page in nav.pages:
        path, uri = path_of(page), page.file.src_uri
        text = path.read_text(encoding="utf-8")
        built = Path(page.file.abs_dest_path)
        if uri.startswith(api.FOLDER):
            texts[uri] = text
        if is_stale(built, (path, *shown_files(text, Path(config.docs_dir).name, ROOT))):
            built.unlink(missing_ok=True)  # so MkDocs builds it
        else:
            kept[uri] = page
            told = front_matter(text)
            page.title = told.get("nav") or told.get("title") or page.title
    places = api.places(texts, package)
    for name in names.public_names(package):
        module = max((one for one in places if f"{name}.".startswith(f"{one}.")), key=len)
        if places[module] in kept:
            references.register_anchor(kept[places[module]], name)


def is_stale(built: Path, sources: tuple[Path, ...]) -> bool:
    """Whether a page that was built is older than what it was built from."""
    return not built.is_file() or any(
        source.is_file() and source.stat().st_mtime > built.stat().st_mtime for source in sources
    )


def shown_files(text: str, language: str, root: Path) -> Iterator[Path]:
    """The files of which a page shows a part."""
    for match in SHOWN.finditer(text):
        yield root / match["path"]
    for name in figures_of(text):
        yield drawing_path(root, name, language)
