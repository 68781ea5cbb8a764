"""The guide to the variants leads to a page for each of them, or a reader never finds it."""

from pathlib import Path

import pytest

from book.edition import complete
from book.page import BookError
from book.stage import api, guide

ROOT = Path(__file__).parent.parent.parent
MODULES = {path.stem for path in (ROOT / "attnref" / "variants").glob("[!_]*.py")}


@pytest.mark.parametrize("language", ["pt", "en"])
def test_the_guide_leads_to_every_variant(language):
    folder = ROOT / "docs" / language
    pages = [f"variants/{path.name}" for path in sorted((folder / "variants").glob("*.md"))]
    listed = guide.rows(folder, pages)
    for name in MODULES:
        (row,) = (row for row in listed if f"[`{name}`](" in row)
        assert all(cell.strip() for cell in row.strip("|").split("|"))
    # The others have a title where these have a module.
    others = [row for row in listed if "[`" not in row]
    assert len(listed) == len(MODULES) + len(others)
    assert any("[Attention sinks](sinks.md)" in row for row in others)


@pytest.mark.parametrize("said", ["{need: speed}", "{need: a, same as: b, grows with: c, d: e}"])
def test_a_row_that_is_not_whole_stops_the_build(tmp_path, said):
    page = tmp_path / "variants" / "fast.md"
    page.parent.mkdir()
    page.write_text(f"---\ntitle: Fast\nvariant: {said}\n---\n", encoding="utf-8")
    with pytest.raises(BookError, match=r"fast\.md:1: variant: expected need, same as"):
        guide.rows(tmp_path, ["variants/fast.md"])


def test_a_page_that_nav_does_not_list_follows_those_of_its_folder():
    more = {"more": ["variants/c.md"]}
    nav = ["index.md", {"variants": ["variants/a.md", "variants/b.md", more]}]
    pages = ["index.md", "variants/new.md", *(f"variants/{x}.md" for x in "abc")]
    listed = ["variants/a.md", "variants/b.md", "variants/new.md", more]
    assert complete(nav, pages) == ["index.md", {"variants": listed}]


def test_the_description_of_its_page_is_a_sentence_for_a_new_variant(tmp_path):
    page = tmp_path / "docs" / "pt" / "variants" / "mean.md"
    page.parent.mkdir(parents=True)
    page.write_text("---\ntitle: Média\ndescription: A média.\n---\n", encoding="utf-8")
    (tmp_path / "docs" / "api.pt.yml").write_text('variants.mean: "Outra."\n', encoding="utf-8")
    assert api.sentences(tmp_path) == {
        "variants.mean": "Outra.",
        "variants.mean.mean_attention": "A média.",
    }
