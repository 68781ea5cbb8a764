"""What is said to people, in each language, side by side."""

import inspect
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

LANGUAGES = ("en", "pt")

F = TypeVar("F", bound=Callable[..., Any])


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
        """The sentence in ``lang``, its places filled with ``values``; without any, as it is.

        Raises:
            ValueError: for a language without texts.
        """
        if lang not in LANGUAGES:
            raise ValueError(one_of("lang", LANGUAGES, lang).en)
        template: str = getattr(self, lang)
        if not values:
            return template  # what was filled may hold braces
        filled = {
            name: value.say(lang) if isinstance(value, Text | Refusal) else value
            for name, value in values.items()
        }
        return template.format(**filled)

    def fill(self, values: Mapping[str, object] | None = None) -> "Text":
        """The sentence with its places filled, in both."""
        return Text(*(self.say(lang, values) for lang in LANGUAGES))


class Refusal(Exception):
    """What was asked for cannot be done; it says what is wrong and how to fix it.

    Examples:
        >>> refusal = Refusal(en="n: expected 1, got 0.", pt="n deve ser 1, mas é 0.")
        >>> str(refusal), refusal.say("pt")
        ('n: expected 1, got 0.', 'n deve ser 1, mas é 0.')
    """

    def __init__(self, en: str, pt: str) -> None:
        super().__init__(en, pt)
        self.en, self.pt = en, pt

    def __str__(self) -> str:
        return self.en

    def say(self, lang: str) -> str:
        """The message in ``lang``, one of ``LANGUAGES``."""
        return self.pt if lang == "pt" else self.en


def one_of(name: str, known: Iterable[str], got: object) -> Text:
    """That ``got`` is none of the values that ``name`` can have.

    Examples:
        >>> one_of("lang", LANGUAGES, "fr").en
        "lang: expected one of en, pt, got 'fr'."
    """
    names = ", ".join(known)
    return Text(
        en=f"{name}: expected one of {names}, got {got!r}.",
        pt=f"{name}: {got!r} não é um valor válido. Escolha entre {names}.",
    )


def preferred_language(environment: Mapping[str, str]) -> str:
    """The language of the locale if there are texts in it, otherwise English.

    Examples:
        >>> preferred_language({"LANG": "pt_BR.UTF-8"})
        'pt'
        >>> preferred_language({"LC_ALL": "C", "LANG": "pt_BR.UTF-8"})
        'en'
    """
    # In the order in which they count; the first that says anything decides.
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    locale = next((environment[name] for name in names if environment.get(name)), "")
    language = locale.replace("-", "_").split("_")[0].split(".")[0].lower()
    return language if language in LANGUAGES else "en"


def choose_language(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """The language of a command: that of ``--lang`` if it is one of ours, or of the locale.

    Examples:
        >>> [choose_language(["check", *more], {}) for more in (["--lang", "pt"], ["--lang=pt"])]
        ['pt', 'pt']
        >>> choose_language(["check"], {"LANG": "pt_BR.UTF-8"})
        'pt'
        >>> choose_language(["check", "--lang", "fr"], {})
        'en'
    """
    said = [word.partition("=")[2] for word in words if word.startswith("--lang=")]
    said += [word for before, word in itertools.pairwise(words) if before == "--lang"]
    known = [lang for lang in said if lang in LANGUAGES]
    return known[0] if known else preferred_language(environment)


def choose_help(en: str, pt: str) -> str:
    """What an option does, for its help; chosen when the command is defined."""
    return pt if choose_language(sys.argv, os.environ) == "pt" else en


def add_portuguese(pt: str) -> Callable[[F], F]:
    """Gives a command its Portuguese help, where its docstring is the English one."""

    def decorate(command: F) -> F:
        command.__doc__ = choose_help(inspect.cleandoc(command.__doc__ or ""), inspect.cleandoc(pt))
        return command

    return decorate
