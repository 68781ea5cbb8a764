"""The numbers of the home page are those of the book."""

import re
from pathlib import Path

import pytest

from attnref.conformance import PROPERTIES
from attnref.exercises.exercise import all_exercises
from book.stage import claims


@pytest.mark.parametrize("language", ["pt", "en"])
def test_the_numbers_are_counted(site, language):
    html = (site / language / "index.html").read_text(encoding="utf-8")
    found = [int(number) for number in re.findall(r"<li><strong>(\d+)</strong>", html)]
    pages, stated, programs, *rest = found
    assert pages == len(list((site / language).rglob("index.html")))
    entries = [
        page.read_text(encoding="utf-8").count('class="claim-entry"')
        for page in (site / language / "reference/claims").rglob("index.html")
    ]
    assert stated == len(claims.tests_by_claim(claims.ROOT)) == sum(entries)
    folder = site / language / "source" / "snippets"
    printing = [
        path
        for path in folder.rglob("*.py")
        if (claims.ROOT / "snippets" / path.relative_to(folder)).with_suffix(".out").exists()
    ]
    assert programs == len(printing)
    assert rest == [len(PROPERTIES), len(all_exercises())]
    assert f" {len(PROPERTIES)} " in re.sub(r"<[^>]*>", "", html.partition('class="doors"')[2])


def test_each_page_is_listed_for_programs(site):
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    for language in ("pt", "en"):
        own = (site / language / "llms.txt").read_text(encoding="utf-8")
        assert own in listed
        pages = {
            path.parent.relative_to(site / language)
            for path in (site / language).rglob("index.html")
        }
        assert {
            Path(address) for address in re.findall(r"^- \[[^]]*\]\(([^)]*)\)", own, re.M)
        } == pages
