"""What the search of the site is given to find an error message by."""

import json

import pitfall_messages
import pytest
from bs4 import BeautifulSoup


@pytest.mark.parametrize("language", ["pt", "en"])
def test_the_search_index_holds_each_message_in_its_entry(site, language):
    index = json.loads((site / language / "search/search_index.json").read_text("utf-8"))
    texts = {
        entry["location"]: BeautifulSoup(entry["text"], "html.parser").get_text()
        for entry in index["docs"]
    }
    for place, message, _ in pitfall_messages.QUOTED:
        assert message in " ".join(texts[f"pitfalls/{place}"].split()), place
