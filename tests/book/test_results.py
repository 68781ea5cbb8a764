"""Recorded measurements on pages: read from the record, in both languages, or refused."""

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import pytest

from attnref.bench.chart import ENGLISH
from attnref.bench.problems import TASKS
from attnref.bench.ranks.plan import SCALINGS
from attnref.bench.record import RankSkipped, Record
from book import passes, staging
from book.edition import Edition
from book.finish import drawings, tables
from book.page import Page, Problem
from book.stage import rank_tables, results
from book.stage.numbers import NUMBER, measured_problems
from tests.book.rendering import to_html

ROOT = Path(__file__).parent.parent.parent
RECORD = ROOT / "docs" / "results" / "cpu-float32.json"
BLOCK = "task: window\nmethods: sliding_window, sdpa\nlengths: 1024, 4096"
CHART = "![Time rises](chart:window?methods=sliding_window,sdpa)"
PAGE = f"---\ntitle: T\n---\n\nText.\n\n```results\n{BLOCK}\n```\n\n{CHART}\n"


@pytest.fixture
def tree(tmp_path):
    """A project of the records, and a page that shows some of them."""
    shutil.copytree(ROOT / "docs" / "results", tmp_path / "docs" / "results")
    page = tmp_path / "docs" / "en" / "page.md"
    page.parent.mkdir()
    page.write_text(PAGE, encoding="utf-8")
    return page


def problems(page: Path, old: str = "", new: str = "") -> list[Problem]:
    assert old in PAGE
    page.write_text(PAGE.replace(old, new, 1), encoding="utf-8")
    return problems_of(page)


def problems_of(page: Path) -> list[Problem]:
    text, root = page.read_text(encoding="utf-8"), page.parent.parent.parent
    return results.problems(page, text, root) + measured_problems(page, text, root)


def shown(page: Path, language: str = "en") -> str:
    """The text of a page, staged and finished."""
    text = page.read_text(encoding="utf-8")
    ours, edition = Page("page.md", page, text), Edition(language, page.parents[2])
    staged = results.stage(text.partition("---\n\n")[2], ours, edition)
    staging.write(edition)
    return drawings.whole(tables.content(to_html(staged), ours, edition), ours, edition)


def parsed(html: str) -> ET.Element:
    """The first table and what is said below it, without the frame in which the table scrolls."""
    end = html.index("</table>") + len("</table>")
    notes = html.index("<p>", end)
    table, said = html[html.index("<table") : end], html[notes : html.index("</div>", notes)]
    return ET.fromstring(f"<x>{table}{said}</x>")


def test_a_wish_that_no_record_fulfils_is_found_where_it_stands(tree):
    for old, new, message in (
        ("task: window", "task: widow", "task 'widow': expected one of dense, causal, window"),
        ("task: window", "", "no task: write a line such as task: dense"),
        ("task: window", "task window", "'task window': expected one line for each option"),
        ("task: window", "task: window\ntask: dense", "expected one line for each option"),
        ("task: window", "task: window\nfiel: x", "option 'fiel': expected one of task, methods"),
        ("sdpa\n", "topk\n", "method 'topk' is not recorded for task 'window' in cpu-float32"),
        ("1024,", "1000,", "length '1000' was not measured for task 'window' in cpu-float32"),
        ("lengths", "file: gpu\nlengths", "file 'gpu': no such record in docs/results; there are"),
        ("lengths", "file: ../results/gpu\nlengths", "no such record in docs/results"),
        ("chart:window", "chart:widow", "task 'widow': expected one of"),
        ("sdpa)", "topk)", "method 'topk' is not recorded"),
        ("sdpa)", "sdpa&file=gpu)", "file 'gpu': no such record"),
        ("?methods", "?method", "option 'method': expected one of"),
        ("![Time rises]", "![]", "say in plain text between the brackets"),
        ("![Time rises]", "![$t$ rises]", "say in plain text between the brackets"),
        ("![Time rises]", '![The "time" rises]', "say in plain text between the brackets"),
        ("sdpa)", "sdpa&lengths=1024)", "lengths: a chart shows them all"),
        ("![Time", "See ![Time", "a chart is a paragraph of its own"),
        ("(chart:", "( chart:", "a chart is a paragraph of its own"),
    ):
        (problem,) = problems(tree, old, new)
        assert message in problem.message
        line = tree.read_text(encoding="utf-8").split("\n")[problem.line - 1]
        assert line == "```results" or "chart:" in line


def test_a_record_that_is_gone_is_found(tree):
    (tree.parent.parent / "results" / "cpu-float32.json").unlink()
    passes.forget([results])
    assert [
        "file 'cpu-float32': no such record" in problem.message for problem in problems(tree)
    ] == [True, True]


def test_a_measured_figure_that_is_typed_is_found(tree):
    for typed, refused in {
        "It took 837 ms": True,
        "It took 1.5 s there": True,
        "It is 3 times as fast": True,
        "É 3 vezes mais rápido": True,
        "It holds 12MB": True,
        "The window has 256 keys in 2 layers": False,
        "Blocks of 128 × 128": False,
    }.items():
        found = problems(tree, "Text", typed)
        assert [(one.line, "say it in words" in one.message) for one in found] == (
            [(5, True)] if refused else []
        ), typed
        tree.write_text(typed, encoding="utf-8")  # without measurements beside it
        assert not problems_of(tree)


def test_a_quoted_figure_is_accepted_and_one_of_a_record_is_not(tree):
    quoted = 'title: T\nfacts: [{{value: "2.1", source: "{}"}}]\n---\n\nIt was 2.1 times'
    assert not problems(tree, "title: T\n---\n\nText", quoted.format("@zhang2024"))
    (problem,) = problems(
        tree, "title: T\n---\n\nText", quoted.format("docs/results/cpu-float32.json")
    )
    assert "show it with a results block instead" in problem.message


def test_a_chart_of_all_methods_needs_no_options(tree):
    assert not problems(tree, CHART, "![Time rises](chart:window) ")
    assert "<svg" in shown(tree).partition('aria-label="Time rises"')[2]


def test_the_table_shows_what_the_record_holds(tree):
    stored = json.loads(RECORD.read_text(encoding="utf-8"))
    html = shown(tree)
    root = parsed(html)
    rows = [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
    assert rows[0] == ["method", "time (ms)", "speedup", "error", "memory (MB)"]
    assert [row[0] for row in rows if len(row) == 1] == ["n = 1024", "n = 4096"]
    for n, row in ((1024, rows[2]), (4096, rows[5])):
        of = {
            result["method"]: result
            for result in stored["results"]
            if (result["task"], result["n"]) == ("window", n)
        }
        result = of["sliding_window"]
        assert row[0] == "sliding_window"
        assert float(row[1]) == pytest.approx(1000 * result["median"], rel=5e-3)
        speed = of["sdpa"]["median"] / result["median"]
        assert float(row[2]) == pytest.approx(speed, abs=5e-3 if speed < 10 else 0.5)
        assert float(row[3]) == pytest.approx(result["error"], rel=0.05)
        assert float(row[4]) == pytest.approx(result["peak_bytes"] / 1e6, rel=5.1e-3)
    notes = "".join(root.find("p").itertext())
    made = stored["provenance"]
    for part in (made["date"], made["processor"], f"torch {made['versions']['torch']}", "float32"):
        assert part in notes
    assert f"code of commit {made['commit'][:7]}." in notes


def test_both_languages_show_the_same_numbers_in_their_own_words(tree):
    pt, en = (NUMBER.findall(shown(tree, language)) for language in ("pt", "en"))
    assert pt == en
    assert "aceleração" in shown(tree, "pt")
    assert "cada consulta vê" in shown(tree, "pt")


def test_a_table_says_whose_code_has_changed_since(tree, monkeypatch):
    monkeypatch.setattr(results, "_stale_methods", lambda file: [])
    assert "changed since" not in shown(tree)
    monkeypatch.setattr(results, "_stale_methods", lambda file: ["sliding_window", "linear"])
    assert "The code of <code>sliding_window</code> has changed since." in shown(tree)
    assert "Desde então, mudou o código de <code>sliding_window</code>." in shown(tree, "pt")


def test_the_chart_is_drawn_in_the_page(tree):
    html = shown(tree)
    figure = html[html.index("<figure") : html.index("</figure>") + 9]
    words = [text.text for text in ET.fromstring(figure).iter("{http://www.w3.org/2000/svg}text")]
    assert {"sliding_window", "sdpa", "n, number of keys"} <= set(words)
    assert "flex" not in words
    assert 'aria-label="Time rises"' in figure
    assert "n, número de chaves" in shown(tree, "pt")


def test_what_was_left_out_is_told_with_its_reason(tree):
    text = PAGE.replace(BLOCK, "task: dense\nmethods: topk, blockwise\nlengths: 1024, 8192")
    tree.write_text(text, encoding="utf-8")
    assert "topk</code>, n = 8192 (it would exceed the time set aside)" in shown(tree)


def test_other_reasons_are_told_too(tree):
    for reason, told in (
        ("might need 31.1 GB, 22.0 GB are free", "it would not fit in memory"),
        ("NotImplementedError: no <x>", "NotImplementedError: no &lt;x&gt;"),
    ):
        skipped = [SimpleNamespace(task="dense", method="a", n=7, reason=reason)]
        wish = results.Wish(SimpleNamespace(skipped=skipped), "file", "dense", ("a",), (7,))
        assert results._left_out(wish, results.WORDS["en"]) == (
            f"Not measured: <code>a</code>, n = 7 ({told})."
        )


RANKS = "cpu-float32-ranks"
OF_RANKS = f"task: strong\nmethods: sdpa, ring_zigzag\nranks: 1, 2\nthreads: 1\nfile: {RANKS}"


def test_a_table_of_ranks_shows_what_the_record_holds(tree):
    tree.write_text(PAGE.replace(BLOCK, OF_RANKS).replace(CHART, ""), encoding="utf-8")
    assert not problems_of(tree)
    record = Record.load(ROOT / "docs" / "results" / f"{RANKS}.json")
    html = shown(tree)
    root = parsed(html)
    rows = [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
    assert rows[0] == rank_tables.COLUMNS["en"]
    groups = [row[0] for row in rows if len(row) == 1]
    assert groups == [f"p = {p}, 1 thread per rank, n = 4096" for p in (1, 2)]
    assert [row[0] for row in rows[2:4]] == ["sdpa", "ring_zigzag"]
    one, two = (
        next(
            x
            for x in record.rank_results()
            if (x.task, x.method, x.ranks, x.threads) == ("strong", "ring_zigzag", p, 1)
        )
        for p in (1, 2)
    )
    (row,) = rows[5:]
    numbers = two.median * 1000, one.median / two.median, two.messages * 1000, two.cores
    for cell, number in zip(row[1:5], numbers, strict=True):
        assert float(cell) == pytest.approx(number, rel=6e-3)
    notes = "".join(root.find("p").itertext())
    assert f"{record.provenance['cores']} cores" in notes
    assert f"kept {record.provenance['busy_elsewhere']:.2f} of a core busy" in notes
    pt = shown(tree, "pt")
    assert NUMBER.findall(pt) == NUMBER.findall(html)
    assert "1 thread por rank" in pt


def test_a_wish_for_ranks_that_no_record_fulfils_is_found(tree):
    for old, new, message in (
        ("ranks: 1, 2", "ranks: 3", "ranks '3': not measured in cpu-float32-ranks, expected some"),
        ("threads: 1", "threads: x", "threads 'x': not measured in cpu-float32-ranks, expected"),
        (f"file: {RANKS}", "", "task 'strong': expected one of dense"),
        ("methods: sdpa, ring_zigzag\nranks: 1, 2", "methods: sdpa\nranks: 2", "has no result for"),
        (OF_RANKS, f"{BLOCK}\nranks: 1", "ranks '1': not measured in cpu-float32, none is kept"),
    ):
        assert old in OF_RANKS
        text = PAGE.replace(BLOCK, OF_RANKS.replace(old, new)).replace(CHART, "")
        tree.write_text(text, encoding="utf-8")
        (problem,) = problems_of(tree)
        assert message in problem.message


def test_a_chart_of_ranks_is_refused(tree):
    (problem,) = problems(tree, CHART, f"![Time rises](chart:strong?file={RANKS})")
    assert "a chart is of lengths; show ranks with a results block" in problem.message


def test_what_ranks_could_not_do_is_told():
    skipped = [RankSkipped("strong", "a", 7, "odd", p) for p in (2, 3)]
    record = SimpleNamespace(skipped=skipped)
    wish = results.Wish(record, "file", "strong", ("a",), (7,), (1, 3), (1,))
    assert results._left_out(wish, results.WORDS["en"]) == (
        "Not measured: <code>a</code>, n = 7, p = 3 (odd)."
    )


def test_a_block_in_an_admonition_stays_in_it(tree):
    tree.write_text("---\nt: 1\n---\n\n??? note\n\n    ```results\n    task: window\n    ```\n")
    note = shown(tree).partition("<details")[2].partition("</details>")[0]
    assert '</summary>\n<div class="results"' in note
    assert note.endswith("</div>\n")


def test_every_task_and_every_word_is_in_both_languages():
    assert set(results.QUESTIONS["pt"]) == set(results.QUESTIONS["en"]) == set(TASKS)
    assert set(results.WORDS["pt"]) == set(results.WORDS["en"]) >= set(ENGLISH)
    assert set(rank_tables.QUESTIONS["pt"]) == set(rank_tables.QUESTIONS["en"]) == set(SCALINGS)
    assert set(rank_tables.WORDS["pt"]) == set(rank_tables.WORDS["en"])
    assert len(rank_tables.COLUMNS["pt"]) == len(rank_tables.COLUMNS["en"]) == 7
