"""The build stops, and names file and line, where a page is broken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import formulas
import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = "docs/en/foundations/six-words.md"


@pytest.fixture
def project(tmp_path):
    for folder in ("docs", "snippets", "attnref", "tests"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    for path in (*ROOT.glob("*.yml"), *ROOT.glob("*.md")):
        shutil.copy(path, tmp_path)
    (ROOT / ".cache").mkdir(exist_ok=True)
    (tmp_path / ".cache").symlink_to(ROOT / ".cache")  # what the notebooks put out
    return tmp_path


def build(project: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "mkdocs.en.yml"],
        cwd=project,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


@pytest.mark.claim("broken-page-stops-the-build")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            ".py:example",
            ".py:nothing",
            f"{PAGE}:LINE: snippets/foundations/six-words/loop.py: no section",
        ),
        ('--8<-- "', '-8<-- "', f"{PAGE}:LINE: a mistyped include"),
        ("(claim:six-word-weights)", "(claim:none)", f"{PAGE}:LINE: claim 'none' has no test"),
        ("[@raschka2024]", "[@nobody]", f"{PAGE}:LINE: [@nobody] is not in docs/references.bib"),
        ("(figure:attention", "(figure:inattention", f"{PAGE}:LINE: figure 'inattention-map-six"),
        (
            "## What",
            "```results\ntask: x\n```\n\n## What",
            f"{PAGE}:LINE: task 'x': expected",
        ),
        (r"\sum_{p=1}^{3}", r"\sun_{p=1}^{3}", f"{PAGE}:LINE: formula"),
        ("$d = 3$", "$d = {3$", f"{PAGE}:LINE: formula"),
        ("](matrix-form.md)", "](matrix-from.md)", "matrix-from.md"),
        ("](matrix-form.md#all-six-at-once)", "](matrix-form.md#all-seven)", "#all-seven"),
    ],
)
def test_a_broken_page_stops_the_build(project, old, new, message):
    page = project / PAGE
    text = page.read_text(encoding="utf-8")
    assert old in text
    page.write_text(text.replace(old, new, 1), encoding="utf-8")
    line = text[: text.index(old)].count("\n") + 1
    result = build(project)
    assert result.returncode != 0
    assert message.replace("LINE", str(line)) in result.stdout + result.stderr


def test_a_figure_in_one_language_only_stops_the_build(project):
    (project / "docs/figures/drawn/attention-map-six-words.en.svg").unlink()
    result = build(project)
    assert result.returncode != 0
    assert "'attention-map-six-words' is not recorded in 'en'" in result.stdout + result.stderr


def test_formulas_are_html_and_mathml():
    rendered = formulas.render(r"\sqrt{d_k}", False)
    assert 'class="katex-html"' in rendered
    assert "<msqrt>" in rendered
    assert "katex-display" in formulas.render("x", True)


def test_a_short_formula_keeps_its_comma_on_its_line():
    """Around an inline block a line may break, in Chromium also before a comma."""

    def shown(text):
        return formulas.on_post_page(text, page=None, config=None)

    short = shown(r'width (<span class="arithmatex">\(d_k\)</span>), of')
    assert short.startswith('width <span class="unbroken">(<span class="formula">')
    assert short.endswith("</span>),</span> of")
    assert shown(r'one <span class="arithmatex">\(r\)</span>-th of').endswith("-th</span> of")
    # A long one may break, or it would not fit on a narrow screen; nor is a block of its own glued.
    assert "unbroken" not in shown(r'<span class="arithmatex">\(a+b+c+d+e+f+g+h+i+j\)</span>.')
    assert "unbroken" not in shown(r'<div class="arithmatex">\[x\]</div>')


@pytest.mark.parametrize("tex", [r"\undefined{x}", "{x", r"\frac{1}", "é", r"\(x"])
def test_a_malformed_formula_is_refused_with_a_reason(tex):
    with pytest.raises(ValueError, match=r"KaTeX|LaTeX"):
        formulas.render(tex, False)
