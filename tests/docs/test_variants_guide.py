"""The guide to the variants leads to a page for each of them, or a reader never finds it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("language", ["pt", "en"])
def test_the_guide_leads_to_every_variant(language):
    guide = (ROOT / "docs" / language / "variants" / "index.md").read_text(encoding="utf-8")
    table = [line for line in guide.splitlines() if line.startswith("| ")]
    linked = re.findall(r"\[`(\w+)`\]\(([\w-]+\.md)\)", "\n".join(table))
    modules = {path.stem for path in (ROOT / "attnref" / "variants").glob("*.py")} - {"__init__"}
    assert {name for name, _ in linked} == modules, "give each variant a row with its page"
    for name, page in linked:
        assert page == name.replace("_", "-") + ".md"
        assert (ROOT / "docs" / language / "variants" / page).is_file()
