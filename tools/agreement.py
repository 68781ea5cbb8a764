"""Keeps note of which versions of a page, in both languages, say the same.

docs/agreement.json holds a digest of each page in each language, taken when somebody had seen
that they agree. A page that has changed in one language only is thereby found by name.

    python tools/agreement.py              note every page that changed in both languages
    python tools/agreement.py PAGE …       note these, though changed in one (a typing slip, say)
"""

import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LANGUAGES = ("pt", "en")
# Files of the project that are shown as pages, in English and beside it as name.pt.md.
FILES = ("CONTRIBUTING.md",)


def digests(root: Path) -> dict[str, dict[str, str]]:
    """Digest of each page, by path and language."""
    found: dict[str, dict[str, str]] = {}
    for language in LANGUAGES:
        folder = root / "docs" / language
        files = (path for path in folder.rglob("*.*") if path.suffix in (".md", ".ipynb"))
        pages = [path.relative_to(folder).as_posix() for path in files]
        for page in sorted(pages) + list(FILES):
            path = root / path_of(page, language)
            if path.is_file():
                digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
                found.setdefault(page, {})[language] = digest
    return dict(sorted(found.items()))


def path_of(page: str, language: str) -> str:
    """Where a page stands in a language."""
    if page not in FILES:
        return f"docs/{language}/{page}"
    return page if language == "en" else page.replace(".md", f".{language}.md")


def noted(root: Path) -> dict[str, dict[str, str]]:
    path = root / "docs" / "agreement.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def changed(root: Path) -> dict[str, list[str]]:
    """Languages in which each page differs from what was noted; a page gone counts as changed."""
    now, then = digests(root), noted(root)
    found = {}
    for page in sorted({*now, *then}):
        languages = [
            language
            for language in LANGUAGES
            if now.get(page, {}).get(language) != then.get(page, {}).get(language)
        ]
        if languages:
            found[page] = languages
    return found


def problems(root: Path) -> list[str]:
    return [problem(page, languages) for page, languages in changed(root).items()]


def problem(page: str, languages: list[str]) -> str:
    """What is to be done about a page that changed in these languages."""
    if len(languages) > 1:
        return f"{page} changed in both languages: when they say the same, run make agree"
    (here,) = languages
    other = next(language for language in LANGUAGES if language != here)
    return (
        f"{path_of(page, here)} changed, {path_of(page, other)} did not: bring it up to date and "
        f"run make agree, or, if it says the same already, make agree PAGE={page}"
    )


def main(named: list[str]) -> None:
    unknown = [page for page in named if page not in digests(ROOT)]
    if unknown:
        sys.exit(f"attnref: no page {unknown[0]} below docs/pt or docs/en.")
    one_sided = {
        page: languages
        for page, languages in changed(ROOT).items()
        if len(languages) == 1 and page not in named
    }
    if one_sided:
        sys.exit("\n".join(problem(*each) for each in one_sided.items()))
    path = ROOT / "docs" / "agreement.json"
    path.write_text(json.dumps(digests(ROOT), indent=1) + "\n", encoding="utf-8")
    print(f"attnref: noted {len(digests(ROOT))} pages in {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
