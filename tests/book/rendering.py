"""A staged page as HTML, with the extensions of Markdown that mkdocs.yml names."""

from functools import cache

import markdown

from book.page import ROOT, read_yaml


@cache
def extensions() -> dict[str, dict]:
    return read_yaml((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["markdown_extensions"]


def to_html(staged: str) -> str:
    return markdown.markdown(staged, extensions=[*extensions()], extension_configs=extensions())
