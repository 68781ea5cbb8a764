"""What is said to people: in English here, and in each other language in its catalogue."""

import functools
import gettext
import inspect
import itertools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from pathlib import Path
from typing import Any, TypeVar

LOCALE = Path(__file__).parent / "locale"
# Those that have a folder there, English first.
LANGUAGES = ("en", *sorted({path.name for path in LOCALE.glob("[!_.]*")} - {"en"}))

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def _catalogue(lang: str) -> gettext.NullTranslations:
    try:
        return gettext.translation("attnref", LOCALE, [lang])
    except FileNotFoundError:  # a clone that is run without having been installed
        if lang != "en":
            remedy = "Run make sentences, or pip install --editable ."
            warnings.warn(
                f"{LOCALE / lang} is not compiled; this is English. {remedy}", stacklevel=3
            )
        return gettext.NullTranslations()


@dataclass(frozen=True)
class Text:
    """One sentence; ``{name}`` stands for a number or another text, in every language.

    Attributes:
        english: the sentence, which is looked up in the catalogues.
        filled: what its places have been filled with, by name.

    Examples:
        >>> found = Text("Hint {number} of {all}:")
        >>> found.say("pt", {"number": 2, "all": 3})
        'Dica 2 de 3:'
        >>> str(found.fill({"number": 2, "all": 3}))
        'Hint 2 of 3:'
    """

    english: str
    filled: tuple[tuple[str, object], ...] = ()

    def say(self, lang: str, values: Mapping[str, object] | None = None) -> str:
        """The sentence in ``lang``, its places filled with ``values``; without any, as it is.

        Raises:
            ValueError: for a language without texts.
        """
        if lang not in LANGUAGES:
            raise ValueError(str(one_of("lang", LANGUAGES, lang)))
        # The catalogue has its own heading under the empty sentence.
        template = self.english and _catalogue(lang).gettext(self.english)
        known = {
            name: value.say(lang) if isinstance(value, Text | Refusal) else value
            for name, value in (*self.filled, *(values or {}).items())
        }
        return template.format(**known) if known else template  # which may hold braces

    def __str__(self) -> str:
        return self.say("en")

    def fill(self, values: Mapping[str, object]) -> "Text":
        """The sentence with its places filled; what is no text or number counts as it prints."""
        said = {
            name: value.text if isinstance(value, Refusal) else value
            for name, value in values.items()
        }
        plain = (
            (name, value if isinstance(value, Text | Number) else str(value))
            for name, value in said.items()
        )
        return Text(self.english, (*self.filled, *plain))

    @staticmethod
    def join(separator: str, texts: Sequence["Text"]) -> "Text":
        """Several texts as one, with the same separator in every language."""
        parts = {f"part{number}": text for number, text in enumerate(texts)}
        return Text(separator.join(f"{{{name}}}" for name in parts)).fill(parts)


class Refusal(Exception):
    """What was asked for cannot be done; it says what is wrong and how to fix it.

    Args:
        text: a sentence, or its English.
        values: what fills its places.

    Examples:
        >>> str(Refusal("{name}: expected 1, got {got}.", name="n", got=0))
        'n: expected 1, got 0.'
    """

    def __init__(self, text: Text | str, /, **values: object) -> None:
        self.text = (text if isinstance(text, Text) else Text(text)).fill(values)
        super().__init__(self.text)

    def say(self, lang: str) -> str:
        """The message in ``lang``, one of ``LANGUAGES``."""
        return self.text.say(lang)


def one_of(name: str, known: Iterable[str], got: object) -> Text:
    """That ``got`` is none of the values that ``name`` can have.

    Examples:
        >>> str(one_of("lang", LANGUAGES, "fr"))
        "lang: expected one of en, pt, got 'fr'."
    """
    sentence = Text("{name}: expected one of {known}, got {got!r}.")
    return sentence.fill({"name": name, "known": ", ".join(known), "got": got})


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


def choose_help(english: str, /, **values: object) -> str:
    """What an option does, for its help; chosen when the command is defined."""
    return Text(english).say(choose_language(sys.argv, os.environ), values)


def translate_help(command: F) -> F:
    """A command whose help, its docstring, is in the language that is spoken."""
    command.__doc__ = choose_help(inspect.cleandoc(command.__doc__ or ""))
    return command
