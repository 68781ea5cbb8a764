"""A project with one of each thing that a page may hold, to be staged and built."""

from pathlib import Path

from book.stage import figures

ROOT = Path(__file__).parent.parent.parent
PAGE = "docs/en/page.md"
FILES = {
    "mkdocs.en.yml": """
INHERIT: mkdocs.yml
docs_dir: docs/en
site_dir: site
nav: [page.md, other.md, reference/claims.md, reference/claims/page.md, reference/bibliography.md]
theme: {language: en}
plugins: {search: {lang: en}, mkdocstrings: {handlers: {python: {paths: [package]}}}}
""",
    PAGE: r"""---
title: A page
description: It has what a page may have.
---

# A page {#top}

What is here [is verified](claim:it-holds) [@one2024], where $d = 3$.

![A line that rises](figure:rise)

## What {#what}

```python title="snippets/sum.py"
--8<-- "snippets/sum.py:example"
```

$$
\sum_{p=1}^{3} x_p
$$

Go on [there](other.md), to [its end](other.md#end).
""",
    "docs/en/other.md": """---
title: Another
description: The other page of this site.
---

# Another {#top}

## The end {#end}
""",
    "docs/en/reference/claims.md": "---\ntitle: All\n---\n\n# All\n\n<!-- every chapter -->\n",
    "docs/en/reference/claims/page.md": "---\ntitle: Here\n---\n\n# Here\n\n<!-- every claim -->\n",
    "docs/en/reference/bibliography.md": "---\ntitle: Sources\n---\n\n<!-- every source -->\n",
    "package/attnref/__init__.py": '"""A package that offers nothing."""\n\n__all__ = []\n',
    "docs/api.pt.yml": "{}\n",
    "docs/references.bib": "@book{one2024, author={One, A.}, title={T}, year={2024}}\n",
    "snippets/sum.py": "# --8<-- [start:example]\nprint(1 + 2)\n# --8<-- [end:example]\n",
    "tests/test_it.py": '@pytest.mark.claim("it-holds")\ndef test_it():\n    assert abs(-1)\n',
}
OURS = (
    "CITATION.cff",
    "attnref",
    "book",
    "constraints.txt",
    "docs/also-called.yml",
    "docs/behaviours",
    "docs/glossary.yml",
    "docs/math",
    "docs/package.json",
    "docs/results",
    "docs/shared",
    "docs/theme",
    "pyproject.toml",
)


def make(root: Path) -> None:
    """Writes it into a folder, with links to the book's own passes."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    for path in (ROOT / "mkdocs.yml", *map(ROOT.joinpath, OURS), *ROOT.glob("docs/figures/*.py")):
        place = root / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(path)
    for name, language in (("rise", "pt"), ("rise", "en"), ("half", "pt")):
        drawn = figures.drawing_path(root, name, language)
        drawn.parent.mkdir(parents=True, exist_ok=True)
        drawn.write_text('<svg viewBox="0 0 1 1"><path d="M 0 1 L 1 0"/></svg>')
