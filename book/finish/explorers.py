"""Links the styles and the script of the explorers that a page has."""

import re

from book.edition import Edition
from book.page import Page

EXPLORER = re.compile(r'<section class="explorer" id="explorer-(?P<name>[a-z-]+)"')
STYLE, SCRIPT = "explorers/explorers.css", "explorers/start.js"


def whole(output: str, page: Page, edition: Edition) -> str:
    names = sorted(match["name"] for match in EXPLORER.finditer(output))
    if not names:
        return output
    styles = "".join(
        f'<link rel="stylesheet" href="{page.address(place)}">'
        for place in (STYLE, *(f"explorers/{name}/style.css" for name in names))
    )
    head = f'{styles}<script type="module" src="{page.address(SCRIPT)}"></script>'
    return output.replace("</head>", f"{head}</head>", 1)
