"""What is said to people, in each language, side by side."""

from collections.abc import Mapping
from typing import NamedTuple

LANGUAGES = ("en", "pt")


class Text(NamedTuple):
    """One sentence in each language; ``{name}`` stands for a number or another text.

    >>> found = Text(en="behaves as {factor:.3g}", pt="comporta-se como {factor:.3g}")
    >>> found.say("pt", {"factor": 0.015625})
    'comporta-se como 0.0156'
    """

    en: str
    pt: str

    def say(self, lang: str, values: Mapping[str, object] | None = None) -> str:
        """The sentence in ``lang``, its places filled with ``values``.

        Raises:
            ValueError: for a language without texts.
        """
        if lang not in LANGUAGES:
            raise ValueError(f"lang: expected one of {', '.join(LANGUAGES)}, got {lang!r}.")
        filled = {
            name: value.say(lang) if isinstance(value, Text) else value
            for name, value in (values or {}).items()
        }
        template: str = getattr(self, lang)
        return template.format(**filled)
