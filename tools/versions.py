"""Puts the site of each release beside the newest one, in .cache/published.

    python tools/versions.py

The newest, which ``make site`` has built, stays at the root; a release, a tag such as v0.1.0, is
built by its own ``make site`` and kept at /v0.1.0/, with both languages. When the pages of a
release are built, nobody knows the versions to come: so what they say of them is written here, in
the theme's shapes. The theme's own way, extra.version, asks for versions.json beside the folder of
each language, and takes that folder, the last of an address, for the version. Links that are
written down need neither a request nor JavaScript, and lead to what exists.
"""

import hashlib
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from site_server import ROOT, address

RELEASE = re.compile(r"v\d+(\.\d+)+")
CANONICAL = re.compile(r'<link rel="canonical" href="[^"]*">\s*')
HEADER = '<header class="md-header"'
LANGUAGES = re.compile(r'<div class="md-header__option">\s*<div class="md-select">')
OF_A_ROOT = ("404.html", "robots.txt", "*/sitemap.xml", "*/sitemap.xml.gz")
WORDS = {
    "pt": {
        "newest": "atual",
        "choose": "Selecione a versão",
        "outdated": "Esta é uma edição antiga do livro, a da versão {version}.",
        "page": "Leia esta página na edição atual.",
        "gone": "Esta página não existe mais: vá para o início da edição atual.",
    },
    "en": {
        "newest": "latest",
        "choose": "Select version",
        "outdated": "This is an old edition of the book, that of version {version}.",
        "page": "Read this page in the latest one.",
        "gone": "This page no longer exists: go to the start of the latest one.",
    },
}


class Version(NamedTuple):
    """A version of the site, by its folder; the newest has none."""

    folder: str
    pages: frozenset[str]
    is_old: bool = False

    def name(self, language: str) -> str:
        return self.folder.removeprefix("v") or WORDS[language]["newest"]


def publish(root: Path) -> Path:
    """The folder with all versions; with the newest alone while the site has no address."""
    published, place = root / ".cache" / "published", address(root)
    shutil.rmtree(published, ignore_errors=True)
    shutil.copytree(root / "site", published)
    is_old = {}
    for tag in releases(root) if place else []:
        shutil.copytree(build(root, tag, place), published / tag)
        is_old[tag] = commit(root, tag) != commit(root, "HEAD")
    stamp(published, place, is_old)
    return published


def releases(root: Path) -> list[str]:
    """The tags of releases, the newest first."""
    if git(root, "rev-parse", "--is-shallow-repository") == "true":
        sys.exit("attnref: this clone may lack releases: git fetch --unshallow --tags")
    tags = filter(RELEASE.fullmatch, git(root, "tag").split())
    return sorted(tags, key=lambda tag: [*map(int, tag[1:].split("."))], reverse=True)


def build(root: Path, tag: str, place: str) -> Path:
    """The site of a release, told where it stands; kept until tag or address change."""
    now = commit(root, tag)
    key = hashlib.sha256(f"{now} {place}".encode()).hexdigest()[:12]
    kept = root / ".cache" / "releases" / f"{tag}-{key}"
    if kept.is_dir():
        return kept
    print(f"attnref: building the site of {tag} …", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, tag)
        git(root, "clone", "--quiet", "--no-checkout", str(root), str(clone))
        git(clone, "checkout", "--quiet", "--detach", now)
        settle(clone / "pyproject.toml", f"{place}/{tag}/")
        ours = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}  # of the make that runs this
        environment = {name: value for name, value in os.environ.items() if name not in ours}
        if subprocess.run(["make", "site"], cwd=clone, env=environment).returncode:
            sys.exit(
                f"attnref: the site of {tag} was not built; the lines above say why. Nothing is "
                "published without it: fix what it needs, or remove the tag."
            )
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(clone / "site", kept)
    return kept


def settle(project: Path, place: str) -> None:
    """Writes an address into a pyproject.toml: the pages of a release install its own wheel."""
    table = "[project.urls]\n"
    text = re.sub(r"(?m)^Documentation = .*\n", "", project.read_text("utf-8"))
    before, table, after = (text if table in text else f"{text}\n{table}").partition(table)
    project.write_text(f'{before}{table}Documentation = "{place}"\n{after}', "utf-8")


def commit(root: Path, name: str) -> str:
    return git(root, "rev-parse", f"{name}^{{commit}}")


def git(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()


def stamp(published: Path, place: str, is_old: dict[str, bool]) -> None:
    """Tells the pages of all versions of each other; one alone is left as it is."""
    if not is_old:
        return
    for tag in is_old:
        for path in [path for name in OF_A_ROOT for path in published.joinpath(tag).glob(name)]:
            path.unlink()
    inside = tuple(f"{tag}/" for tag in is_old)
    pages = frozenset(page for page in html(published) if not page.startswith(inside))
    versions = [Version("", pages)]
    versions += [Version(tag, html(published / tag), old) for tag, old in is_old.items()]
    for version in versions:
        for page in sorted(version.pages):
            path = published / version.folder / page
            text = path.read_text("utf-8")
            if version.folder:
                text = add_canonical(text, page, place, pages)
                text = text.replace(f"{place}/{version.folder}/book/", f"{place}/book/")
            if page.partition("/")[0] in WORDS:
                text = add_selector(text, page, version, versions)
            path.write_text(text, "utf-8")


def html(folder: Path) -> frozenset[str]:
    return frozenset(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))


def add_canonical(text: str, page: str, place: str, pages: frozenset[str]) -> str:
    """A page of a release, which search engines are to list as the newest of that name, or not."""
    link = '<meta name="robots" content="noindex">'
    if page in pages:
        link = f'<link rel="canonical" href="{place}/{page.removesuffix("index.html")}">'
    return CANONICAL.sub("", text).replace("</head>", f"{link}</head>", 1)


def add_selector(text: str, page: str, here: Version, versions: Sequence[Version]) -> str:
    """A page with the selector beside that of languages and, in an old version, a word on that."""
    if HEADER not in text or not LANGUAGES.search(text):
        place = posixpath.join(here.folder, page)
        sys.exit(f"attnref: tools/versions.py: {place}: the theme's header has changed")
    language = page.partition("/")[0]
    words, name = WORDS[language], here.name(language)
    items = "".join(
        '<li class="md-select__item"><a class="md-select__link" '
        f'href="{target(page, here, there)}"{" aria-current=true" if here == there else ""}>'
        f"{there.name(language)}</a></li>"
        for there in versions
    )
    selector = (
        '<div class="md-header__option"><div class="md-select">'
        f'<button class="md-header__button" aria-label="{words["choose"]}: {name}">{name}</button>'
        '<div class="md-select__inner">'
        f'<ul class="md-select__list">{items}</ul></div></div></div>'
    )
    text = LANGUAGES.sub(lambda found: f"{selector}{found[0]}", text, count=1)
    if not here.is_old:
        return text
    newest = versions[0]
    said, link = words["outdated"].format(version=name), words["gone"]
    if page in newest.pages:
        link = words["page"]
    banner = (
        '<div data-md-color-scheme="default"><aside class="md-banner md-banner--warning">'
        f'<div class="md-banner__inner md-grid md-typeset">{said} '
        f'<a href="{target(page, here, newest)}">{link}</a></div></aside></div>'
    )
    return text.replace(HEADER, f"{banner}{HEADER}", 1)


def target(page: str, here: Version, there: Version) -> str:
    """The way to a page in another version, or to the start of its language there."""
    start = f"{page.partition('/')[0]}/index.html"
    found = next(each for each in (page, start, "index.html") if each in there.pages)
    goal = posixpath.join("/", there.folder, posixpath.dirname(found))
    return posixpath.relpath(goal, posixpath.join("/", here.folder, posixpath.dirname(page))) + "/"


if __name__ == "__main__":
    print(f"attnref: {publish(ROOT)} holds what is to be published.")
