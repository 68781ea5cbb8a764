"""Which language a learner reads."""

from collections.abc import Mapping

from attnref.conformance.text import LANGUAGES


def preferred(environment: Mapping[str, str]) -> str:
    """The language of the locale if there are texts in it, otherwise English.

    >>> preferred({"LANG": "pt_BR.UTF-8"}), preferred({"LC_ALL": "C", "LANG": "pt_BR.UTF-8"})
    ('pt', 'en')
    """
    # In the order in which they count; the first that says anything decides.
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    locale = next((environment[name] for name in names if environment.get(name)), "")
    language = locale.replace("-", "_").split("_")[0].split(".")[0].lower()
    return language if language in LANGUAGES else "en"
