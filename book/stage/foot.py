"""Ends each page with how to correct it, and how to cite it.

CITATION.cff is for the book as a whole, whose entry is shown where a page has
``<!-- citation -->``; of a page are its title, its address, if the site has one, and the day of its
last change. To both, version and commit of the build are added.
"""

import re
from html import escape
from pathlib import Path
from urllib.parse import urlencode

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from book.page import ROOT, path_of, read_yaml
from book.stage.address import project, short_commit
from book.stage.reading import commit_date

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


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return markdown.replace(CITATION, f"```bibtex\n{book_entry(config)}\n```")


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    words = WORDS[Path(config.docs_dir).name]
    repository = config.repo_url
    there = get_relative_url("reference/contributing/", page.url)
    if repository:
        folder = "/-" if "gitlab" in repository else ""
        title = urlencode({"title": f"{Path(config.docs_dir).name}/{page.url}: "})
        there = f"{repository}{folder}/issues/new?{title}"
    return (
        f'{html}<div class="foot" data-search-exclude>'
        f'<p><a href="{escape(there)}">{words["correct"]}</a></p>'
        f'<details class="quote"><summary>{words["cite"]}</summary>'
        f"<pre><code>{escape(bibtex(page, config), quote=False)}</code></pre></details></div>"
    )


def bibtex(page: Page, config: MkDocsConfig) -> str:
    """An entry for a list of references, in the words that BibTeX and BibLaTeX both know."""
    title, day = str(page.meta.get("title") or page.title), commit_date(path_of(page))
    return _entry(page.url, title, day, page.canonical_url or "", config)


def book_entry(config: MkDocsConfig) -> str:
    """The entry of the whole book, as CITATION.cff has it."""
    told = read_yaml((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    return _entry("", told["title"], str(told["date-released"]), config.site_url or "", config)


def _entry(place: str, title: str, day: str, url: str, config: MkDocsConfig) -> str:
    told, language, commit = project(), Path(config.docs_dir).name, short_commit()
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
