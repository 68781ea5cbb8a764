"""The code that the site publishes is the code of the project."""

import os
import subprocess
import sys

import downloads
import pytest

from attnref.copying.catalogue import catalogue, package


@pytest.fixture(scope="module", params=["pt", "en"])
def language(request, site):
    return site / request.param


def test_each_file_of_the_package_and_of_the_snippets_is_there_as_it_is(language):
    for path in downloads.sources():
        published = language / "source" / path.relative_to(downloads.ROOT)
        assert published.read_bytes() == path.read_bytes()


def test_each_name_is_there_in_one_file(language):
    published = {path.name: path.read_bytes() for path in (language / "code").iterdir()}
    # Those that tests/copying runs where the package is not.
    made = {path.name: path.read_bytes() for path in downloads.copies().glob("*.py")}
    assert published == made
    assert made.keys() == {downloads.file(entry) for entry in catalogue(package())}


def test_a_page_ends_with_the_files_of_the_names_that_it_explains(language):
    html = (language / "variants" / "performer" / "index.html").read_text(encoding="utf-8")
    box = html.partition('<div class="take"')[2].partition("</div>")[0]
    for name in ("performer_attention", "random_projection"):
        assert f'<a href="../../code/{name}.py" download>{name}</a>' in box
    assert box.count("<li>") == 2


def test_the_title_of_a_block_leads_to_its_file(language):
    html = (language / "variants" / "blockwise" / "index.html").read_text(encoding="utf-8")
    for path in ("attnref/variants/blockwise.py", "snippets/variants/blockwise/loop.py"):
        link = f'<span class="filename"><a href="../../source/{path}">{path}</a></span>'
        assert link in html


def test_copies_are_made_again_when_the_package_has_changed(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(downloads, "_entries", lambda: made.append(1) or [])
    for _ in range(2):
        downloads.copies(tmp_path / "code")
    assert len(made) == 1
    monkeypatch.setattr(downloads, "_digest", lambda: "another")
    downloads.copies(tmp_path / "code")
    assert len(made) == 2


def test_the_package_installs_from_the_served_site(site, address, tmp_path):
    (wheel,) = (site / "dist").iterdir()
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
    (wheel,) = (site / "dist").iterdir()
    for language in ("pt", "en"):
        page = site / language / "begin" / "first-attention" / "index.html"
        assert f'href="../../../dist/{wheel.name}"' in page.read_text(encoding="utf-8")
