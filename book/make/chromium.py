"""The Chromium of this machine, for the tests and for the book."""

import os
import shutil

PATH = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
MISSING = (
    "no Chromium found: install one (Debian: apt install chromium), or set CHROMIUM to its path"
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
