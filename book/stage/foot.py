"""Ends each page with how to correct it, and how to cite it.

CITATION.cff is for the book as a whole, whose entry is shown where a page has
``<!-- citation -->``; of a page are its title, its address, if the site has one, and the day of its
last change. To both, version and commit of the build are added.
"""

import re
from html import escape
from urllib.parse import urlencode

from book.edition import Edition
from book.page import ROOT, Page, read_yaml
from book.stage.address import project, short_commit
from book.stage.reading import commit_date

AFTER = ("chapters",)
CITATION = "<!-- citation -->"
WORDS = {
    "pt": {
        "correct": "Sugira uma correção",
        "cite": "Cite esta página",
        "language": "brazilian",
    },
    "en": {
        "correct": "Suggest a correction",
        "cite": "Cite this page",
        "language": "english",
    },
}


def stage(markdown: str, page: Page, edition: Edition) -> str:
    words = WORDS[edition.language]
    repository = edition.repo_url
    there = page.address("reference/contributing/")
    if repository:
        folder = "/-" if "gitlab" in repository else ""
        title = urlencode({"title": f"{edition.language}/{page.url}: "})
        there = f"{repository}{folder}/issues/new?{title}"
    markdown = markdown.replace(CITATION, f"```bibtex\n{book_entry(edition)}\n```")
    return (
        f'{markdown}\n\n<div class="foot" data-search-exclude>'
        f'<p><a href="{escape(there)}">{words["correct"]}</a></p>'
        f'<details class="quote"><summary>{words["cite"]}</summary>'
        f"<pre><code>{escape(bibtex(page, edition), quote=False)}</code></pre></details></div>\n"
    )


def bibtex(page: Page, edition: Edition) -> str:
    """An entry for a list of references, in the words that BibTeX and BibLaTeX both know."""
    url = edition.site_url and edition.address(page)
    return _entry(page.url, page.title, commit_date(page.path), url, edition.language)


def book_entry(edition: Edition) -> str:
    """The entry of the whole book, as CITATION.cff has it."""
    told = read_yaml((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    day = str(told["date-released"])
    return _entry("", told["title"], day, edition.site_url, edition.language)


def _entry(place: str, title: str, day: str, url: str, language: str) -> str:
    told, commit = project(), short_commit()
    fields = {
        "title": f"{{{_tex(title)}}}",
        "author": " and ".join(f"{{{each['name']}}}" for each in told["authors"]),
        "howpublished": f"{told['name']} {told['version']}" + (f", {commit}" if commit else ""),
        "year": day[:4],
        "month": day[5:7],
        "langid": WORDS[language]["language"],
        "url": url,
    }
    key = re.sub(r"\W+", "-", f"{told['name']}/{place}").strip("-")
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join((f"@misc{{{key},", *lines, "}"))


def _tex(title: str) -> str:
    return re.sub(r"([&%$#_{}])", r"\\\1", title)
