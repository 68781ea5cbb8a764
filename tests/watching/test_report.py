"""The report: one file that holds all that was seen, and asks nobody for anything."""

import base64
import io
import re
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from bs4 import BeautifulSoup
from PIL import Image
from selectolax.lexbor import LexborHTMLParser
from torch import nn

import attnref
from attnref.text import Refusal
from attnref.watching import pictures, report, table


class Attention(nn.Module):
    def forward(self, x):
        F.scaled_dot_product_attention(x[:, :1, :1], x[:, :1, :1], x[:, :1, :1])
        F.scaled_dot_product_attention(x, x, x, attn_mask=torch.arange(11) < 7, dropout_p=0.1)
        return F.scaled_dot_product_attention(x, x, x, scale=3.0)


class NoAttention(nn.Identity):
    pass


@pytest.fixture
def seen():
    model = nn.Sequential()
    for name in ("<b>", "one", "dull", "two"):
        model.add_module(name, NoAttention() if name == "dull" else Attention())
    with attnref.watch(model.eval()) as seen:
        model(torch.randn(2, 37, 11, 5, generator=torch.Generator().manual_seed(0)))
    seen.compiled_modules.append("decoder")
    return seen


@pytest.mark.parametrize("lang", ["en", "pt"])
def test_all_that_was_seen_is_in_a_file_that_asks_for_nothing(seen, tmp_path, lang, monkeypatch):
    monkeypatch.setattr("attnref.book.address", lambda: "https://book")
    html = seen.report(tmp_path / "watch.html", lang).read_text(encoding="utf-8")
    page = BeautifulSoup(re.sub("<template>.*?</template>", "", html), "html.parser")
    mended = LexborHTMLParser(str(page)).root.traverse()
    assert [tag.name for tag in page.find_all()] == [node.tag for node in mended]
    assert (page.html["lang"], page.h1.text) == (lang, table.verdict(seen, lang))
    said = [found.say(lang) for found in seen.findings]
    assert [line.p.text for line in page.select(".findings li")] == said
    for names in (page.select(".maps tbody th code"), page.select(".places code")):
        assert [name.text for name in names] == ["<b>", "one", "two"]
    assert len(page.select(".maps img[alt]")) == 3 * 32  # of 37 heads
    (drawn,) = {each["src"] for each in page.select(".places .mask")}  # of one pattern
    fields = np.array(Image.open(io.BytesIO(base64.b64decode(drawn.partition(",")[2]))))
    assert (fields == np.where(np.arange(11) < 7, 15, 0)).all()
    assert all(each in page.text for each in ("dull (NoAttention)", "decoder"))
    links = [link["href"] for link in page.select("a")]
    assert links == [f"https://book/{lang}/{found.page}/" for found in seen.findings]
    assert html.count("http") == len(links) + html.count("http-equiv")


def test_what_is_not_known_is_not_shown():
    x = torch.zeros(2, 1, 1, 5)
    with attnref.watch(judged=False) as counted, attnref.watch() as judged:
        F.scaled_dot_product_attention(x, x, x)
    (site,) = counted.sites.values()
    (way,) = site.ways.values()
    way.call.shapes, way.call.softcap = (torch.Size((2, 1, 0, 5)), *way.call.shapes[1:]), 30.0
    (layout, *_) = way.call.layouts
    page = BeautifulSoup(report.page(counted), "html.parser")
    assert "counted but not judged" in page.text
    assert [cell.text for cell in page.select("td")][-4:] == ["0.4472softcap 30", layout, "–", "–"]
    page = BeautifulSoup(report.page(judged), "html.parser")
    assert page.img["alt"].endswith("head 0: entropy –, largest weight 0.00, first key –")
    assert [cell.text for cell in page.select(".numbers td")] == ["–", "–"]


def test_a_map_is_the_weights_of_each_row_by_its_largest():
    maps = torch.tensor([[[0.0, 0.1, 0.2, 0.2, 0.1], [0.0, 0.0, 0.0, 0.0, 0.0]]])
    assert pictures.levels(maps, 2).tolist() == [[[15, 15], [0, 0]]]
    (fields,) = pictures.levels(maps, 48)
    coded = pictures.png(fields).removeprefix("data:image/png;base64,")
    assert np.array(Image.open(io.BytesIO(base64.b64decode(coded)))).tolist() == fields.tolist()


def test_a_file_that_cannot_be_written_is_refused(seen, tmp_path):
    folder = "is not a file in an existing folder. Create the folder first, and name a file in it."
    full = "path: cannot write to '/dev/full': No space left on device. Choose another file."
    for path, why in {
        tmp_path: folder,
        tmp_path / "no" / "x.html": folder,
        "/dev/full": full,
    }.items():
        with pytest.raises(Refusal, match=re.escape(why)):
            seen.report(path)
    with pytest.raises(ValueError, match="lang: expected one of en, pt, got 'fr'"):
        seen.report(tmp_path / "watch.html", "fr")


def test_a_figure_has_a_map_of_each_head_and_a_dot_for_each(seen):
    figure = seen.figure(lang="pt")
    *maps, entropy, first = figure.axes
    assert [axes.get_ylabel() for axes in maps[::8]] == ["lugar 0", "lugar 1", "lugar 2"]
    assert len([axes for axes in maps if axes.images]) == 3 * 8
    assert [len(axes.lines) for axes in (entropy, first)] == [3 + 1, 3 + 1]
    (drawn, _) = seen.figure("two", 3).axes
    np.testing.assert_array_equal(drawn.images[0].get_array(), seen.weights("two", 3))
    (alone, *_) = seen.figure(1).axes
    assert alone.get_ylabel() == "place 1"
    with pytest.raises(KeyError, match="nothing was looked at"):
        attnref.watch(judged=False).figure()
    with pytest.raises(IndexError, match="head: expected 0 to 36, got 37"):
        seen.figure(1, 37)


@pytest.mark.parametrize("name", ["matplotlib", "rich"])
def test_what_is_not_installed_is_named(seen, monkeypatch, name):
    for each in [each for each in sys.modules if each.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, each)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"needs {name}, which is not installed. Run pip install"):
        attnref.watch(live=True) if name == "rich" else seen.figure()


def test_the_table_is_shown_while_it_runs(monkeypatch):
    shown = []
    monkeypatch.setattr("attnref.watching.live._PAUSE", 0.0)
    monkeypatch.setattr("rich.live.Live.update", lambda self, text, refresh: shown.append(text))
    x = torch.zeros(1, 1, 9, 4)
    with attnref.watch(live=True):
        for _ in range(3):
            F.scaled_dot_product_attention(x, x, x)
    assert [str(each).split(";")[0] for each in shown] == [
        f"Attention calls: {count}" for count in (1, 2, 3)
    ]
    assert "test_report.py" in str(shown[-1])
