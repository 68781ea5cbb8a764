"""Compiles the sentences of the commands, when the package is installed or built."""

from pathlib import Path
from typing import Any

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def compile_catalogues(root: Path) -> None:
    """Of each ``.po`` that has changed, the ``.mo`` beside it, which gettext reads."""
    for source in root.glob("attnref/locale/*/LC_MESSAGES/attnref.po"):
        compiled = source.with_suffix(".mo")
        if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
            with source.open("rb") as sentences, compiled.open("wb") as file:
                write_mo(file, read_po(sentences))


class CatalogueHook(BuildHookInterface[Any]):
    """Compiles them before a wheel is gathered, or an editable one points to the source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """What hatchling calls first."""
        compile_catalogues(Path(self.root))
