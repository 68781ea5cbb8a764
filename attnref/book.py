"""Where the book explains something, for those who may have the installed package alone.

And how they install what an extra of the package brings, since no registry has the package.
"""

import functools
from importlib import metadata

from attnref.text import Text

_IN_THE_BOOK = Text("the page {page} of the attnref book")
_INSTALL = Text(
    "Run pip install '.[{extra}]' in a clone, or pip install './WHEEL[{extra}]' with the site's "
    "wheel."
)


def install(extra: str) -> Text:
    """How to install the libraries of an extra.

    Examples:
        >>> str(install("cli"))[:44]
        "Run pip install '.[cli]' in a clone, or pip "
    """
    return _INSTALL.fill({"extra": extra})


def page_address(page: str, lang: str) -> str:
    """The address of a page, or its place in the book while that has no address.

    Examples:
        >>> found = page_address("foundations/masks", "en")
        >>> found.startswith(("https://", "the page foundations/masks"))
        True
    """
    site = address()
    if site is not None:
        return f"{site.rstrip('/')}/{lang}/{page}/"
    return _IN_THE_BOOK.say(lang, {"page": page})


@functools.cache
def address() -> str | None:
    """Where the site is: ``Documentation`` of the package's ``project.urls``, if it is there.

    None also for a package that is not installed, but lies beside the program.
    """
    try:
        urls = metadata.metadata("attnref").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    return dict(url.split(", ", 1) for url in urls).get("Documentation")
