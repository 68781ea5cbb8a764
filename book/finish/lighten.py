"""Says with fewer elements what KaTeX draws: most of a page with formulas is what carries a letter.

KaTeX puts every index and exponent into a table, eleven elements deep, since two of them may stand
one above the other. One alone is as well moved up or down from its line. A gap becomes the margin
of what is before it. In the MathML the source of a formula is an attribute, in the place of two
elements around it all. What is seen and what is heard stay as they are.
"""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

DISPLAYED = '<span class="katex-display">'
SVG = ' xmlns="http://www.w3.org/2000/svg"'  # which HTML knows
SOURCE = re.compile(
    r"<math(?P<about>[^>]*)><semantics>(?:<mrow>(?P<all>.*)</mrow>|(?P<one>.*))"
    r'<annotation encoding="application/x-tex">(?P<tex>[^<]*)</annotation></semantics>',
    re.DOTALL,
)
# Their em is not that of what is around them, or they take no room.
APART = re.compile(r"sizing|ensurer|strut|lap")
Style = dict[str, str]


def lighten(rendered: str) -> str:
    """A formula, as KaTeX renders it, with fewer elements."""
    closing = 2 if rendered.startswith(DISPLAYED) else 1
    begin = rendered.index('<span class="katex-html"')
    end = len(rendered) - closing * len("</span>")
    root = ElementTree.fromstring(rendered[begin:end].replace(SVG, ""))
    for part in list(root.iter("span")):
        if part.get("class") == "msupsub":
            _move(part)
        _close_gaps(part)
    drawn = ElementTree.tostring(root, encoding="unicode", method="html")
    return SOURCE.sub(_as_attribute, rendered[:begin]) + drawn + rendered[end:]


def _as_attribute(math: re.Match[str]) -> str:
    tex = math["tex"].replace('"', "&quot;")
    return f'<math{math["about"]} alttext="{tex}">{math["all"] or math["one"]}'


def _move(scripts: Element) -> None:
    """One index or exponent out of its table; its baseline is where its strut ends."""
    (table,) = scripts
    column = table[0][0]
    if len(column) != 1 or len(column[0]) != 2:
        return
    strut, script = column[0]
    style = _style(column[0])
    style["top"] = _sum(style["top"], _style(strut)["height"])
    scripts[:] = [script]
    _write(scripts, style)
    if len(script) == 1:  # smaller, and nothing else
        (inner,) = script
        inner.set("class", f"{script.get('class')} {inner.get('class') or ''}")
        scripts[:] = [inner]


def _close_gaps(whole: Element) -> None:
    before = None
    for part in list(whole):
        style = _style(part)
        is_gap = part.get("class") == "mspace" and [*style] == ["margin-right"]
        if is_gap and before is not None:
            other = _style(before)
            other["margin-right"] = _sum(other.get("margin-right", "0em"), style["margin-right"])
            _write(before, other)
            whole.remove(part)
        elif APART.search(part.get("class") or "strut"):
            before = None
        else:
            before = part


def _style(part: Element) -> Style:
    rules = (part.get("style") or "").split(";")
    return {name: value for name, _, value in (rule.partition(":") for rule in rules if rule)}


def _write(part: Element, style: Style) -> None:
    part.set(
        "style", "".join(f"{name}:{value};" for name, value in style.items() if value != "0em")
    )


def _sum(*lengths: str) -> str:
    total = sum(float(length.removesuffix("em")) for length in lengths)
    return f"{round(total, 4):g}em"
