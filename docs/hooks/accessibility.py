"""Names for what the theme leaves without one, so that a screen reader can tell it."""

from mkdocs.exceptions import PluginError

DIALOG = '<div class="md-search" data-md-component="search" role="dialog">'
NAMES = {"pt": "Busca", "en": "Search"}


def on_post_page(output: str, page, config) -> str:
    if DIALOG not in output:
        raise PluginError("docs/hooks/accessibility.py: the theme's search dialog has changed")
    name = NAMES[config.theme["language"]]
    return output.replace(DIALOG, f'{DIALOG[:-1]} aria-label="{name}">')
