"""What is said to people, in each language, side by side."""

from collections.abc import Mapping
from typing import NamedTuple

LANGUAGES = ("en", "pt")


class Text(NamedTuple):
    """One sentence in each language; ``{name}`` stands for a number or another text.

    Examples:
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


def preferred(environment: Mapping[str, str]) -> str:
    """The language of the locale if there are texts in it, otherwise English.

    Examples:
        >>> preferred({"LANG": "pt_BR.UTF-8"}), preferred({"LC_ALL": "C", "LANG": "pt_BR.UTF-8"})
        ('pt', 'en')
    """
    # In the order in which they count; the first that says anything decides.
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    locale = next((environment[name] for name in names if environment.get(name)), "")
    language = locale.replace("-", "_").split("_")[0].split(".")[0].lower()
    return language if language in LANGUAGES else "en"
