"""Renders formulas when the site is built: KaTeX, in a JavaScript engine inside Python.

Readers get HTML and MathML and need no JavaScript. A malformed formula stops the build.
"""

import atexit
import html
import json
import re
from xml.etree import ElementTree

from py_mini_racer import MiniRacer

from book.edition import Edition
from book.finish.lighten import lighten
from book.page import ROOT, BookError, Page, Problem, locate

FORMULA = re.compile(
    r"(?P<before>[(“]?)"
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<mode>[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>'
    r"(?P<after>(?:[-’']\w+)?[.,;:?!)”’]*)",
    re.DOTALL,
)
MATHML = "http://www.w3.org/1998/Math/MathML"
# With a fixed number of children.
FIXED = ("mfrac", "mroot", "msub", "msup", "msubsup", "munder", "mover", "munderover")
APPLIED = "\u2061"  # the sign, unseen, between a function and its argument
# As many signs as fit on a line of every screen: a shorter formula is not broken.
SHORT = 16
AFTER = ("drawings", "explorers")
KATEX = ROOT / "docs" / "math" / "katex.min.js"

ElementTree.register_namespace("", MATHML)

RENDER = """
const renderAll = (formulas) => JSON.stringify(formulas.map(([tex, displayMode]) => {
  const options = {displayMode, throwOnError: true, strict: "error", output: "htmlAndMathml"};
  try {
    return [katex.renderToString(tex, options), ""];
  } catch (error) {
    return ["", error.message];
  }
}));
"""

_engine: MiniRacer | None = None
_rendered: dict[tuple[str, bool], tuple[str, str]] = {}  # and why it could not be, of each


def render(tex: str, display: bool) -> str:
    """The formula as HTML with MathML inside; raises ValueError with KaTeX's reason."""
    render_all([(tex, display)])
    rendered, reason = _rendered[tex, display]
    if reason:
        raise ValueError(reason)
    return rendered


def render_all(formulas: list[tuple[str, bool]]) -> None:
    """Renders those that were not yet, in one call of the engine, which costs more than KaTeX."""
    global _engine
    wanted = [one for one in dict.fromkeys(formulas) if one not in _rendered]
    if not wanted:
        return
    if _engine is None:
        _engine = MiniRacer()
        _engine.eval(KATEX.read_text(encoding="utf-8"))
        _engine.eval(RENDER)
    answers = json.loads(str(_engine.eval(f"renderAll({json.dumps(wanted)})")))
    for one, (rendered, reason) in zip(wanted, answers, strict=True):
        whole = re.sub("<math.*?</math>", lambda math: repair(math[0]), rendered, flags=re.DOTALL)
        _rendered[one] = lighten(whole) if whole else "", reason


def repair(math: str) -> str:
    r"""KaTeX's MathML, where an index of ``\max`` alone is two, and the sign ``\bmod`` has parts.

    >>> repair(f'<math xmlns="{MATHML}"><msub><mi>n</mi><mi>max</mi><mo>\u2061</mo></msub></math>')
    '<math xmlns="http://www.w3.org/1998/Math/MathML"><msub><mi>n</mi><mi>max</mi></msub></math>'
    """
    root = ElementTree.fromstring(math)
    for tag in FIXED:
        for whole in root.iter(f"{{{MATHML}}}{tag}"):
            for child in list(whole):
                if child.text == APPLIED:
                    whole.remove(child)
    for sign in root.iter(f"{{{MATHML}}}mo"):
        sign.text = "".join(sign.itertext())
        sign[:] = []
    return ElementTree.tostring(root, encoding="unicode")


@atexit.register
def close() -> None:
    """Ends the engine, which otherwise now and then keeps the interpreter from ending."""
    global _engine
    if _engine is not None:
        _engine.close()
        _engine = None


def whole(output: str, page: Page, edition: Edition) -> str:
    render_all([_asked(match) for match in FORMULA.finditer(output)])

    def show(match: re.Match[str]) -> str:
        tex, display = _asked(match)
        try:
            rendered = render(tex, display)
        except ValueError as error:
            place = locate(page.path, tex.split("\n")[0])
            raise BookError(str(Problem(*place, f"formula {tex!r}: {error}"))) from None
        # A wide formula scrolls in its own box, which the keyboard must be able to reach.
        focus = ' tabindex="0"' if match["tag"] == "div" else ""
        formula = f'<div class="formula"{focus}>{rendered}</div>'
        if match["tag"] == "span":
            formula = rendered.replace('class="katex"', 'class="katex formula"', 1)
        formula = match["before"] + formula + match["after"]
        # Browsers would begin a line with the comma behind a formula.
        short = match["tag"] == "span" and _signs(rendered) <= SHORT
        return f'<span class="unbroken">{formula}</span>' if short else formula

    return FORMULA.sub(show, output)


def _asked(match: re.Match[str]) -> tuple[str, bool]:
    return html.unescape(match["tex"]).strip(), match["mode"] == "["


def _signs(rendered: str) -> int:
    """How many signs of a rendered formula are seen."""
    _, seen = rendered.split('<span class="katex-html" aria-hidden="true">')
    return len(re.sub(r"<[^>]*>|[\s\u200b]", "", html.unescape(seen)))
