"""The build stops, and names file and line, where a page is broken."""

import json
import re
import subprocess
import sys

import pytest

from book.finish import formulas
from book.make import serve
from tests.book import small_project
from tests.book.small_project import FILES, PAGE

# Old, new, and what is said of it.
BROKEN = [
    (".py:example", ".py:nothing", f"{PAGE}:LINE: snippets/sum.py: no section"),
    ("(claim:it-holds)", "(claim:none)", f"{PAGE}:LINE: claim 'none' has no test"),
    ("[@one2024]", "[@nobody]", f"{PAGE}:LINE: [@nobody] is not in docs/references.bib"),
    ("(figure:rise)", "(figure:half)", f"{PAGE}:LINE: figure 'half' is not recorded in 'en'"),
    ("## What", "```results\ntask: x\n```\n\n## What", f"{PAGE}:LINE: task 'x': expected"),
    ("## What", "```behaviours\nquestion: x\n```\n\n## What", f"{PAGE}:LINE: question 'x': exp"),
    (r"\sum_{p=1}^{3}", r"\sun_{p=1}^{3}", f"{PAGE}:LINE: formula"),
    ("$d = 3$", "$d = {3$", f"{PAGE}:LINE: formula"),
    ("title: ", "title: one: ", f"{PAGE}:LINE: no YAML, mapping values are not allowed"),
    ("Go on", "Go [on][nowhere]", f"{PAGE}:LINE: [on][nowhere]: no line [name]: address"),
    ("](other.md)", "](another.md)", "another.md"),
    ("](other.md#end)", "](other.md#the-end)", "#the-end"),
]
# Builds the site with each of these texts as the page, or that page alone, in one process, for to
# start one takes long. Gives what was said, and what was built.
BUILDS = """
import io, json, logging, os, sys
from pathlib import Path

from click import ClickException
from mkdocs.commands.build import build
from mkdocs.config import load_config

sys.modules["torch"] = None  # a build does without
answers, page = [], Path(sys.argv[1])
for text, alone in json.load(sys.stdin):
    page.write_text(text, encoding="utf-8")
    os.environ["ATTNREF_PAGE"] = alone
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger("mkdocs").addHandler(handler)
    try:
        build(load_config("mkdocs.en.yml", strict=True))
        built = sorted(path.parent.name for path in Path("site").rglob("index.html"))
        answers.append([built, said.getvalue()])
    except ClickException as error:
        answers.append([[], f"{said.getvalue()}{error}"])
    logging.getLogger("mkdocs").removeHandler(handler)
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The root of the small site."""
    root = tmp_path_factory.mktemp("project")
    small_project.make(root)
    return root


@pytest.fixture(scope="module")
def builds(project):
    """What was built and said with the page whole and broken, and with it alone: whole, broken."""
    page = FILES[PAGE]
    texts = [(page.replace(old, new, 1), "") for old, new, _ in [("", "", ""), *BROKEN]]
    texts += [(page, "page"), (page.replace("other.md#end", "other.md#the-end"), "page")]
    ran = subprocess.run(
        [sys.executable, "-c", BUILDS, PAGE],
        cwd=project,
        input=json.dumps(texts),
        capture_output=True,
        encoding="utf-8",
    )
    assert ran.returncode == 0, ran.stderr
    (project / PAGE).write_text(page, encoding="utf-8")
    return json.loads(ran.stdout)


def test_the_page_is_built_as_long_as_nothing_is_broken(builds):
    built, said = builds[0]
    assert {"page", "other", "claims", "bibliography"} <= {*built}, said


@pytest.mark.claim("broken-page-stops-the-build")
def test_a_broken_page_stops_the_build(builds):
    for (old, _, message), (built, said) in zip(BROKEN, builds[1:], strict=False):
        line = FILES[PAGE][: FILES[PAGE].index(old)].count("\n") + 1
        assert not built
        assert message.replace("LINE", str(line)) in said


def test_a_page_is_built_alone_and_the_places_that_it_links_to_are_looked_up(builds):
    (built, said), (nothing, complaint) = builds[-2:]
    assert built == ["page"], said
    assert nothing == []
    assert re.search(r"docs/en/page.md:\d+: other.md#the-end: other.md has no #the-end", complaint)


def test_the_command_builds_strictly(tmp_path, monkeypatch, capfd):
    """A warning, as of a dead link, is enough to stop it."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# A page\n\n[Nowhere](nowhere.md)\n")
    (tmp_path / "mkdocs.en.yml").write_text("site_name: x\nplugins: []\n")
    monkeypatch.setattr(serve, "ROOT", tmp_path)
    monkeypatch.setattr(serve, "CONFIGURATION", {"en": "mkdocs.en.yml"})
    with pytest.raises(SystemExit, match="mkdocs build failed; the lines above name file and line"):
        serve.build(tmp_path / "site")
    assert "nowhere.md" in capfd.readouterr().err


def test_formulas_are_html_and_mathml():
    rendered = formulas.render(r"\sqrt{d_k}", False)
    assert 'class="katex-html"' in rendered
    assert "<msqrt>" in rendered
    assert "katex-display" in formulas.render("x", True)


def test_a_short_formula_keeps_its_comma_on_its_line():
    """Around an inline block a line may break, in Chromium also before a comma."""

    def shown(text):
        return formulas.whole(text, page=None, edition=None)

    short = shown(r'width (<span class="arithmatex">\(d_k\)</span>), of')
    assert short.startswith('width <span class="unbroken">(<span class="katex formula">')
    assert short.endswith("</span>),</span> of")
    assert shown(r'one <span class="arithmatex">\(r\)</span>-th of').endswith("-th</span> of")
    # A long one may break, or it would not fit on a narrow screen; nor is a block of its own glued.
    assert "unbroken" not in shown(r'<span class="arithmatex">\(a+b+c+d+e+f+g+h+i+j\)</span>.')
    assert "unbroken" not in shown(r'<div class="arithmatex">\[x\]</div>')


def test_a_malformed_formula_is_refused_with_a_reason():
    for tex in (r"\undefined{x}", "{x", r"\frac{1}", "é", r"\(x"):
        with pytest.raises(ValueError, match=r"KaTeX|LaTeX"):
            formulas.render(tex, False)
