"""Lists the pages for programs that read: ``llms.txt``, as llmstxt.org describes it.

Each language has its own, by rooms in the order of the navigation, a line a page with what its
front matter says of it; ``make site`` joins them at the root.
"""

from pathlib import Path

from book.edition import Edition

NAME = "llms.txt"


def after(site: Path, edition: Edition) -> None:
    (site / NAME).write_text("\n".join(lines(edition)), encoding="utf-8")


def lines(edition: Edition) -> list[str]:
    """A title, what the site is, then a heading for each room and a line for each page."""
    found = [f"# {edition.site_name}", "", f"> {edition.site_description}", ""]
    room = ""
    for page in edition.pages.values():
        here = page.uri.partition("/")[0]
        if here != room and here in edition.rooms:
            room = here
            found += ["", f"## {edition.rooms[room]}", ""]
        told = page.matter.get("description")
        found.append(f"- [{page.title}]({edition.address(page)})" + (f": {told}" if told else ""))
    return [*found, ""]
