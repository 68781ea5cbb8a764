"""Makes the whole book in each language, from the site: two PDFs, and a zip that opens from a disk.

    python -m book.make.volumes

The site is built if it is not there, or not of the files as they are. What is made of it is
verified, and nothing is put into the folder when something is wrong with it. The site then offers
what is in dist.
"""

import argparse
import os
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from playwright.sync_api import sync_playwright

from book.make import chromium, disk, pdf, serve

BOOK = serve.ROOT / "dist"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=BOOK, help="where it is put")
    folder = parser.parse_args().folder.absolute()
    if chromium.PATH is None:
        sys.exit(f"attnref: {chromium.MISSING}")
    if not serve.is_current():
        serve.build(serve.SITE)
    try:
        with tempfile.TemporaryDirectory() as made:
            for path in make(serve.SITE, Path(made), seconds()):
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, folder)
                print(f"attnref: {folder / path.name} ({path.stat().st_size / 1e6:.1f} MB)")
    except ValueError as error:
        sys.exit(f"attnref: {error}")
    serve.offer(serve.SITE)


def make(site: Path, folder: Path, written: int) -> list[Path]:
    """The files of all languages, in ``folder``; two languages at a time.

    Raises:
        ValueError: where something is wrong with one.
    """
    with ProcessPoolExecutor(max_workers=2) as pool:
        made = pool.map(partial(_make, site, folder, written), serve.CONFIGURATION)
        return [path for paths in made for path in paths]


def _make(site: Path, folder: Path, written: int, language: str) -> list[Path]:
    made = [folder / f"attnref-{language}{kind}" for kind in (".zip", ".pdf", "-reference.pdf")]
    pages = disk.copy_for_disk(site, language, folder / language)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PATH, args=chromium.FLAGS)
        disk.verify(pages, browser)
        disk.pack(folder / language, made[0], written)
        for volume, path in enumerate(made[1:]):
            path.write_bytes(pdf.book(pages, volume, browser, written))
    return made


def seconds() -> int:
    """The time of what is made: that of the commit; without one, the first that a zip can tell."""
    known = {"SOURCE_DATE_EPOCH": "315532800", **serve.commit_time(), **os.environ}
    return int(known["SOURCE_DATE_EPOCH"])


if __name__ == "__main__":
    main()
