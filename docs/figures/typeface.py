"""The site's own fonts, docs/shared, for matplotlib: what is drawn is measured as it is shown."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from fontTools.ttLib import TTFont
from matplotlib.font_manager import fontManager

SHARED = Path(__file__).parent.parent / "shared"
FAMILY = "attnref Sans"
FACES = sorted((SHARED / "fonts").glob("sans-*.woff2"))
# By the class of a text's part in a drawing: what is outside formulas has none.
FOUNTS = {
    "": SHARED / "fonts" / "sans-regular.woff2",
    "variable": SHARED / "math" / "fonts" / "KaTeX_Math-Italic.woff2",
    "roman": SHARED / "math" / "fonts" / "KaTeX_Main-Regular.woff2",
}


def register() -> None:
    """Makes the family known to matplotlib, which reads no woff2, once in a process."""
    if any(font.name == FAMILY for font in fontManager.ttflist):
        return
    folder = Path(tempfile.mkdtemp(prefix="attnref-fonts-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for face in FACES:
        font = TTFont(face)
        font.flavor = None
        font.save(folder / f"{face.stem}.ttf")
        fontManager.addfont(folder / f"{face.stem}.ttf")


@cache
def signs(kind: str) -> frozenset[str]:
    """What can be set in the fount of a class."""
    return frozenset(map(chr, TTFont(FOUNTS[kind]).getBestCmap()))
