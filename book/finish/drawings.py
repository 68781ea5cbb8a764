"""Puts each drawing into the page itself, where it follows the reader's choice of light or dark."""

import re
import shutil
from pathlib import Path

from book.edition import Edition
from book.page import Page
from book.stage.figures import FOLDER

IMAGE = re.compile(
    rf'<img alt="(?P<alt>[^"]*)" src="[^"]*?(?P<place>{FOLDER}/[a-z0-9-]+\.svg)" ?/?>'
)


def whole(output: str, page: Page, edition: Edition) -> str:
    def show(match: re.Match[str]) -> str:
        drawing = (edition.staged / match["place"]).read_text(encoding="utf-8")
        # On a small screen a wide drawing scrolls, which the keyboard must be able to do, too.
        return (
            f'<div class="drawing" role="img" aria-label="{match["alt"]}" tabindex="0">'
            f"{drawing}</div>"
        )

    return IMAGE.sub(show, output)


def after(site: Path, edition: Edition) -> None:
    shutil.rmtree(site / FOLDER, ignore_errors=True)  # each is in its page
