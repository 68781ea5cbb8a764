"""All that MkDocs is told of the book: the one hook of mkdocs.yml.

It stages the pages before MkDocs looks for them, and finishes each; plain ``mkdocs serve``, too.
"""

import gc
import os
import sys
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.livereload import LiveReloadServer
from mkdocs.structure.files import InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

# Who types mkdocs, and not python -m mkdocs, does not have this folder among Python's.
sys.path.append(str(Path(__file__).parents[1]))

from book import finishing, live
from book.edition import Edition
from book.page import ROOT
from book.stage.address import built_of
from book.stage.api import reference

ALONE = "ATTNREF_PAGE"  # the only page that is built, where make check asks for one
TEMPLATES = ROOT / ".cache" / "templates"
_edition: Edition
_is_dirty = False

gc.set_threshold(100_000, 50, 50)  # a build makes much and drops little: a twelfth of its time


def on_startup(dirty: bool, **_: Any) -> None:
    global _is_dirty
    _is_dirty = dirty


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    global _edition
    python: Any = config.plugins["mkdocstrings"]
    new = Edition(Path(config.docs_dir).name, ROOT, config.nav or [], config.extra["rooms"])
    for name in ("site_name", "site_description", "site_url", "repo_url"):
        setattr(new, name, config[name] or "")
    new.reading, new.alone = python.config.handlers["python"], os.environ.get(ALONE, "")
    _edition = live.stage(new, _is_dirty)
    config.docs_dir, config.nav = str(_edition.staged), _edition.named()
    config.copyright = built_of(_edition.language)
    handler = python.get_handler("python")
    handler._modules_collection = _edition.package.modules_collection  # read once, not twice
    handler._lines_collection = _edition.package.lines_collection
    return config


def on_nav(nav: Navigation, config: MkDocsConfig, **_: Any) -> None:
    """Where not every page is built, links into the others must be known all the same."""
    anchors: Any = config.plugins["autorefs"]
    for page in nav.pages:
        if _edition.alone and page.file.src_uri.rpartition(".")[0] != _edition.alone:
            page.file.inclusion = InclusionLevel.EXCLUDED
        if _edition.alone or _edition.again:
            for name in reference(_edition).names(page.file.src_uri):
                anchors.register_anchor(page, name)


def on_env(env: Environment, **_: Any) -> None:
    """The theme's templates are compiled once, not for each build."""
    TEMPLATES.mkdir(parents=True, exist_ok=True)
    env.bytecode_cache = FileSystemBytecodeCache(str(TEMPLATES))


def on_pre_page(page: Page, **_: Any) -> Page:
    page.__dict__.pop("render", None)  # that of mkdocs-jupyter, with 595 KB of styles a page
    return page


def on_page_read_source(page: Page, **_: Any) -> str:
    return (_edition.staged / _edition.pages[page.file.src_uri].staged).read_text("utf-8")


def on_page_content(html: str, page: Page, **_: Any) -> str:
    page.meta["search"] = {"exclude": True}  # from what the theme would read
    return finishing.content(html, _edition.pages[page.file.src_uri], _edition)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    return finishing.whole(output, _edition.pages[page.file.src_uri], _edition)


def on_post_build(config: MkDocsConfig) -> None:
    finishing.after(Path(config.site_dir), _edition)


def on_serve(server: LiveReloadServer, config: MkDocsConfig, **_: Any) -> LiveReloadServer:
    server.unwatch(config.docs_dir)  # which each build writes
    for folder in live.WATCHED:
        server.watch(str(ROOT / folder))
    return server
