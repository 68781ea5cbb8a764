"""Lists the pages for programs that read: ``llms.txt``, as llmstxt.org describes it.

Each language has its own, by rooms in the order of the navigation, a line a page with what its
front matter says of it; ``make site`` joins them at the root.
"""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

NAME = "llms.txt"

_pages: list[Page] = []


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    _pages[:] = nav.pages


def on_post_build(config: MkDocsConfig) -> None:
    Path(config.site_dir, NAME).write_text("\n".join(lines(_pages, config)), encoding="utf-8")


def lines(pages: list[Page], config: MkDocsConfig) -> list[str]:
    """A title, what the site is, then a heading for each room and a line for each page."""
    found = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    room = ""
    for page in pages:
        here = page.file.src_uri.partition("/")[0]
        if here != room and here in config.extra["rooms"]:
            room = here
            found += ["", f"## {config.extra['rooms'][room]}", ""]
        told = page.meta.get("description")
        address = page.canonical_url or page.url or "./"
        title = page.meta.get("title") or page.title
        found.append(f"- [{title}]({address})" + (f": {told}" if told else ""))
    return [*found, ""]
