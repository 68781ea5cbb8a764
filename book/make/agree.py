"""Keeps note, in each page, that its version in the other language says the same.

A page holds, as `agrees`, a digest of the other version as it was when somebody had seen that
both agree; a page of Markdown in its front matter, a notebook in its metadata, a file of the
project in a comment at its end. A page that has changed in one language only is thereby found
by name, and two branches meet in this note only where they have changed the same page.

    python -m book.make.agree              note every page that changed in both languages
    python -m book.make.agree PAGE …       note these, though changed in one (a typing slip, say)
"""

import hashlib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LANGUAGES = ("pt", "en")
# Files of the project that are shown as pages, in English and beside it as name.pt.md.
FILES = ("CONTRIBUTING.md",)
NOTE = re.compile(r'agrees"?: "?(?P<digest>[0-9a-f]{12})\b')
# Where the note goes in a page that has none: after this, written so.
PLACES = {
    ".md": (re.compile(r"\A---\n(?:.*\n)*?(?=---\n)"), "agrees: {}\n"),
    ".ipynb": (re.compile(r'\n "metadata": \{\n(?=  "description")'), '  "agrees": "{}",\n'),
}
AT_THE_END = (re.compile(r"\Z"), "\n<!-- agrees: {} -->\n")


def pages(root: Path) -> dict[str, dict[str, Path]]:
    """The versions of each page, by its path and language."""
    found: dict[str, dict[str, Path]] = {}
    for language in LANGUAGES:
        folder = root / "docs" / language
        for path in sorted(folder.rglob("*.*")):
            if path.suffix in PLACES:
                found.setdefault(path.relative_to(folder).as_posix(), {})[language] = path
        for name in FILES:
            path = root / (name if language == "en" else name.replace(".md", f".{language}.md"))
            if path.is_file():
                found.setdefault(name, {})[language] = path
    return dict(sorted(found.items()))


def digest(path: Path) -> str:
    """Of what a version says, without its note of the other one."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":  # what its cells put out is the same in both
        notebook = json.loads(text)
        for cell in notebook["cells"]:
            cell.pop("outputs", None)
        for name in ("agrees", "files"):
            notebook["metadata"].pop(name, None)
        text = json.dumps(notebook)
    text = NOTE.sub("", text)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def changed_languages(versions: dict[str, Path]) -> list[str]:
    """The languages of a page that are not as the other version notes them."""
    return [
        language
        for language, path in versions.items()
        for other in versions.values()
        if other != path and _noted_digest(other) != digest(path)
    ]


def _noted_digest(path: Path) -> str | None:
    note = NOTE.search(path.read_text(encoding="utf-8"))
    return note and note["digest"]


def problems(root: Path, page: str | None = None) -> list[str]:
    """What is to be done about each page, or about one, whose versions may not agree."""
    return [
        _problem(name, versions, languages, root)
        for name, versions in pages(root).items()
        if page in (None, name) and (languages := changed_languages(versions))
    ]


def _problem(page: str, versions: dict[str, Path], languages: list[str], root: Path) -> str:
    if len(languages) > 1:
        return f"{page} changed in both languages: when they say the same, run make agree"
    (here,) = languages
    other = next(language for language in versions if language != here)
    names = {language: path.relative_to(root).as_posix() for language, path in versions.items()}
    return (
        f"{names[here]} changed, {names[other]} did not: bring it up to date and "
        f"run make agree, or, if it says the same already, make agree PAGE={page}"
    )


def note(versions: dict[str, Path]) -> None:
    """Writes into each version of a page the digest of the other."""
    digests = {path: digest(path) for path in versions.values()}
    for path in versions.values():
        text = path.read_text(encoding="utf-8")
        if not NOTE.search(text):
            place, line = PLACES[path.suffix]
            if not place.search(text):
                place, line = AT_THE_END
            text = place.sub(rf"\g<0>{line.format('0' * 12)}", text, count=1)
            path.write_text(text, encoding="utf-8")
            digests[path] = digest(path)
    for path in versions.values():
        (other,) = (digests[each] for each in versions.values() if each != path)
        text = path.read_text(encoding="utf-8")
        was = NOTE.search(text)
        assert was is not None
        noted = text[: was.start("digest")] + other + text[was.end("digest") :]
        path.write_text(noted, encoding="utf-8")


def main(named: list[str]) -> None:
    known = pages(ROOT)
    wanted = []
    for name in named:
        page = next((page for page in known if name in (page, page.rpartition(".")[0])), None)
        if page is None:
            sys.exit(f"attnref: no page {name} below docs/pt or docs/en.")
        wanted.append(page)
    one_sided = [
        _problem(page, versions, languages, ROOT)
        for page, versions in known.items()
        if len(languages := changed_languages(versions)) == 1 and page not in wanted
    ]
    if one_sided:
        sys.exit("\n".join(one_sided))
    stale = [page for page, versions in known.items() if changed_languages(versions)]
    for page in stale:
        note(known[page])
    print(f"attnref: noted that both languages say the same: {', '.join(stale) or 'as before'}.")


if __name__ == "__main__":
    main(sys.argv[1:])
