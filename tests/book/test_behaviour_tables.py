"""Recorded behaviours on pages: read from the records, in both languages, or refused."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from book.edition import Edition
from book.page import Page, blocks, links
from book.stage import behaviour_tables

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "docs" / "behaviours"
BLOCK = "```behaviours\n{}\n```"
PAGE = f"---\ntitle: T\n---\n\nText.\n\n{BLOCK}\n"


@pytest.fixture
def tree(tmp_path):
    """A project of the records, and a page that shows some of them."""
    shutil.copytree(DATA, tmp_path / "docs" / "behaviours")
    page = tmp_path / "docs" / "en" / "page.md"
    page.parent.mkdir()
    return page


def test_a_block_that_no_record_answers_is_found_where_it_is(tree):
    for body, message in {
        "question: fully_maskde": "question 'fully_maskde': expected one of fully_masked, ",
        "projects: torch": "projects 'torch': expected one of all",
        "question": "expected one line, as in question: fully_masked or projects: all",
        "task: window": "expected one line, as in question",
        "question: half\nprojects: all": "expected one line, as in question",
    }.items():
        root = tree.parent.parent.parent
        (problem,) = behaviour_tables.problems(tree, PAGE.format(body), root)
        assert message in problem.message
        assert problem.line == 7


def test_records_that_are_gone_are_found(tree):
    root = tree.parent.parent.parent
    shutil.rmtree(root / "docs" / "behaviours" / "records")
    (problem,) = behaviour_tables.problems(tree, PAGE.format("projects: all"), root)
    assert "no record in docs/behaviours/records: run make behaviours" in problem.message


def seen_in(html: str) -> SimpleNamespace:
    """What a reader finds: texts, ids, links and tags, each closed as it was opened."""
    html = html.replace("data-search-exclude", 'data-search-exclude=""')  # for XML
    nodes = list(ElementTree.fromstring(f"<div>{html}</div>").iter())
    return SimpleNamespace(
        tags=[node.tag for node in nodes],
        texts=list(nodes[0].itertext()),
        ids=[node.get("id") for node in nodes if node.get("id")],
        links=[node.get("href") for node in nodes if node.get("href")],
    )


def shown(body: str, language: str = "en") -> SimpleNamespace:
    """What a block of the page of a question, or of all projects, becomes."""
    uri = f"practice/behaviours{'/nan' * body.startswith('question')}.md"
    page, block = Page(uri, Path(uri), PAGE.format(body)), BLOCK.format(body)
    return seen_in(behaviour_tables.stage(block, page, Edition(language, ROOT)))


def test_a_table_has_each_answer_with_those_who_gave_it():
    seen = shown("question: fully_masked")
    text = "".join(seen.texts)
    assert text.lstrip().startswith("zeros ")
    record = json.loads((DATA / "records" / "torch.json").read_text(encoding="utf-8"))
    own = behaviour_tables.questions(ROOT)["fully_masked"]["answers"]
    for name, cells in record["implementations"].items():
        answer = cells["fully_masked"]["answer"]
        asked = answer != behaviour_tables.ABSENT
        assert (name in text) == asked
        assert not asked or own[answer]["en"] in text
    assert seen.links[0] == "#program-fully-masked-attnref-scaled-dot-product-attention"


def test_both_languages_show_the_same_in_their_own_words():
    for body in ("question: mask_with_causal", "projects: all"):
        pt, en = (shown(body, language) for language in ("pt", "en"))
        assert (pt.ids, pt.links) == (en.ids, en.links)
        assert "raises" not in pt.texts
    assert "um erro" in "".join(shown("question: mask_with_causal", "pt").texts)
    assert set(behaviour_tables.WORDS["pt"]) == set(behaviour_tables.WORDS["en"])
    for about in behaviour_tables.questions(ROOT).values():
        for said in (about["title"], *about["answers"].values()):
            assert said["pt"]
            assert said["en"]


def cells_of(question):
    """What was answered to a question."""
    return [
        cells[question]
        for record in behaviour_tables.records(ROOT)
        for cells in record["implementations"].values()
        if cells[question]["answer"] != "absent"
    ]


def test_each_question_has_every_program_in_one_fold():
    for question in behaviour_tables.questions(ROOT):
        seen = shown(f"question: {question}")
        code = [text for text in seen.texts if text.startswith("import torch\n")]
        assert code == [f"{cell['program']}# {cell['output']}" for cell in cells_of(question)]
        assert seen.tags.count("details") == 1
        assert f"The {len(code)} programs" in seen.texts


def test_each_project_has_its_version_and_no_program():
    seen = shown("projects: all")
    assert len(seen.ids) == len(set(seen.ids)) >= 30
    assert "pre" not in seen.tags
    # The theme's script looks at each fold, which made a page of 1096 unusable for seconds.
    assert seen.tags.count("details") == len(behaviour_tables.records(ROOT))
    text = "".join(seen.texts)
    for record in behaviour_tables.records(ROOT):
        assert f"{record['version']}, on {record['date']}" in text


def test_names_lead_to_programs_programs_to_projects_and_answers_to_programs():
    projects = shown("projects: all")
    programs = set()
    for question, place in behaviour_tables.places(ROOT).items():
        seen = shown(f"question: {question}")
        assert {link[1:] for link in seen.links if link.startswith("#")} == set(seen.ids)
        up = {link.removeprefix("../#") for link in seen.links if link.startswith("../#")}
        assert up <= set(projects.ids)
        programs |= {f"{place.removeprefix('practice/behaviours/')}#{each}" for each in seen.ids}
    assert len(programs) > 1000
    assert {link for link in projects.links if not link.startswith("http")} == programs


def test_an_issue_upstream_is_linked_beside_the_answer():
    known = behaviour_tables.issues(ROOT)
    assert known
    asked = {
        (record["project"], name, question)
        for record in behaviour_tables.records(ROOT)
        for name, cells in record["implementations"].items()
        for question, cell in cells.items()
        if cell["answer"] != "absent"
    }
    assert set(known) <= asked
    seen = shown("projects: all")
    assert set(known.values()) <= set(seen.links)
    assert "pytorch/pytorch#41508" in seen.texts
    for (_, _, question), there in known.items():
        assert there in shown(f"question: {question}").links


def test_the_pages_ask_every_question_once():
    folder = ROOT / "docs" / "en" / "practice"
    index, *pages = [folder / "behaviours.md", *sorted((folder / "behaviours").glob("*.md"))]
    asked = [
        behaviour_tables.wish(block, ROOT)
        for page in pages
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language == "behaviours"
    ]
    assert sorted(asked) == sorted(("question", each) for each in behaviour_tables.questions(ROOT))
    text = index.read_text(encoding="utf-8")
    assert [each.body for each in blocks(text) if each.language == "behaviours"] == [
        ("projects: all",)
    ]
    assert not {f"behaviours/{page.name}" for page in pages} - {link.target for link in links(text)}
