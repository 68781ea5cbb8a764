"""Tables and charts of a record whose numbers are known."""

import dataclasses
import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest
from rich.console import Console

from attnref.bench.chart import COLOURS, ENGLISH, INKS, PAPERS, _Axis, _ticks, chart
from attnref.bench.digits import milliseconds
from attnref.bench.record import Record, Skipped
from attnref.bench.table import left_out, tables
from tests.book.colours import contrast

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def record(result):
    return Record(
        {"accelerator": None, "processor": "Fast & One", "threads": 2},
        {"backward": False, "heads": 2, "head_dim": 8, "dtype": "float32"},
        {},
        [
            *(result("sdpa", n, 1e-9 * n**2) for n in (1024, 4096)),
            *(result("linear", n, 1e-6 * n) for n in (4096, 1024)),
            result("multihead", 64, 2e-3, task="layer"),
        ],
        [Skipped("dense", "far", None, "not here"), Skipped("dense", "far", 7, "too long")],
    )


def test_the_table_compares_with_the_baseline(record, capsys):
    for table in tables(record):
        Console(width=100).print(table)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1024", "sdpa", "1.05", "0.944–1.26", "1.00", "3.0e-07", "1.5"] in lines
    assert ["1024", "linear", "1.02", "0.922–1.23", "1.02", "3.0e-07", "1.5"] in lines
    assert ["4096", "linear", "4.1", "3.69–4.92", "4.10", "3.0e-07", "1.5"] in lines
    assert ["64", "multihead", "2", "1.8–2.4", "3.0e-07", "1.5"] in lines  # nothing to compare
    assert ["layer"] in lines


def test_times_have_three_digits():
    assert [milliseconds(time) for time in (1.23456e-5, 0.0123456, 1.23456, 12.3456)] == [
        "0.0123",
        "12.3",
        "1235",
        "12346",
    ]


def test_what_was_left_out_is_said(record):
    assert left_out(record) == ["far, dense: not here", "far, dense n=7: too long"]


def texts(svg):
    return [(text.text, text) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_chart_says_what_it_shows(record):
    svg = chart(record, "dense")
    title = ElementTree.fromstring(svg).find(f"{SVG}title").text
    assert title == (
        "dense: time and length, forward, 2 heads, d=8, float32, Fast & One, 2 threads"
    )
    words = [text for text, _ in texts(svg)]
    assert {title, "n, number of keys", "1024", "4096", "sdpa", "linear"} <= set(words)
    assert {"1 ms", "2 ms", "5 ms", "10 ms"} <= set(words)
    assert "multihead" not in words


def test_a_gpu_and_gradients_are_named(record):
    made = dataclasses.replace(
        record,
        provenance={**record.provenance, "accelerator": "Big One"},
        settings={**record.settings, "backward": True},
    )
    assert "forward + backward, 2 heads, d=8, float32, Big One<" in chart(made, "dense")


def test_methods_can_be_chosen_and_words_be_of_another_language(record):
    words = ENGLISH | {"title": "{task}: tempo", "heads": "{heads} cabeças", "length": "chaves"}
    svg = chart(record, "dense", methods=["linear"], words=words)
    assert "dense: tempo, forward, 2 cabeças, d=8" in svg
    written = [text for text, _ in texts(svg)]
    assert {"chaves", "linear"} <= set(written)
    assert "sdpa" not in written


def test_dots_lead_to_the_name_of_a_line_that_ends_early(record):
    early = [r for r in record.results if (r.method, r.n) != ("linear", 4096)]
    svg = chart(dataclasses.replace(record, results=early), "dense")
    led = re.findall(r'<path d="M([\d.]+) [\d.]+L([\d.]+) [^>]*stroke-dasharray="1 4"/>', svg)
    starts, ends = zip(*((float(start), float(end)) for start, end in led), strict=True)
    assert len(set(starts)) == 2  # one line ends before the other
    assert len(set(ends)) == 1  # and their names stand side by side


def test_both_axes_are_logarithmic(record):
    lines = [
        [tuple(map(float, point)) for point in re.findall(r"([\d.]+) ([\d.]+)", path.get("d"))]
        for path in ElementTree.fromstring(chart(record, "dense")).iter(f"{SVG}path")
        if path.get("stroke-width")
    ]
    (a, b), (c, d) = lines  # of sdpa, of linear: slopes 2 and 1 in one scale
    assert a[0] == c[0] < b[0] == d[0]  # sorted by length
    assert (a[1] - b[1]) / (c[1] - d[1]) == pytest.approx(2.0, abs=0.01)


def test_one_length_is_a_chart_too(record):
    assert ElementTree.fromstring(chart(record, "layer")).tag == f"{SVG}svg"


def test_a_wide_axis_has_powers_of_ten_only():
    ticks = _ticks(_Axis([2e-5, 3.0], 0, 100))
    assert ticks == pytest.approx([1e-4, 1e-3, 1e-2, 0.1, 1.0])


def test_names_never_overlap_and_stay_inside(record, result):
    crowd = dataclasses.replace(
        record, results=[result(f"m{i}", n, 1e-3) for i in range(25) for n in (8, 16)]
    )
    heights = sorted(
        float(node.get("y")) for text, node in texts(chart(crowd, "dense")) if text[0] == "m"
    )
    assert len(heights) == 25
    assert all(b - a >= 14.9 for a, b in itertools.pairwise(heights))
    assert heights[-1] <= 480


def test_no_two_lines_look_alike(record, result):
    crowd = dataclasses.replace(
        record, results=[result(f"m{i}", n, 1e-3) for i in range(32) for n in (8, 16)]
    )
    paths = list(ElementTree.fromstring(chart(crowd, "dense")).iter(f"{SVG}path"))
    looks = {
        (path.get("stroke"), path.get("stroke-dasharray"))
        for path in paths
        if path.get("stroke-width")
    }
    assert len(looks) == 32


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_light_and_dark(scheme):
    assert contrast(INKS[scheme], PAPERS[scheme]) >= 7  # WCAG 2.2, 1.4.6
    for colour in COLOURS:
        assert contrast(colour, PAPERS[scheme]) >= 3  # WCAG 2.2, 1.4.11
