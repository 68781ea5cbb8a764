"""Takes the preview of each explorer, which the first page of its room and links to it show.

It is what the built page shows at first, ``make site``; run this again when an explorer looks
different: ``python -m book.make.previews``.
"""

import sys
import threading
from io import BytesIO

from PIL import Image
from playwright.sync_api import FloatRect, sync_playwright

from book.make import chromium, serve
from book.make.frames import AWAKE, DOCS
from book.stage import explorers

WIDTH, HEIGHT = 800, 420
COLOURS = 32


def main() -> None:
    if chromium.PATH is None:
        sys.exit(f"attnref: {chromium.MISSING}")
    pages = {name: page for (name, small), page in explorers.places(DOCS).items() if not small}
    with serve.server(serve.SITE, 0) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium.PATH, args=chromium.FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, reduced_motion="reduce")
        for name, place in pages.items():
            page.goto(f"http://127.0.0.1:{server.server_port}/en/{place}")
            figure = page.locator(f"#explorer-{name}")
            figure.scroll_into_view_if_needed()
            page.wait_for_function(AWAKE, arg=name)
            drawing = figure.locator("svg, canvas").first.bounding_box() or {"x": 0, "y": 0}
            top = page.evaluate("scrollY") + drawing["y"] - 24
            clip = FloatRect(x=0, y=max(top, 0), width=WIDTH, height=HEIGHT)
            taken = Image.open(BytesIO(page.screenshot(clip=clip, full_page=True)))
            few = taken.convert("RGB").quantize(COLOURS)
            few.save(explorers.SCRIPTS / name / explorers.PREVIEW, optimize=True)
            print(f"attnref: {name}", flush=True)
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    main()
