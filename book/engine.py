"""All that MkDocs is told of the book: the one hook of mkdocs.yml.

It stages the pages before MkDocs looks for them, and finishes each when it is built. ``mkdocs
serve``, typed by itself, does so too: it builds again what has changed.
"""

import functools
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from jinja2 import Environment, FileSystemBytecodeCache
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.livereload import LiveReloadServer
from mkdocs.structure.files import Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.utils.templates import TemplateContext

# Whoever types mkdocs, and not python -m mkdocs, does not have this folder among Python's.
sys.path.append(str(Path(__file__).parents[1]))

from book import finishing, live
from book.edition import Edition
from book.page import ROOT, BookError
from book.stage.address import built_of
from book.stage.api import reference

ALONE = "ATTNREF_PAGE"  # the only page that is built, where make check asks for one
_edition: Edition
_is_dirty = False
P, R = ParamSpec("P"), TypeVar("R")

gc.set_threshold(100_000, 50, 50)  # a build makes much and drops little: a twelfth of its time


def told(event: Callable[P, R]) -> Callable[P, R]:
    """What is wrong with the book is said as MkDocs says it, without a trace."""

    @functools.wraps(event)
    def call(*about: P.args, **known: P.kwargs) -> R:
        try:
            return event(*about, **known)
        except BookError as error:
            raise PluginError(str(error)) from error

    return call


def on_startup(command: str, dirty: bool) -> None:
    global _is_dirty
    _is_dirty = dirty


@told
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    global _edition
    python: Any = config.plugins["mkdocstrings"]
    new = Edition(
        language=Path(config.docs_dir).name,
        root=ROOT,
        name=config.site_name,
        description=config.site_description or "",
        nav=config.nav or [],
        rooms=config.extra["rooms"],
        site_url=config.site_url or "",
        repo_url=config.repo_url or "",
        python=python.config.handlers["python"],
        alone=os.environ.get(ALONE, ""),
    )
    _edition = live.stage(new, _is_dirty)
    config.docs_dir, config.nav = str(_edition.staged), _edition.named()
    config.copyright = built_of(_edition.language)
    handler = python.get_handler("python")
    handler._modules_collection = _edition.package.modules_collection  # read once, not twice
    handler._lines_collection = _edition.package.lines_collection
    return config


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    """Where not every page is built, links into the others must be known all the same."""
    for page in nav.pages:
        if _edition.alone and page.file.src_uri.rpartition(".")[0] != _edition.alone:
            page.file.inclusion = InclusionLevel.EXCLUDED
        if _edition.alone or _edition.again:
            for name in reference(_edition).names(page.file.src_uri):
                config.plugins["autorefs"].register_anchor(page, name)  # type: ignore[attr-defined]


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> None:
    """The theme's templates are compiled once, not for each build."""
    folder = ROOT / ".cache" / "templates"
    folder.mkdir(parents=True, exist_ok=True)
    env.bytecode_cache = FileSystemBytecodeCache(str(folder))


def on_pre_page(page: Page, config: MkDocsConfig, files: Files) -> Page:
    page.__dict__.pop("render", None)  # that of mkdocs-jupyter, with 595 KB of styles a page
    return page


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    ours = _edition.pages[page.file.src_uri]
    return (_edition.staged / ours.staged).read_text("utf-8") if ours.is_notebook else None


@told
def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    page.meta["search"] = {"exclude": True}  # from what the theme would read
    return finishing.content(html, _edition.pages[page.file.src_uri], _edition)


def on_page_context(
    context: TemplateContext, page: Page, config: MkDocsConfig, nav: Navigation
) -> TemplateContext:
    """The switch of language leads to the same page."""
    config.extra["alternate"] = [
        {**one, "link": f"../{one['lang']}/{page.url}"} for one in config.extra["alternate"]
    ]
    return context


@told
def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    return finishing.whole(output, _edition.pages[page.file.src_uri], _edition)


@told
def on_post_build(config: MkDocsConfig) -> None:
    finishing.after(Path(config.site_dir), _edition)


def on_serve(
    server: LiveReloadServer, config: MkDocsConfig, builder: Callable[..., None]
) -> LiveReloadServer:
    server.unwatch(config.docs_dir)  # which each build writes
    for folder in live.WATCHED:
        server.watch(str(ROOT / folder))
    return server
