"""The map: for whom a page is, what it builds on, what can be done with it, what is in a room."""

import pytest

from book.edition import Edition
from book.page import BookError
from book.stage import cards, chapters, doing, questions, reading

NAV = ["learn/index.md", {"layer": ["foundations/masks.md", "scale/proof.md"]}, "explore/rain.md"]
PAGES = {
    "learn/index.md": "cards: {layer: Write a layer.}\n"
    "ends: {layer: ['[A row](foundations/masks.md#row) may be empty.']}\n"
    "---\n# Learn {#top}\n\n<!-- cards -->\n",
    "foundations/masks.md": "level: core\n---\n# Masks {#top}\n",
    "scale/proof.md": "level: specialist\nneeds: [foundations/masks.md]\n---\n# Proof {#top}\n\n"
    '## Step {#step}\n\n??? question "Why?"\n    Because.\n',
    "explore/rain.md": "needs: [scale/proof.md]\ndescription: Drops.\n---\n# Rain {#top}\n\n"
    "<!-- explorer: rain -->\n",
}


def book(root, **changed):
    """A book of these pages, some of them with one text for another."""
    for uri, text in PAGES.items():
        path = root / "docs" / "en" / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        name = path.stem
        old, new = changed.get(name, ("", ""))
        path.write_text(f"---\ntitle: {name}\n{text.replace(old, new, 1)}", encoding="utf-8")
    return Edition("en", root, NAV, {"layer": "To a layer"})


@pytest.fixture
def ready(tmp_path):
    """What a pass makes of a page."""
    edition = book(tmp_path)
    return lambda one, uri: one.stage(edition.pages[uri].source, edition.pages[uri], edition)


def test_a_page_says_for_whom_it_is_and_what_it_builds_on(ready):
    shown = ready(reading, "scale/proof.md")
    assert "\nSpecialist · 1 min read · builds on [masks](../foundations/masks.md)\n{: " in shown
    assert shown.startswith("---\nstatus: specialist\ntitle: ")
    assert "\nCore · 1 min read\n{: " in ready(reading, "foundations/masks.md")


def test_a_page_leads_to_what_can_be_done_with_it(ready):
    assert ready(doing, "scale/proof.md").count("explorer [rain](../explore/rain.md)") == 2
    shown = ready(doing, "foundations/masks.md")
    assert "Do it: exercises [`causal_mask`](../practice/exercises.md#causal_mask), [`" in shown
    assert "#biased_attention) · [take the code](#take)\n{: .reading " in shown


def test_an_exercise_is_practice_for_several_pages(ready, monkeypatch):
    pages = ["foundations/kv-cache", "foundations/masks", "scale/proof"]
    monkeypatch.setattr(doing, "of_the_package", lambda: {"exercises": {"rotary": pages}})
    for uri in ("scale/proof.md", "foundations/masks.md"):
        assert "Do it: exercise [`rotary`](../practice/exercises.md#rotary)" in ready(doing, uri)


def test_names_of_exercises_lead_to_their_place(tmp_path):
    """And those of the package, to whose entries they have been linked, do so no more."""
    uri = "practice/teachers.md"
    row = "| [`entropy`](../reference/api/softmax.md#attnref.entropy), `rotary` | `torch` |"
    (tmp_path / "docs/en/practice").mkdir(parents=True)
    (tmp_path / "docs/en" / uri).write_text("---\ntitle: teach\n---\n# T {#top}\n", "utf-8")
    edition = Edition("en", tmp_path, [uri], {})
    assert doing.stage(row, edition.pages[uri], edition) == (
        "| [`entropy`](exercises.md#entropy), [`rotary`](exercises.md#rotary) | `torch` |"
    )


def test_a_room_shows_its_groups_and_its_pages(ready):
    shown = ready(cards, "learn/index.md")
    assert (
        "- **To a layer**\n\n    Write a layer.\n\n    - [masks](../foundations/masks.md) · 1"
        in shown
    )
    assert "    - [proof](../scale/proof.md) · specialist · 1\u00a0min\n" in shown
    assert '- **[rain](../explore/rain.md)**\n\n    <img class="preview" src="../explorers' in shown
    assert '/rain/preview.png" alt="" ' in shown
    assert ">\n\n    Drops.\n" in shown


def test_a_chapter_opens_and_ends(ready):
    shown = ready(chapters, "foundations/masks.md")
    assert '# Masks {#top}\n\n!!! abstract "Chapter: To a layer · 2 min"\n    Write a' in shown
    shown = ready(chapters, "scale/proof.md")
    assert "{#chapter}\n\n- [A row](../foundations/masks.md#row) may be empty.\n\nExer" in shown
    assert "[`causal_mask`](../practice/exercises.md#causal_mask)" in shown


def test_a_room_ends_all_of_its_chapters_or_none(tmp_path):
    assert chapters.edition_problems(book(tmp_path)) == []
    (found,) = chapters.edition_problems(book(tmp_path, index=("{layer: [", "{later: [")))
    assert "index.md:1: ends: expected layer, got later" in str(found)


def test_questions_are_listed_by_group_with_their_place(tmp_path):
    edition = book(tmp_path, rain=("# Rain", "<!-- every question -->"))
    shown = questions.stage("<!-- every question -->", edition.pages["explore/rain.md"], edition)
    assert "\n\n**To a layer**\n\n- [Why?](../scale/proof.md#step)\n\n" in shown


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("masks", "core", "easy", "expected one of first steps, core, specialist, got 'easy'"),
        ("masks", "level: core\n", "", "expected one of first steps, core, specialist, got ''"),
        ("masks", "core", "core\nneeds: [scale/nothing.md]", "there is no page scale/nothing.md"),
        ("masks", "core", "core\nneeds: [scale/proof.md]", "scale/proof.md comes later in"),
    ],
)
def test_a_level_and_a_page_to_have_read_are_known(tmp_path, name, old, new, message):
    assert reading.edition_problems(book(tmp_path)) == []
    found = reading.edition_problems(book(tmp_path, **{name: (old, new)}))
    assert [f"{name}.md:1: " in str(one) and message in str(one) for one in found] == [True]


def test_something_is_said_of_each_group(tmp_path):
    edition = book(tmp_path, index=("layer:", "other:"))
    page = edition.pages["learn/index.md"]
    with pytest.raises(BookError, match=r"index\.md:8: cards: nothing is said of .* 'layer'"):
        cards.stage(page.source, page, edition)
