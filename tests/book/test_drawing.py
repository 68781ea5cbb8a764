"""What docs/figures/drawing.py and inline_svg.py promise of every figure."""

import re
import xml.etree.ElementTree as ET
from itertools import groupby
from pathlib import Path

import matplotlib
import pytest
from fontTools.ttLib import TTFont
from matplotlib.patches import Rectangle

from book.make import record
from docs.figures import drawing, inline_svg, typeface
from tests.book.colours import contrast

ROOT = Path(__file__).parent.parent.parent
CSS = (ROOT / "docs/shared/style/site.css").read_text(encoding="utf-8")
SCHEMES = ("default", "slate")


def draw_text(words, **options):
    def draw(text):
        figure = drawing.new_figure(50)
        drawing.canvas(figure).text(10, 20, words, **options)
        return figure

    return ET.fromstring(inline_svg.render(draw, {}, "trial"))


def palette(scheme: str) -> dict[str, str]:
    """Colour by name, as the style sheet gives it for a scheme."""
    block = re.search(rf'\[data-md-color-scheme="{scheme}"\] {{(.*?)}}', CSS, re.DOTALL)[1]
    return dict(re.findall(r"--figure-(\w+): (#[0-9a-f]{6});", block))


def mixed(colour: str, ground: str, alpha: float) -> str:
    """The colour laid over the ground, as a browser does it."""
    pairs = [(int(colour[p : p + 2], 16), int(ground[p : p + 2], 16)) for p in (1, 3, 5)]
    return "#" + "".join(f"{round(alpha * a + (1 - alpha) * b):02x}" for a, b in pairs)


def test_the_style_sheet_has_the_same_colours_and_a_dark_one_for_each():
    assert palette("default") == {name: colour for colour, name in drawing.NAMES.items()}
    assert palette("slate").keys() == palette("default").keys()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_colours_can_be_read_and_told_apart(scheme):
    colours = palette(scheme)
    for name in ("ink", "soft", "first", "second", "third"):  # text has these
        assert contrast(colours[name], colours["ground"]) >= 4.5, name
    darkest = mixed(colours["shade"], colours["ground"], drawing.STRONGEST)
    assert contrast(colours["shade"], colours["ground"]) >= 3
    assert contrast(colours["ink"], darkest) >= 4.5
    assert contrast(colours["ink"], colours["grid"]) >= 4.5
    # Without colour the series still differ in lightness, by more than one sees as the same.
    greys = [colours[name] for name in ("first", "second", "third")]
    assert contrast(greys[0], greys[1]) >= 1.3
    assert contrast(greys[1], greys[2]) >= 1.3


def manners(script: str, text: str) -> list[str]:
    """What a recorded drawing does not keep to."""
    root = ET.fromstring(text)
    names = [part.get("id") for part in root.iter() if part.get("id")]
    colours = re.findall(r"var\(--figure-(\w+), (#\w+)\)", text)
    # At its least width, below which it scrolls, the smallest text still has 9 pixels.
    width = float(root.get("viewBox").split()[2])
    least = float(re.search(r"min-width: ([\d.]+)px", root.get("style"))[1])
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", text)]
    kept = {
        "an id twice": len(names) == len(set(names)),
        "an id of another": all(name.startswith(f"{script}-") for name in names),
        "an id for nothing, or none": (
            set(re.findall(r'(?:href="|url\()#([^")]+)', text)) == set(names)
        ),
        "what a drawing has not": not re.search("<style|<image|font-family", text),
        "a colour of another name": all(drawing.NAMES[one] == name for name, one in colours),
        "a colour without name": not re.search(r"(?<!, )#[0-9a-f]{6}", text),
        "small text": min(sizes) * least / width >= 9 - 1e-6,
    }
    return [what for what, is_so in kept.items() if not is_so]


def test_every_recorded_drawing_keeps_the_manner():
    broken = {}
    for script in record.figures():
        for language in ("pt", "en"):
            path = script.parents[1] / "drawn" / f"{script.stem}.{language}.svg"
            if found := manners(script.stem, path.read_text(encoding="utf-8")):
                broken[path.name] = found
    assert not broken


def test_a_formula_is_set_with_the_founts_of_formulas():
    (text,) = draw_text("with $√d_k = 2^{10} ln QK$ keys", fontsize=10).iter(
        f"{{{inline_svg.SVG}}}text"
    )
    parts = [(span.text, span.get("class"), span.get("dy"), span.get("font-size")) for span in text]
    assert text.text == "with "
    assert parts == [
        ("√", None, None, None),
        ("d", "variable", None, "11"),
        ("k", "variable", "2.2", "8.5"),
        (" = 2", "roman", "-2.2", "11"),
        ("10", "roman", "-3.8", "8.5"),
        (" ln ", "roman", "3.8", "11"),
        ("QK", "variable", None, "11"),
        (" keys", None, None, None),
    ]


def test_what_is_lowered_and_raised():
    expected = {
        "d_model": [("d", ""), ("m", "_"), ("odel", "")],  # as in the formulas of the pages
        "d_{model}": [("d", ""), ("model", "_")],
        "e^{-2d}c": [("e", ""), ("-2d", "^"), ("c", "")],
        "x_": [("x_", "")],
    }
    found = {}
    for formula in expected:
        runs = [(piece, shift) for piece, _, shift in inline_svg._pieces(formula)]
        found[formula] = [
            ("".join(piece for piece, _ in some), shift)
            for shift, some in groupby(runs, key=lambda run: run[1])
        ]
    assert found == expected


def test_a_colour_that_the_style_sheet_does_not_know_is_refused():
    with pytest.raises(ValueError, match="#123456 is no colour of docs"):
        draw_text("x", color="#123456")
    with pytest.raises(ValueError, match="'x' has no colour: take one of docs"):
        draw_text("x", color="#000000")


def test_text_is_measured_in_the_type_that_the_page_sets_it_in():
    words = "Il1 O0 millimetre, atenção"
    sizes = {}
    for weight, face in (("normal", "sans-regular"), ("semibold", "sans-bold")):
        with matplotlib.rc_context(drawing.STYLE):
            figure = drawing.new_figure(50)
            text = drawing.canvas(figure).text(10, 20, words, fontsize=100, fontweight=weight)
            sizes[face] = text.get_window_extent().width
        font = TTFont(typeface.SHARED / "fonts" / f"{face}.woff2")
        glyphs = font.getBestCmap()
        advances = sum(font["hmtx"][glyphs[ord(sign)]][0] for sign in words)
        assert sizes[face] == pytest.approx(advances / 10, rel=0.02)  # it is kerned, too
    assert sizes["sans-bold"] > 1.03 * sizes["sans-regular"]


def test_a_sign_that_the_page_has_no_fount_for_is_refused():
    for words, message in (
        ("QKᵀ", "'QKᵀ': sans-regular has no 'ᵀ': write it as a formula, or with other signs"),
        ("$Kᵀ$", "'ᵀ': sans-regular has no 'ᵀ'"),
    ):
        with pytest.raises(ValueError, match=message):
            draw_text(words)


def test_hatched_areas_keep_their_ground_and_their_pattern():
    hatches = [mark * count for mark in "/\\x|-+" for count in range(1, 8)]

    def draw(text):
        figure = drawing.new_figure(50)
        canvas = drawing.canvas(figure)
        for place, hatch in enumerate(hatches):
            look = {"facecolor": drawing.THIRD, "edgecolor": drawing.SOFT, "hatch": hatch}
            canvas.add_patch(Rectangle((place, 0), 1, 20, **look))
        return figure

    drawn = inline_svg.render(draw, {}, "trial")
    # Names are made of digits and letters, so that some of this many look like numbers in part.
    patterns = re.findall(r'<pattern id="([^"]+)"', drawn)
    assert len(patterns) == len(hatches)
    assert re.findall(r"fill: url\(#([^)]+)\)", drawn) == patterns
    assert len(re.findall(r'<rect [^>]*style="fill: var\(--figure-third, #008275\)"', drawn)) == (
        len(hatches)
    )


def test_the_users_own_settings_change_nothing(monkeypatch):
    before = ET.tostring(draw_text("x"))
    monkeypatch.setitem(inline_svg.matplotlib.rcParams, "font.size", 30)
    assert ET.tostring(draw_text("x")) == before


def test_axes_lie_where_they_are_put():
    figure = drawing.new_figure(200)
    place = drawing.axes(figure, 30, 20, 240, 100).get_position()
    assert (place.x0 * drawing.WIDTH, place.x1 * drawing.WIDTH) == pytest.approx((30, 270))
    assert (place.y0 * 200, place.y1 * 200) == pytest.approx((80, 180))
