"""Names for what the theme leaves without one, so that a screen reader can tell it."""

import re

from mkdocs.exceptions import PluginError

DIALOG = '<div class="md-search" data-md-component="search" role="dialog">'
NAMES = {"pt": "Busca", "en": "Search"}

EMPTY_HEADER = re.compile(r"<th([^>]*)>\s*</th>")


def on_page_content(html: str, page, config, files) -> str:
    """The empty corner of a table is the header of nothing."""
    return EMPTY_HEADER.sub(r"<td\1></td>", html)


def on_post_page(output: str, page, config) -> str:
    if DIALOG not in output:
        raise PluginError("docs/hooks/accessibility.py: the theme's search dialog has changed")
    name = NAMES[config.theme["language"]]
    return output.replace(DIALOG, f'{DIALOG[:-1]} aria-label="{name}">')
