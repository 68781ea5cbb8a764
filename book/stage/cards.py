"""Puts the map of a room on its first page: ``<!-- cards -->``, a card for what is in it.

A card of a page has its title, its description and, if it is for an explorer, its picture. One of a
group has its pages, with the time that each takes, for whom they are, and what the front matter
says of the group, ``cards: {masks: what it is good for}``. ``<!-- time -->`` is that of all pages
but the specialists'.
"""

from book.edition import Edition, Nav, beside, paths
from book.page import BookError, Page, locate
from book.stage import explorers
from book.stage.reading import LEVELS, SPECIALIST, is_chapter, minutes

AFTER = ("citations",)
PLACE, TIME = "<!-- cards -->", "<!-- time -->"


def stage(markdown: str, page: Page, edition: Edition) -> str:
    if PLACE not in markdown:
        return markdown
    others = beside(edition.nav, page.uri)
    told = page.matter.get("cards", {})
    cards = []
    for item in others:
        if isinstance(item, str):
            other = edition.pages[item]
            told_of = str(other.matter.get("description", ""))
            cards.append((_link(other, page), f"{_preview(other, page)}{told_of}"))
        else:
            for room, inside in item.items():
                if room not in told:
                    file, line = locate(page.path, PLACE)
                    raise BookError(f"{file}:{line}: cards: nothing is said of the group {room!r}")
                cards.append(_group(edition, room, inside, page, told[room]))
    core = [edition.pages[uri] for uri in paths(others)]
    time = sum(minutes(one.source) for one in core if one.matter.get("level") != SPECIALIST)
    markdown = markdown.replace(TIME, f"{time // 60} h {time % 60:02} min")
    items = "\n".join(f"- **{name}**\n\n{_indent(text)}\n" for name, text in cards)
    box = '<div class="grid cards" markdown data-search-exclude>'
    return page.fill(markdown, PLACE, f"{box}\n\n{items}\n</div>")


def _group(edition: Edition, room: str, inside: Nav, page: Page, told: str) -> tuple[str, str]:
    pages = [edition.pages[uri] for uri in paths(inside)]
    special = [other for other in pages if other.matter.get("level") == SPECIALIST]
    mark = f" · {LEVELS[edition.language][SPECIALIST].lower()}"
    lines = []
    for other in pages:
        own = mark if other in special and special != pages else ""
        time = f" · {minutes(other.source)}\u00a0min" if is_chapter(other) else ""
        lines.append(f"- {_link(other, page)}{own}{time}")
    name = edition.rooms[room] + (mark if special == pages else "")
    return name, f"{told}\n\n" + "\n".join(lines)


def _preview(other: Page, page: Page) -> str:
    """The picture of the explorer that a page is for."""
    if (name := explorers.whole_on(other)) is None:
        return ""
    picture = page.address(f"explorers/{name}/{explorers.PREVIEW}")
    size = 'width="800" height="420"'
    return f'<img class="preview" src="{picture}" alt="" loading="lazy" {size}>\n\n'


def _link(other: Page, page: Page) -> str:
    return f"[{other.title}]({page.link(other.uri)})"


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.split("\n"))
