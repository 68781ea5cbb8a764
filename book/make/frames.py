"""How many frames a second each explorer shows while it is dragged, on a slow processor.

    python -m book.make.frames [NAME …]

Whatever can be dragged, sliders and handles, is moved to and fro, once a frame, while Chromium
slows the processor down four times. Printed are the frames in a second, and the share of those for
which a screen would have waited: half a frame longer than one.
"""

import statistics
import sys
import threading
from collections.abc import Iterator

from playwright.sync_api import Locator, Page, sync_playwright

from book.make import chromium, serve
from book.page import ROOT
from book.stage import explorers

DOCS = ROOT / "docs" / "en"
SLOWED, MOVES = 4, 120
FRAME = 1000 / 60  # milliseconds
HANDLES = "input[type=range], [data-drag]"
AWAKE = "name => !('asleep' in document.getElementById(`explorer-${name}`).dataset)"
# Moves the pointer from within, once a frame, as a hand would, and notes when each frame begins.
DRAG = """(node, [moves, wide]) => new Promise(done => {
  const box = node.getBoundingClientRect(), times = []
  const x = box.left + box.width / 2, y = box.top + box.height / 2, slider = node.type === "range"
  const point = (name, dx) => node.dispatchEvent(new PointerEvent(name, {
    bubbles: true, cancelable: true, pointerId: 1, isPrimary: true, buttons: 1,
    clientX: x + dx, clientY: y + dx / 3}))
  const slide = part => {
    const low = Number(node.min), high = Number(node.max), step = Number(node.step) || 1
    node.value = String(low + Math.round(part * (high - low) / step) * step)
    node.dispatchEvent(new InputEvent("input", {bubbles: true}))
  }
  node.setPointerCapture = node.releasePointerCapture = () => {}
  node.hasPointerCapture = () => true
  point("pointerdown", 0)
  const frame = time => {
    times.push(time)
    const part = Math.sin(times.length / 9)
    if (slider) slide((1 + part) / 2); else point("pointermove", wide * part)
    if (times.length < moves) return requestAnimationFrame(frame)
    point("pointerup", 0)
    done(times.slice(1).map((time, place) => time - times[place]))
  }
  requestAnimationFrame(frame)
})"""


def measure_frames(page: Page, name: str) -> Iterator[tuple[str, list[float]]]:
    """What can be dragged, and the times between frames while it is."""
    page.locator(f"#explorer-{name}").scroll_into_view_if_needed()
    page.wait_for_function(AWAKE, arg=name)
    handles = page.locator(f"#explorer-{name} :is({HANDLES})")
    for handle in handles.all():
        if handle.is_visible():
            yield handle_name(handle), handle.evaluate(DRAG, [MOVES, 30])


def handle_name(handle: Locator) -> str:
    label = "node => node.getAttribute('aria-label') ?? node.labels?.[0]?.innerText ?? node.name"
    return str(handle.evaluate(label) or "")


def main(names: list[str]) -> None:
    pages = {name: page for (name, small), page in explorers.places(DOCS).items() if not small}
    if unknown := set(names) - set(pages):
        sys.exit(f"attnref: no explorer {', '.join(unknown)}; there are {', '.join(pages)}.")
    if chromium.PATH is None:
        sys.exit(f"attnref: {chromium.MISSING}")
    with serve.server(serve.SITE, 0) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium.PATH, args=chromium.FLAGS)
        for name in names or list(pages):
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{server.server_port}/en/{pages[name]}")
            page.context.new_cdp_session(page).send(
                "Emulation.setCPUThrottlingRate", {"rate": SLOWED}
            )
            for handle, times in measure_frames(page, name):
                late = sum(time > 1.5 * FRAME for time in times) / len(times)
                print(
                    f"{name:12} {handle[:40]:40} {1000 / statistics.mean(times):5.1f} frames/s, "
                    f"{late:4.0%} late",
                    flush=True,
                )
            page.close()
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
