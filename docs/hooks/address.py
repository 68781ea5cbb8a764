"""Where the site and the code are on the web, once for all pages.

Both addresses are ``project.urls`` in pyproject.toml: ``Documentation``, the folder that holds
both languages, and ``Repository``. While one is missing, what needs it is left out, and the page
on installing says what works without it. With them a page has its canonical address, one for each
language in absolute form, what a shared link shows, and a link to correct it.
"""

import re
import subprocess
import tomllib
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from pages import ROOT

PROJECT = ROOT / "pyproject.toml"
CLONE, WHEEL, BOOK = "<!-- clone -->", "<!-- wheel -->", "<!-- book -->"
LANGUAGES = ("pt", "en")
BRANCH = "main"
ALTERNATE = re.compile(r'<link rel="alternate " [^>]*>')
WORDS = {
    "pt": {
        "clone": "Peça o clone a quem lhe deu este site; o pacote acima não precisa dele.",
        "wheel": "Baixe {link}, que foi construído com este site, e instale-o:",
        "direct": "O pacote foi construído com este site, e se instala direto dele:",
        "command": "com o comando attnref",
        "foot": "{version} · {licence} · verificado com PyTorch {torch}",
        "offline": "leia sem internet: {pdf}, {zip}",
        "book": "Baixe: {pdf}, {zip}.",
        "locale": "pt_BR",
    },
    "en": {
        "clone": "Ask whoever gave you this site for the clone; the package above needs none.",
        "wheel": "Download {link}, which was built together with this site, and install it:",
        "direct": "The package was built together with this site, and installs straight from it:",
        "command": "with the command attnref",
        "foot": "{version} · {licence} · tested with PyTorch {torch}",
        "offline": "read it offline: {pdf}, {zip}",
        "book": "Download: {pdf}, {zip}.",
        "locale": "en_US",
    },
}


class Address(NamedTuple):
    """The addresses of the project; None where it has none yet."""

    site: str | None
    repository: str | None


def read(project: dict[str, Any]) -> Address:
    """The addresses of a pyproject.toml: the site's with a slash at its end, the other without.

    Raises:
        PluginError: for anything but an address with http or https.
    """
    urls = project["project"].get("urls", {})
    for name, url in urls.items():
        if not re.fullmatch(r"https?://[^\s/]+\S*", url):
            raise PluginError(
                f"pyproject.toml: project.urls.{name}: expected an address that begins with "
                f"https://, got {url!r}"
            )
    site, repository = urls.get("Documentation"), urls.get("Repository")
    return Address(site and site.rstrip("/") + "/", repository and repository.rstrip("/"))


def wheel(project: dict[str, Any]) -> str:
    """The name of the file that the package is built into."""
    return f"{project['project']['name']}-{project['project']['version']}-py3-none-any.whl"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    told = project()
    language, address = Path(config.docs_dir).name, read(told)
    if address.site:
        config.site_url = f"{address.site}{language}/"
    if address.repository:
        config.repo_url, config.repo_name = address.repository, "attnref"
        folder = "-/edit" if "gitlab" in address.repository else "edit"
        config.edit_uri = f"{folder}/{BRANCH}/docs/{language}/"
        config.theme["features"].append("content.action.edit")
    config.copyright = WORDS[language]["foot"].format(
        version=f"attnref {told['project']['version']}{_commit(address.repository)}",
        licence=told["project"]["license"],
        torch=version("torch").partition("+")[0],
    )
    if files := _book(address, language):
        said = WORDS[language]["offline"].format(**files)
        config.copyright += f' <span class="offline">· {said}</span>'
    return config


def _book(address: Address, language: str) -> dict[str, str]:
    """Links to the files of the whole book, which .github/workflows/publish.yml puts there."""
    if not address.site:
        return {}
    return {
        kind: f'<a href="{address.site}book/attnref-{language}.{kind}">{kind}</a>'
        for kind in ("pdf", "zip")
    }


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if not any(place in markdown for place in (CLONE, WHEEL, BOOK)):
        return markdown
    language = Path(config.docs_dir).name
    told, words = project(), WORDS[language]
    address, name = read(told), wheel(told)
    book = _book(address, language)
    markdown = markdown.replace(BOOK, words["book"].format(**book) if book else "")
    clone = words["clone"]
    if address.repository:
        folder = address.repository.rpartition("/")[2]
        clone = "\n\n" + _bash(f"git clone {address.repository}", f"cd {folder}")
    place = f"{'../' * (page.url.count('/') + 1)}dist/{name}"  # beside the folder of the language
    link = f'<a href="{place}"><code>{name}</code></a>'
    said, plain, more = words["wheel"].format(link=link), name, f"./{name}[cli]"
    if address.site:
        said, plain = words["direct"], f"{address.site}dist/{name}"
        more = f"attnref[cli] @ {plain}"
    install = _bash(f"pip install {plain}", f"pip install '{more}'  # {words['command']}")
    return markdown.replace(CLONE, clone).replace(WHEEL, f"{said}\n\n{install}")


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    site = read(project()).site
    if not site:
        return output
    words = WORDS[Path(config.docs_dir).name]
    links = [
        f'<link rel="alternate " hreflang="{tag}" href="{site}{language}/{page.url}">'
        for tag, language in (*zip(LANGUAGES, LANGUAGES, strict=True), ("x-default", "en"))
    ]
    told = {
        "og:type": "article",
        "og:site_name": config.site_name,
        "og:title": str(page.title),
        "og:description": str(page.meta.get("description") or config.site_description),
        "og:url": str(page.canonical_url),
        "og:locale": words["locale"],
    }
    links += [f'<meta property="{key}" content="{escape(said)}">' for key, said in told.items()]
    output = ALTERNATE.sub("", output)
    return output.replace("</head>", "\n".join((*links, "</head>")), 1)


def _bash(*lines: str) -> str:
    return "\n".join(("```bash", *lines, "```"))


def project() -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads(PROJECT.read_text(encoding="utf-8"))


def short_commit() -> str:
    """The commit of which the site is built; nothing outside of a clone."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return "" if answer.returncode else answer.stdout.strip()


def _commit(repository: str | None) -> str:
    commit = short_commit()
    if not commit:
        return ""
    link = f'<a href="{repository}/commit/{commit}">{commit}</a>' if repository else commit
    return f" ({link})"
