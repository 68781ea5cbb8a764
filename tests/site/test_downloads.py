"""The code that the site publishes is the code of the project."""

import os
import subprocess
import sys

import pytest

from attnref.copying.catalogue import FOLDER, entries, header
from book.stage import downloads


@pytest.fixture(scope="module", params=["pt", "en"])
def language(request, site):
    return site / request.param


def test_each_file_of_the_package_and_of_the_snippets_is_there_as_it_is(language):
    for path in downloads.sources():
        published = language / "source" / path.relative_to(downloads.ROOT)
        assert published.read_bytes() == path.read_bytes()


def test_each_method_is_there_in_one_file(language):
    published = {path.name: path.read_text("utf-8") for path in (language / "code").iterdir()}
    assert published == {f"{entry.name}.py": header(entry) + entry.text for entry in entries()}
    assert published.keys() == {path.name for path in FOLDER.glob("[!_]*.py")}


def test_a_page_ends_with_the_files_of_the_methods_that_it_explains(language):
    html = (language / "variants" / "draft-trees" / "index.html").read_text(encoding="utf-8")
    box = html.partition('<div class="take"')[2].partition("</div>")[0]
    for name in ("speculative", "tree_mask"):
        assert f'<a href="../../code/{name}.py" download>{name}.py</a>' in box
    assert box.count("<li>") == 2
    assert box.count("api/masks/#attnref.masks.tree") == 1  # nothing has more than speculative


def test_the_title_of_a_block_leads_to_its_file(language):
    html = (language / "variants" / "blockwise" / "index.html").read_text(encoding="utf-8")
    for path in ("attnref/variants/blockwise.py", "snippets/variants/blockwise/loop.py"):
        link = f'<span class="filename"><a href="../../source/{path}">{path}</a></span>'
        assert link in html


def test_the_package_installs_from_the_served_site(site, address, tmp_path):
    (wheel,) = (site / "dist").glob("*.whl")
    command = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    url = f"{address}/dist/{wheel.name}"
    command += ["--target", str(tmp_path), url]
    subprocess.run([sys.executable, "-m", "pip", *command], check=True, timeout=300)
    code = "import attnref, torch; print(attnref.__file__, attnref.attention_weights.__name__)"
    answer = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == [str(tmp_path / "attnref/__init__.py"), "attention_weights"]


def test_the_page_on_installing_names_the_wheel_that_is_there(site):
    (wheel,) = (site / "dist").glob("*.whl")
    for language in ("pt", "en"):
        page = site / language / "begin" / "first-attention" / "index.html"
        assert f'href="../../../dist/{wheel.name}"' in page.read_text(encoding="utf-8")
