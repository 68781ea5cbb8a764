"""The pages that are made of files of the project: snippets, changelog, how to contribute."""

import re
from pathlib import Path

import griffe
import pytest

from book import passes, recorded
from book.edition import Edition
from book.page import BookError, Page, blocks, headings, lines_outside_blocks
from book.stage import includes, project_files, snippet_list

ROOT = Path(__file__).parent.parent.parent
CONTRIBUTING = {"en": ROOT / "CONTRIBUTING.md", "pt": ROOT / "CONTRIBUTING.pt.md"}


def in_order() -> list[str]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return re.findall(r"^ +- ([\w/-]+\.md)$", text, re.MULTILINE)


@pytest.mark.parametrize("language", ["pt", "en"])
def test_the_catalogue_names_every_snippet(language):
    listed = snippet_list.catalogue(ROOT, language, in_order())
    paths = re.findall(r"^- `([^`]+)` · \[", listed, re.MULTILINE)
    assert len(paths) == len(set(paths))
    assert set(paths) == {path.relative_to(ROOT).as_posix() for path in recorded.snippets(ROOT)}
    for path in paths:
        assert snippet_list.summary(ROOT, path)[-1] in ".?", path


def test_a_snippet_is_listed_under_the_section_that_shows_it(tmp_path):
    page = tmp_path / "docs/en/room/name.md"
    page.parent.mkdir(parents=True)
    (tmp_path / "snippets").mkdir()
    (tmp_path / "snippets/one.py").write_text('"""What it\ndoes."""\n', encoding="utf-8")
    page.write_text(
        '---\ntitle: "Its: page"\n---\n\n# Its page {#top}\n\n## A step {#a-step}\n\n'
        '```python\n--8<-- "snippets/one.py:example"\n```\n\n## Another {#another}\n\n'
        '```python\n--8<-- "snippets/one.py:example"\n```\n',
        encoding="utf-8",
    )
    assert snippet_list.catalogue(tmp_path, "en", ["missing.md", "room/name.md"]) == (
        "\n## Its: page {#room-name}\n\n"
        "- `snippets/one.py` · [A step](../room/name.md#a-step); also on "
        '[Another](../room/name.md#another)<br><span lang="en">What it does.</span>'
    )


def shape(path: Path) -> dict[str, list]:
    """What must be the same in both languages."""
    text = path.read_text(encoding="utf-8")
    lines = [line for _, line in lines_outside_blocks(text)]
    return {
        "headings": [heading.level for heading in headings(text)],
        "blocks": [(block.language, block.body) for block in blocks(text)],
        "starts": [re.match(r"\d+\.|-|\||", line)[0] for line in lines],
        "code": [
            code
            for line in lines
            for code in re.findall(r"`([^`]+)`", line)
            if not re.search(r"[\[{#]|LANG|:\w", code)  # examples, which hold words
        ],
    }


def test_how_to_contribute_is_the_same_in_both_languages():
    en, pt = shape(CONTRIBUTING["en"]), shape(CONTRIBUTING["pt"])
    assert en["headings"] == pt["headings"]
    assert en["blocks"] == pt["blocks"]
    assert en["starts"] == pt["starts"]
    assert sorted(en["code"]) == sorted(pt["code"])


def test_sections_have_the_same_ids_in_both_languages():
    ids = [
        re.findall(
            r"\{#([\w-]+)\}$", project_files.section(ROOT, "CONTRIBUTING.md", language), re.M
        )
        for language in ("en", "pt")
    ]
    assert ids[0] == ids[1]
    assert {"a-page", "a-figure", "a-claim", "a-translation"} <= set(ids[0])


def test_an_include_that_is_only_shown_is_not_followed():
    edition, shown = Edition("en", ROOT), "<!-- file CONTRIBUTING.md -->"
    page = Page("reference/contributing.md", Path(), shown)
    with griffe.temporary_visited_package("attnref", {"__init__.py": ""}) as edition.package:
        for one in passes.passes("stage", ["stage"]):
            if one in (includes, project_files):
                shown = one.stage(shown, page, edition)
    assert '\n--8<-- "snippets/folder/page/name.py:example"\n' in shown
    assert "`# --8<-- [start:example]` and `# --8<-- [end:example]`" in shown


def test_a_file_in_english_alone_is_marked_as_english():
    text = project_files.section(ROOT, "CHANGELOG.md", "pt")
    assert text.startswith('<div lang="en" markdown>\n\n')
    assert "lang=" not in project_files.section(ROOT, "CHANGELOG.md", "en")
    assert "lang=" not in project_files.section(ROOT, "CONTRIBUTING.md", "pt")


def test_a_section_in_one_language_only_stops_the_build(tmp_path):
    (tmp_path / "FILE.md").write_text("# A\n\n## B\n\n## C\n", encoding="utf-8")
    (tmp_path / "FILE.pt.md").write_text("# A\n\n## B\n", encoding="utf-8")
    with pytest.raises(BookError, match=r"FILE.pt.md:1: expected 2 headings, as in FILE.md, got 1"):
        project_files.section(tmp_path, "FILE.md", "pt")
