"""All that MkDocs is told of the book: the one hook of mkdocs.yml.

Each pass is a module that has functions for some of the engine's events; they are called in the
order of ``PASSES``, each with what the one before has made of the page.
"""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

gc.set_threshold(100_000, 50, 50)  # a build makes much and drops little: a twelfth of its time
# Whoever types mkdocs, and not python -m mkdocs, does not have this folder among Python's.
sys.path.append(str(Path(__file__).parents[1]))

from book.finish import formulas, net, preload, search_index, slim, theme
from book.stage import (
    address,
    alone,
    api,
    behaviour_tables,
    citations,
    claims,
    cores,
    decision,
    downloads,
    explorers,
    figures,
    foot,
    glossary,
    guide,
    home,
    includes,
    listing,
    live,
    marks,
    notebooks,
    project_files,
    reading,
    results,
    snippet_list,
)

PASSES = (
    theme,
    search_index,
    address,
    notebooks,
    includes,
    cores,
    marks,
    api,
    claims,
    citations,
    guide,
    decision,
    explorers,
    home,
    reading,
    figures,
    glossary,
    results,
    behaviour_tables,
    snippet_list,
    project_files,
    downloads,
    foot,
    listing,
    formulas,
    preload,
    slim,
    alone,
    live,
    net,  # the last
)


def _in_turn(event: str) -> Callable[..., Any]:
    """Calls what the passes have for an event; an answer takes the place of what was asked."""
    functions = [found for one in PASSES if (found := getattr(one, event, None))]

    def call(*about: Any, **known: Any) -> Any:
        for function in functions:
            answer = function(*about, **known)
            if answer is not None and about:
                about = (answer,)
        return about[0] if about else None

    return call


on_config = _in_turn("on_config")
on_pre_build = _in_turn("on_pre_build")
on_files = _in_turn("on_files")
on_nav = _in_turn("on_nav")
on_env = _in_turn("on_env")
on_pre_page = _in_turn("on_pre_page")
on_page_markdown = _in_turn("on_page_markdown")
on_page_content = _in_turn("on_page_content")
on_page_context = _in_turn("on_page_context")
on_post_page = _in_turn("on_post_page")
on_post_build = _in_turn("on_post_build")
on_shutdown = _in_turn("on_shutdown")


def on_page_read_source(**known: Any) -> str | None:
    """The Markdown of a notebook; MkDocs reads the other pages itself."""
    return notebooks.on_page_read_source(**known)
