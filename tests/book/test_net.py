"""What no pass understands stops the build, with the line where it is written."""

import json
from pathlib import Path

import pytest

from book.edition import Edition
from book.finish import formulas, net
from book.page import BookError, Page
from book.stage import citations, claims, figures, numbers, parity
from tests.book.rendering import to_html

ROOT = Path(__file__).parent.parent.parent
# What is written, and what of it is left on the page.
BROKEN = {
    "It [holds](clame:x), they say.": "clame:x",
    "![a](figur:y)": "figur:y",
    'See <a href="chart:x">it</a>.': "chart:x",
    "![a](https://one.org/a.png)": "https://one.org/a.png",
    "A [c][undefined] link.": "[c][undefined]",
    "A [*c*][other] link.": "][other]",
    "A [c](page.md link.": "](page.md link.",
    "Said [@ one] there.": "[@ one]",
    "A note[^1] without its text.": "[^1]",
    'See --8<-- "snippets/x.py:example".': '--8<-- "snippets/x.py:example".',
    "Text {#its-id} goes on.": "{#its-id}",
    "## What $QK^T$ shows {#shows}": "QK^T",
    "Is $n = 3 or 4?": "$n = 3 or 4?",
    "<!-- every thing -->": "<!-- every thing -->",
}
FINE = r"""
`[c][undefined]`, `[@a` and `(clame:x)` in code, $a[i][j]$ and $\sqrt{x}$ in formulas,
<https://one.org>, [a page](page.md), <mailto:me@one.org> and [one](https://one.org).

```text
[c][undefined] {#id} --8<-- "snippets/name.py" <!-- every thing --> <a href="clame:x">
```
"""


def finish(path: Path, text: str) -> None:
    """Takes a page the way of all pages as far as the net, with the passes that look into prose."""
    path.write_text(text, encoding="utf-8")
    page, edition = Page("page.md", path, text), Edition("en", ROOT)
    for one in (claims, citations, figures):
        text = one.stage(text, page, edition)
    output = f"<article>{to_html(text)}</article>"
    net.whole(formulas.whole(output, page, edition), page, edition)


@pytest.mark.claim("broken-page-stops-the-build")
def test_what_is_left_of_our_own_syntax_stops_the_build(tmp_path):
    text = f"# A page\n{FINE}\n" + "\n\n".join(BROKEN) + "\n"
    with pytest.raises(BookError) as stopped:
        finish(tmp_path / "page.md", text)
    said = str(stopped.value)
    for written, left in BROKEN.items():
        line = text[: text.rindex(written)].count("\n") + 1
        assert f"page.md:{line}: {left}: " in said
    assert said.count("page.md:") == len(BROKEN)


def test_what_is_understood_is_built(tmp_path):
    finish(tmp_path / "page.md", f"# A page\n{FINE}")


@pytest.mark.claim("site-is-self-contained")
def test_what_a_browser_would_fetch_elsewhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n", encoding="utf-8")
    for output, fetched in (
        ('<script async src="https://one.org/a.js"></script>', ["https://one.org/a.js"]),
        ("<img alt=x src=//one.org/a.png>", ["//one.org/a.png"]),
        ('<link rel="stylesheet" href="http://one.org/a.css">', ["http://one.org/a.css"]),
        ('<link href="https://one.org/a.woff2" rel="preload">', ["https://one.org/a.woff2"]),
        ('<link rel="canonical" href="https://one.org/a/">', []),
        ('<a href="https://one.org">one</a> <img src="a.png"> <script src="a.js">', []),
    ):
        left = net.problems(page, output, tmp_path)
        assert [problem.message.partition(": a browser")[0] for problem in left] == fetched


def test_what_is_left_is_found_where_it_was_written(tmp_path):
    """In a notebook, whose lines are quoted, and in a file that is shown on a page."""
    page = tmp_path / "page.ipynb"
    cells = {"cells": [{"source": ['A "[é][b]"\n']}]}
    page.write_text(json.dumps(cells, indent=1, ensure_ascii=False), encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n```text\n[c][d]\n```\n\nA [c][d].\n")
    output = '<a href="clame:x"></a><article><p>"[é][b]" [c][d] [e][f]</p></article>'
    places = [
        (problem.path.name, problem.line, problem.message.partition(": ")[0])
        for problem in net.problems(page, output, tmp_path)
    ]
    assert places == [
        ("page.ipynb", 1, "clame:x"),
        ("page.ipynb", 5, "[é][b]"),
        ("CHANGELOG.md", 7, "[c][d]"),
        ("page.ipynb", 1, "[e][f]"),
    ]


def test_an_id_of_a_claim_that_is_none_is_refused(tmp_path):
    for ident in ("Output_Within", "output_within", "", "a b", "-a"):
        page = Path("page.md")
        (problem,) = claims.problems(page, f"\n\nIt [is $a[i]$](claim:{ident}).", tmp_path)
        assert problem.line == 3
        expected = "expected small letters, digits and hyphens, as in its-id"
        assert problem.message == f"claim {ident!r}: {expected}"


SOURCES = {
    "[@vaswani2017]": "[Vaswani et al. (2017)](bibliography#vaswani2017)",
    "[@vaswani2017, sec. 3.2]": "[Vaswani et al. (2017, sec. 3.2)](bibliography#vaswani2017)",
    "[@su2021; @raschka2024, p. 7]": "[Su et al. (2021)](bibliography#su2021); "
    "[Raschka (2024, p. 7)](bibliography#raschka2024)",
    "[see @su2021]": "see [Su et al. (2021)](bibliography#su2021)",
    "`[@su2021; @b]` and [a@b.org]": "`[@su2021; @b]` and [a@b.org]",
    "[me @home](https://one.org)": "[me @home](https://one.org)",
}


def test_sources_are_cited_as_in_pandoc():
    page, edition = Page("reference/page.md", Path("page.md"), ""), Edition("en", ROOT)
    for written, shown in SOURCES.items():
        answer = citations.stage(written, page, edition)
        assert answer == shown.replace("(bibliography", "(bibliography.md")


def test_what_is_cited_is_known_by_its_keys():
    text = "[@one; see @two, p. 3], `[@three]` and [@four].\n\n```text\n[@five]\n```\n"
    assert citations.citation_keys(text) == ["one", "two", "four"]


def test_a_source_that_is_not_understood_is_refused():
    expected = "expected [@key], [@one; @two] or [@key, sec. 3]"
    for written, message in {
        "[@su2021; @nobody]": "[@nobody] is not in docs/references.bib",
        "[@nobody, p. 3]": "[@nobody] is not in docs/references.bib",
        "[@su2021 p. 3]": f"[@su2021 p. 3]: {expected}",
        "[-@su2021]": f"[-@su2021]: {expected}",
        "[@su2021;]": f"[@su2021;]: {expected}",
    }.items():
        (problem,) = citations.problems(Path("page.md"), f"As\n{written} says.", ROOT)
        assert (problem.line, problem.message) == (2, message)


def test_a_place_in_a_source_is_no_figure(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A {#a}\n\nSee [@su2021, sec. 3.2] and [2.5](https://one.org/1.5).\n")
    (problem,) = numbers.figure_problems(page, page.read_text(encoding="utf-8"), tmp_path)
    assert problem.message.startswith("2.5 is in no output")
    assert parity.skeleton(page)["numbers"] == ["2.5"]
