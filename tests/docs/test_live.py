"""While somebody writes, a page is built again when what it shows has changed, and only then."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from mkdocs.config import load_config

from book.stage import api, live, names

TEXT = """# One {#top}

```python
--8<-- "snippets/one.py:part"
```

![What is seen](figure:some-drawing)
"""


def test_a_page_shows_its_programs_and_drawings():
    assert list(live.shown_files(TEXT, "en", Path("root"))) == [
        Path("root/snippets/one.py"),
        Path("root/docs/figures/drawn/some-drawing.en.svg"),
    ]


def test_a_page_is_stale_when_any_of_its_sources_is_newer(tmp_path):
    built, page, program = (tmp_path / name for name in ("built", "page", "program"))
    assert live.is_stale(built, (page,))
    for at, path in enumerate((page, program, built)):
        path.touch()
        os.utime(path, (at, at))
    assert not live.is_stale(built, (page, program, tmp_path / "missing"))
    os.utime(program, (5, 5))
    assert live.is_stale(built, (page, program))


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """Two pages that were built, of which one has been edited since; and the links they know."""
    monkeypatch.setenv(live.NAME, "1")
    monkeypatch.setattr(names, "read", lambda config: None)
    monkeypatch.setattr(
        names, "public_names", lambda package: ["attnref.masks", "attnref.masks.causal"]
    )
    monkeypatch.setattr(api, "places", lambda *_: {"attnref.masks": "reference/api/masks.md"})
    monkeypatch.setattr(live, "AutorefsPlugin", SimpleNamespace)
    pages = []
    for uri, age in (("scale/one.md", 5), ("reference/api/masks.md", 1)):
        path, built = tmp_path / "docs/en" / uri, tmp_path / "site" / uri
        for file, at in ((path, age), (built, 3)):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("---\ntitle: Called so\n---\n", encoding="utf-8")
            os.utime(file, (at, at))
        file = SimpleNamespace(src_uri=uri, abs_src_path=str(path), abs_dest_path=str(built))
        pages.append(SimpleNamespace(file=file, title=None))
    known = {}
    references = SimpleNamespace(register_anchor=lambda page, name: known.update({name: page}))
    config = SimpleNamespace(docs_dir=str(tmp_path / "docs/en"), plugins={"autorefs": references})
    return SimpleNamespace(pages=pages), config, known


def test_only_what_has_changed_is_built(edited):
    nav, config, known = edited
    changed, kept = nav.pages
    live.on_nav(nav, config, None)
    assert not Path(changed.file.abs_dest_path).exists()
    assert Path(kept.file.abs_dest_path).exists()
    assert (changed.title, kept.title) == (None, "Called so")
    assert known == {"attnref.masks": kept, "attnref.masks.causal": kept}


def test_any_other_build_is_left_alone(edited, monkeypatch):
    monkeypatch.delenv(live.NAME)
    nav, config, known = edited
    live.on_nav(nav, config, None)
    assert Path(nav.pages[0].file.abs_dest_path).exists()
    assert not known


def package():
    """The package as one build after another reads it, each with a configuration of its own."""
    config = load_config(str(names.ROOT / "mkdocs.en.yml"), hooks=[], plugins=["mkdocstrings"])
    config.plugins["mkdocstrings"].on_config(config)
    return names.read(config)


def test_the_package_is_read_again_when_a_file_of_it_has_changed(monkeypatch):
    first = package()
    assert package() is first
    monkeypatch.setattr(names, "READ", ("attnref/softmax.py",))
    assert package() is not first
    assert package().members.keys() == first.members.keys()
