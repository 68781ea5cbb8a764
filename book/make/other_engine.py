"""Builds the staged pages with another engine, Zensical: what is staged needs nothing of MkDocs.

    python -m book.make.other_engine

What it makes is not for readers: finishing is left out, and notebooks, which it does not know. What
is looked at: that each page is there, with every place that a link may lead to.
"""

import shutil
import subprocess
import sys
import venv

import yaml
from mkdocs.config import load_config

from book import staging
from book.edition import Edition, Nav
from book.make.serve import CONFIGURATION
from book.page import ROOT, headings

ENGINE = "zensical==0.0.73"
FOLDER = ROOT / ".cache" / ENGINE
PYTHON = FOLDER / "bin" / "python"


def install() -> None:
    """Zensical, alone in a folder of its own."""
    if not PYTHON.is_file():
        venv.create(FOLDER, with_pip=True, clear=True)
        subprocess.run(
            [PYTHON, "-m", "pip", "install", "--quiet", ENGINE, "mkdocstrings-python"], check=True
        )


def build(language: str) -> list[str]:
    """What is not there of a language that was built so."""
    told = load_config(str(ROOT / CONFIGURATION[language]), hooks=[])
    edition = Edition(language, ROOT, nav=told.nav or [], rooms=told.extra["rooms"])
    staging.stage(edition)
    site = edition.staged.parent / f"{language}-site"
    shutil.rmtree(site, ignore_errors=True)
    settings = {
        "site_name": told.site_name,
        "docs_dir": language,
        "site_dir": site.name,
        "nav": _without_notebooks(edition.named()),
        "theme": {"name": "material", "language": language},
        "markdown_extensions": [
            {name: told.mdx_configs.get(name, {})}
            for name in told.markdown_extensions
            if name != "fenced_code"  # MkDocs' own, in the place of which the site has another
        ],
        "plugins": [{"mkdocstrings": {"handlers": {"python": {"paths": [str(ROOT)]}}}}],
    }
    file = edition.staged.parent / f"{language}.yml"
    file.write_text(yaml.safe_dump(settings, allow_unicode=True), encoding="utf-8")
    command = [str(FOLDER / "bin" / "zensical"), "build", "-f", file.name, "--clean"]
    subprocess.run(command, cwd=file.parent, check=True, capture_output=True)
    found = []
    for page in (page for page in edition.pages.values() if not page.is_notebook):
        path = site / page.url / "index.html"
        html = path.read_text(encoding="utf-8") if path.is_file() else ""
        staged = (edition.staged / page.staged).read_text(encoding="utf-8")
        lost = [head.id for head in headings(staged) if f'id="{head.id}"' not in html]
        if lost or not html:
            what = f"no such places: {', '.join(map(str, lost))}" if html else "not built"
            found.append(f"{language}/{page.uri}: {what}")
    return found


def _without_notebooks(nav: Nav) -> Nav:
    return [
        {name: inside if isinstance(inside, str) else _without_notebooks(inside)}
        for item in nav
        for name, inside in item.items()
        if not str(inside).endswith(".ipynb")
    ]


def main() -> int:
    """The exit status."""
    install()
    found = [problem for language in CONFIGURATION for problem in build(language)]
    print(*found or [f"attnref: {ENGINE} builds every staged page."], sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
