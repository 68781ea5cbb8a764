"""Makes the site's fonts and their style sheet, docs/shared/fonts, from the fonts as published.

    .venv/bin/pip install --constraint constraints.txt -e '.[fonts]'
    .venv/bin/python -m book.make.fonts

The text is set in IBM Plex Sans and the code in IBM Plex Mono. Beside the formulas, in KaTeX's
Computer Modern, three pairs were looked at. Source Sans and Source Code Pro: I and l are one
stroke in the text. Source Serif: nearest to the formulas on a page, but too fine in figures at
9 pixels. Plex: I has its bars, l its tail and 1 its foot, in the text as in the code, the zero
of the code has a dot, all digits are equally wide, and the stroke is as strong as that of a
formula at 1.08 times its size. Semibold is the bold: a bold one would be far darker than any
formula beside it.

A font is cut down to what Western European languages and these pages write, and takes a name of
its own, as its licence wants of what is changed: "Plex" is reserved. Its common characters, and
those of the formulas' fonts, are cut once more, into files that a page can load before it is
shown; so are the signs that few pages write in the regular one, and the whole ones are asked for
the rest. Text that is shown is never set again in another font:
while the common characters are on their way, the reader's own fonts stand in for them, stretched
to the same width on average and the same height, and they remain if the wait is long. Labels of
figures, which are measured, wait for the site's font under a name of their own.
"""

import re
from collections import Counter
from importlib.metadata import files
from pathlib import Path
from string import ascii_letters, ascii_lowercase, digits
from typing import Any

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont, newTable
from fontTools.varLib.instancer import instantiateVariableFont
from matplotlib import get_data_path

ROOT = Path(__file__).parents[2]
FONTS = ROOT / "docs" / "shared" / "fonts"
# Latin letters, Greek ones, punctuation, raised and lowered digits, arrows, operators; letters of
# the names in a bibliography.
RANGES = (
    *((0x20, 0x7E), (0xA0, 0xFF), (0x384, 0x3CE), (0x2010, 0x2026), (0x2030, 0x203A)),
    *((0x2070, 0x209C), (0x20AC, 0x20AC), (0x2113, 0x2122), (0x2190, 0x2199), (0x2200, 0x22FF)),
    *((0x2713, 0x2713), (0x274C, 0x274C)),
)
# What a page needs no whole font for: the letters of both languages, and the common formulas.
ASCII = {*range(0x20, 0x7F)}
COMMON = ASCII | {0xA0, *map(ord, "ÀÁÂÃÇÉÊÍÓÔÕÚàáâãçéêíóôõöúüª°²·¶º×–—‘’“”…−√→↑↓↕✓∞≈≤≥")}
# What a page writes now and then: numbers above and below a line, Greek, operators, other letters.
SELDOM = {
    *map(ord, "ÄÅÈËÌÏÑÒÖØÙÛÜÝßäåèëìïñòøùûýÿ¹³½¼¾±µ÷′″ℓ←↔∂∑∏∫∈≠⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"),
    *range(0x3B1, 0x3CA),
}
LETTERS = {*map(ord, ascii_letters)}
GREEK = {*range(0x3B1, 0x3CA), *map(ord, "ϕϱϵ")}
CODE_GREEK = {*range(0x384, 0x3CF)}
SIGNS = ASCII | {0xA0, *map(ord, "±×ˉˊˆ˜¸…′∈∑−∗∘√∞∣∥∼≈≤≥⊤⋅⋯⌈⌉⌊⌋→∂ℓΔΣΠ∪∩←∝∫↦⊙⟺≪∠⋮\ue020")}
LARGE = {0xA0, *map(ord, "()[]{}/⌈⌉⌊⌋⟨⟩∑∏∫√∣∥⋃⋂̃̂")}
NAMES = "ĀāĆćČčĞğıŁłŃńŐőŒœŘřŚśŞşŠšŸŹźŻżŽž"
SELDOM |= {*map(ord, NAMES)}
FEATURES = ["ccmp", "kern", "liga", "locl", "mark", "mkmk"]
# What a font lacks, and what it has for it.
STAND_INS = {"✗": "❌", "‑": "-"}
SANS = "fontpkg-ibm-plex-sans", "IBMPlexSans[wdth,wght].ttf"
SLANTED = "fontpkg-ibm-plex-sans", "IBMPlexSans-Italic[wdth,wght].ttf"
MONO = "fontpkg-ibm-plex-mono"
NO_PROSE = re.compile(r"```.*?```|\$[^$]*\$|`[^`]*`|\]\([^)]*\)|<[^>]*>", re.DOTALL)
# Name of the file, its family, weight and style; where it comes from.
FACES = {
    "sans-regular": ("attnref Sans", 400, "normal", SANS),
    "sans-italic": ("attnref Sans", 400, "italic", SLANTED),
    "sans-bold": ("attnref Sans", 600, "normal", SANS),
    "sans-bold-italic": ("attnref Sans", 600, "italic", SLANTED),
    "mono-regular": ("attnref Mono", 400, "normal", (MONO, "IBMPlexMono-Regular.ttf")),
    "mono-italic": ("attnref Mono", 400, "italic", (MONO, "IBMPlexMono-Italic.ttf")),
    "mono-bold": ("attnref Mono", 600, "normal", (MONO, "IBMPlexMono-SemiBold.ttf")),
}
# The fonts of formulas whose common characters are cut, and which those are.
MATH = FONTS.parent / "math" / "fonts"
FORMULAS = {
    "Main-Regular": SIGNS,
    "Main-Bold": {*map(ord, digits + " ()+−=≤≥,.")},
    "Main-Italic": ASCII,
    "Caligraphic-Regular": {*map(ord, "BLNO")},
    "AMS-Regular": {0xA0, *map(ord, "■□ENPRZ")},
    "Math-Italic": LETTERS | GREEK,
    "Math-BoldItalic": {*map(ord, ascii_lowercase + "μ")},  # in headings of figures and tables
    **dict.fromkeys((f"Size{size}-Regular" for size in (1, 2, 3, 4)), LARGE),
}
# A file of an installed package, or one of matplotlib by its name.
Source = tuple[str, str] | str
ARIMO, ROBOTO = "fontpkg-arimo", "fontpkg-roboto"
# The reader's own fonts: how each is called where it is installed, and one with its widths.
OWN: dict[str, dict[str, tuple[tuple[str, ...], dict[str, Source]]]] = {
    "attnref Sans": {
        "Arial": (
            ("Arial", "Liberation Sans", "Arimo", "Arimo Regular"),
            {"normal": (ARIMO, "Arimo[wght].ttf"), "italic": (ARIMO, "Arimo-Italic[wght].ttf")},
        ),
        "Roboto": (
            ("Roboto",),
            {
                "normal": (ROBOTO, "Roboto[wdth,wght].ttf"),
                "italic": (ROBOTO, "Roboto-Italic[wdth,wght].ttf"),
            },
        ),
        "DejaVu": (("DejaVu Sans",), {"normal": "DejaVuSans", "italic": "DejaVuSans-Oblique"}),
    },
    "attnref Mono": {
        "Courier": (
            ("Liberation Mono", "Cousine", "Courier New"),
            {"normal": (MONO, "IBMPlexMono-Regular.ttf")},  # each is 0.6 em wide
        ),
        "DejaVu": (("DejaVu Sans Mono", "Menlo"), {"normal": "DejaVuSansMono"}),
    },
}


def package_file(package: str, name: str) -> Path:
    """A file of an installed package."""
    return next(Path(str(path.locate())) for path in files(package) or () if path.name == name)


def site_font(source: Source, weight: int) -> TTFont:
    """What the site writes with, of an installed package's font or matplotlib's, at one weight."""
    if isinstance(source, str):
        bold = source.replace("-", "-Bold") if "-" in source else f"{source}-Bold"
        name = bold if weight > 400 else source
        font = TTFont(Path(get_data_path(), "fonts", "ttf", f"{name}.ttf"))
    else:
        package, name = source
        font = TTFont(package_file(package, name), recalcTimestamp=False)
    signs = {sign for first, last in RANGES for sign in range(first, last + 1)}
    subset(font, signs | set(map(ord, NAMES)))
    if "fvar" in font:
        places = {"wght": weight, "wdth": 100}
        instantiateVariableFont(
            font, {axis.axisTag: places[axis.axisTag] for axis in font["fvar"].axes}, inplace=True
        )
    return font


def subset(font: TTFont, signs: set[int]) -> None:
    """Leaves these characters, without hints: where those matter, lines are smoothed."""
    for table in font["cmap"].tables:
        for missing, present in STAND_INS.items():
            if table.isUnicode() and ord(present) in table.cmap:
                table.cmap.setdefault(ord(missing), table.cmap[ord(present)])
    options = Options()
    options.hinting = False
    options.layout_features = FEATURES
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14]
    options.drop_tables += ["meta"]
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=signs | set(map(ord, STAND_INS)))
    subsetter.subset(font)
    font["gasp"] = newTable("gasp")
    font["gasp"].gaspRange = {0xFFFF: 0b1111}


def common_rule(whole: Path, signs: set[int], of: str = "", **face: Any) -> str:
    """Cuts some characters of a font of the site; the rule that asks for them."""
    font = TTFont(whole, recalcTimestamp=False)
    subset(font, signs & set(font.getBestCmap()))
    name = whole.name.removeprefix("KaTeX_").lower()
    file = FONTS / "common" / (name.replace("sans", of) if of else name)
    file.parent.mkdir(exist_ok=True)
    if whole.name.startswith("KaTeX_"):  # whose name is reserved for what is not changed
        rename(font, "attnref Formulas", face["font_weight"], face["font_style"])
    font.save(file)
    print(f"{file.stat().st_size:>6}  common/{file.name}")
    return rule(src=f'url(common/{file.name}) format("woff2")', unicode_range=spans(signs), **face)


def spans(signs: set[int]) -> str:
    """Characters as CSS writes them: those that follow one another as one range."""
    runs: list[list[int]] = []
    for sign in sorted(signs):
        if runs and sign == runs[-1][1] + 1:
            runs[-1][1] = sign
        else:
            runs.append([sign, sign])
    return ", ".join(f"U+{a:X}" if a == b else f"U+{a:X}-{b:X}" for a, b in runs)


def rename(font: TTFont, family: str, weight: int, style: str) -> None:
    """Gives the font the name by which pages and drawings ask for it."""
    cut_of = {(400, "normal"): "Regular", (400, "italic"): "Italic"}.get(
        (weight, style), "Bold" if style == "normal" else "Bold Italic"
    )
    whole = f"{family} {cut_of}"
    names = {1: family, 2: cut_of, 3: whole, 4: whole, 6: whole.replace(" ", "-")}
    for record in font["name"].names:
        if record.nameID in names:
            record.string = names[record.nameID]
    font["OS/2"].usWeightClass = weight


def width(font: TTFont, text: Counter[str]) -> float:
    """The average width of the characters of a text, in em."""
    glyphs = font.getBestCmap()
    known = {sign: count for sign, count in text.items() if ord(sign) in glyphs}
    advances = sum(font["hmtx"][glyphs[ord(sign)]][0] * count for sign, count in known.items())
    return float(advances / sum(known.values()) / font["head"].unitsPerEm)


def rule(**properties: object) -> str:
    lines = "".join(f"  {name.replace('_', '-')}: {value};\n" for name, value in properties.items())
    return f"@font-face {{\n{lines}}}\n"


def stand_in(family: str, weight: int, style: str, font: TTFont, text: Counter[str]) -> str:
    """The reader's own fonts as wide and as high as ``font``."""
    rules = []
    for name, (installed, sources) in OWN[family].items():
        if style not in sources:
            continue
        share = width(font, text) / width(site_font(sources[style], weight), text)
        suffix = {"normal": "", "italic": " Oblique" if name == "DejaVu" else " Italic"}[style]
        suffix = (" Bold" if weight > 400 else "") + suffix
        em, line = font["head"].unitsPerEm, font["hhea"]
        rules.append(
            rule(
                font_family=f'"{family} in {name}"',
                src=", ".join(f'local("{each}{suffix}")' for each in installed),
                font_weight=weight,
                font_style=style,
                size_adjust=f"{share:.2%}",
                ascent_override=f"{line.ascent / em / share:.2%}",
                descent_override=f"{-line.descent / em / share:.2%}",
                line_gap_override="0%",
            )
        )
    return "".join(rules)


def prose() -> Counter[str]:
    """How often the pages have each letter, where they are neither code nor formula."""
    pages = [*ROOT.glob("docs/pt/**/*.md"), *ROOT.glob("docs/en/**/*.md")]
    text = NO_PROSE.sub("", "\n".join(page.read_text("utf-8") for page in pages))
    return Counter(sign for sign in text if sign.isalpha() or sign in " ,.")


def main() -> None:
    text = prose()
    rules = ["/* Written by book/make/fonts.py. */\n"]
    FONTS.mkdir(exist_ok=True)
    for name, (family, weight, style, source) in FACES.items():
        font = site_font(source, weight)
        rename(font, family, weight, style)
        font.flavor = "woff2"
        file = FONTS / f"{name}.woff2"
        font.save(file)
        print(f"{file.stat().st_size:>6}  {file.name}")
        face: dict[str, Any] = {
            "font_family": f'"{family}"',
            "font_weight": weight,
            "font_style": style,
        }
        whole = {"src": f'url({name}.woff2) format("woff2")', "font_display": "swap"}
        seldom = SELDOM if name == "sans-regular" else set()
        whole["unicode_range"] = spans({*font.getBestCmap()} - COMMON - seldom)
        rules.append(rule(**face, **whole))
        if seldom:
            rules.append(common_rule(file, seldom - COMMON, "seldom", **face, font_display="swap"))
        rules.append(common_rule(file, COMMON, **face, font_display="optional"))
        if family == "attnref Sans":
            face["font_family"] = '"attnref Labels"'
            rules.append(rule(**face, **whole))
            if seldom:
                rules.append(
                    common_rule(file, seldom - COMMON, "seldom", **face, font_display="swap")
                )
            rules.append(common_rule(file, COMMON, **face, font_display="swap"))
        rules.append(stand_in(family, weight, style, font, text))
    for name, signs in FORMULAS.items():
        # A browser that looks whether a font is there asks it for a space.
        signs = signs | {0x20}
        family, cut_of = name.split("-")
        face = {"font_family": f"KaTeX_{family}", "font_display": "block"}
        face["font_weight"] = 700 if "Bold" in cut_of else 400
        face["font_style"] = "italic" if "Italic" in cut_of else "normal"
        file = MATH / f"KaTeX_{name}.woff2"
        whole = {"src": f'url(../math/fonts/{file.name}) format("woff2")'}
        rules.append(
            rule(**face, **whole, unicode_range=spans({*TTFont(file).getBestCmap()} - signs))
        )
        rules.append(common_rule(file, signs, **face))
    # The Greek letters of code are those of the text.
    for weight, name in ((400, "sans-regular"), (600, "sans-bold")):
        greek: dict[str, Any] = {"font_family": '"attnref Mono"', "font_weight": weight}
        file = FONTS / f"{name}.woff2"
        rules.append(common_rule(file, CODE_GREEK, "greek", **greek, font_display="swap"))
    for variable, family in (("text", "attnref Sans"), ("code", "attnref Mono")):
        names = ", ".join(
            f'"{name}"' for name in (family, *(f"{family} in {own}" for own in OWN[family]))
        )
        rules.append(f":root {{\n  --md-{variable}-font: {names};\n}}\n")
    (FONTS / "fonts.css").write_text("\n".join(rules), encoding="utf-8")
    licence = package_file(MONO, "LICENSE")
    changed = (
        "attnref Sans and attnref Mono are IBM Plex Sans and IBM Plex Mono under other names,\n"
        "without the characters and hints that this site does without.\n\n"
    )
    (FONTS / "LICENSE").write_text(changed + licence.read_text("utf-8"), encoding="utf-8")
    both = f"{(FONTS / 'LICENSE').read_text('utf-8')}\n\n{(MATH / 'LICENSE').read_text('utf-8')}"
    (FONTS / "common" / "LICENSE").write_text(both, encoding="utf-8")


if __name__ == "__main__":
    main()
