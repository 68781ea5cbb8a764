"""Where the book explains something, for those who may have the installed package alone.

And how they install what an extra of the package brings, since no registry has the package.
"""

import functools
from importlib import metadata

_IN_THE_BOOK = {
    "en": "the page {} of the attnref book",
    "pt": "a página {} do livro attnref",
}

_INSTALL = {
    "en": "Run pip install '.[{0}]' in a clone, or pip install './WHEEL[{0}]' with the site's "
    "wheel.",
    "pt": "Rode pip install '.[{0}]' num clone, ou pip install './WHEEL[{0}]' com o arquivo "
    "WHEEL do site.",
}


def install(extra: str, lang: str) -> str:
    """How to install the libraries of an extra.

    Examples:
        >>> install("cli", "en")[:44]
        "Run pip install '.[cli]' in a clone, or pip "
    """
    return _INSTALL[lang].format(extra)


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
    return _IN_THE_BOOK[lang].format(page)


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
