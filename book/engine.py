"""All that MkDocs is told of the book: the one hook of mkdocs.yml.

Each pass is a module that has functions for some of the engine's events; they are called in the
order of ``PASSES``, each with what the one before has made of the page.
"""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

gc.set_threshold(100_000, 50, 50)  # a build makes much and drops little: a twelfth of its time

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
        answer = about[0] if about else None
        for function in functions:
            found = function(*about, **known)
            if found is not None:
                answer = found
                about = about and (found,)
        return answer

    return call


EVENTS = "config pre_build files nav env pre_page page_read_source page_markdown page_content"
for _name in f"{EVENTS} page_context post_page post_build shutdown".split():
    globals()[f"on_{_name}"] = _in_turn(f"on_{_name}")
