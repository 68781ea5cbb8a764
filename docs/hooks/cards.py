"""Draws what is shown of a page where its link is shared, and the icon of the site on a telephone.

A card has the page's title and description, in the fonts and colours of the site. Its address
must be absolute, so cards are drawn only if pyproject.toml has that of the site. The icon is
drawn from the favicon, which is made of rectangles.
"""

from functools import cache
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

from address import project, read
from fontTools.ttLib import TTFont
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from PIL import Image, ImageColor, ImageDraw, ImageFont

SHARED = Path(__file__).parent.parent / "shared"
FAVICON = SHARED / "style" / "favicon.svg"
ICON, ICON_SIZE = "style/touch-icon.png", 180
WIDTH, HEIGHT, MARGIN = 1200, 630, 80  # what the networks ask for
PAPER, INK, QUIET = "#14466b", "#ffffff", "#c3d7e6"
SVG = "{http://www.w3.org/2000/svg}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, ICON, content=png(icon(ICON_SIZE))))
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    links = f'<link rel="apple-touch-icon" href="{get_relative_url(ICON, page.url)}">'
    if read(project()).site:
        name = address(page)
        path = Path(config.site_dir, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        title = str(page.meta.get("title") or page.title)
        told = str(page.meta.get("description") or config.site_description)
        path.write_bytes(png(card(title, told)))
        links += (
            f'<meta property="og:image" content="{config.site_url}{name}">'
            f'<meta property="og:image:width" content="{WIDTH}">'
            f'<meta property="og:image:height" content="{HEIGHT}">'
            '<meta name="twitter:card" content="summary_large_image">'
        )
    return output.replace("</head>", f"{links}</head>", 1)


def address(page: Page) -> str:
    """Where the card of a page stands, from the front page of its language."""
    return f"cards/{page.url.rstrip('/') or 'index'}.png"


def card(title: str, told: str) -> Image.Image:
    """The title as large as four lines of it allow, and below it what the page is about."""
    if missing := {sign for sign in title + told if ord(sign) not in _signs()}:
        raise PluginError(
            f"docs/hooks/cards.py: the site's font has no {', '.join(map(repr, sorted(missing)))}, "
            f"which title or description of {title!r} hold; write it in words"
        )
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    image.paste(icon(112), (MARGIN, MARGIN))
    draw = ImageDraw.Draw(image)
    draw.text((MARGIN + 140, MARGIN + 56), "attnref", INK, _font("bold", 44), anchor="lm")
    place = MARGIN + 168
    for size in (68, 56, 46):
        font = _font("bold", size)
        heading = lines(title, font)
        if len(heading) * size * 1.15 <= 240:
            break
    else:
        raise PluginError(f"docs/hooks/cards.py: {title!r} is too long for a card")
    for line in heading:
        draw.text((MARGIN, place), line, INK, font)
        place += round(size * 1.15)
    place += 24
    font = _font("regular", 32)
    rest = lines(told, font)
    fit = max(1, (HEIGHT - MARGIN // 2 - place) // 42)
    if len(rest) > fit:
        rest = [*rest[: fit - 1], f"{rest[fit - 1].rstrip(' .,;:')} …"]
    for line in rest:
        draw.text((MARGIN, place), line, QUIET, font)
        place += 42
    return image


def lines(text: str, font: ImageFont.FreeTypeFont) -> list[str]:
    """The text in as many lines as the card's width asks for."""
    found = [""]
    for word in text.split():
        longer = f"{found[-1]} {word}".strip()
        if found[-1] and font.getlength(longer) > WIDTH - 2 * MARGIN:
            found.append(word)
        else:
            found[-1] = longer
    return found


def icon(size: int) -> Image.Image:
    """The favicon as a square of so many pixels, without its round corners."""
    root = ElementTree.parse(FAVICON).getroot()
    side = float(root.attrib["viewBox"].split()[2])
    image = Image.new("RGB", (size, size))
    paper = image.copy()
    shapes: list[tuple[ElementTree.Element, str]] = [(root, "#000")]
    for element, colour in shapes:
        fill = element.get("fill", colour)
        shapes += [(child, fill) for child in element]
        if element.tag != f"{SVG}rect":
            continue
        x, y, width, height = (
            float(element.get(name, 0)) * size / side for name in ("x", "y", "width", "height")
        )
        paper.paste(ImageColor.getrgb(fill), (0, 0, size, size))
        mask = Image.new("L", image.size, 0)
        opaque = round(255 * float(element.get("opacity", 1)))
        ImageDraw.Draw(mask).rectangle((x, y, x + width, y + height), fill=opaque)
        image.paste(paper, mask=mask)
    return image


def png(image: Image.Image) -> bytes:
    """The file of an image: few colours make a small one."""
    with BytesIO() as file:
        image.quantize(64).save(file, "PNG", optimize=True)
        return file.getvalue()


@cache
def _signs() -> frozenset[int]:
    return frozenset(TTFont(SHARED / "fonts" / "sans-regular.woff2").getBestCmap())


@cache
def _font(weight: str, size: int) -> ImageFont.FreeTypeFont:
    font = TTFont(SHARED / "fonts" / f"sans-{weight}.woff2")
    font.flavor = None  # Pillow reads no woff2
    file = BytesIO()
    font.save(file)
    file.seek(0)
    return ImageFont.truetype(file, size)
