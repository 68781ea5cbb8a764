"""Lets a search without accents find words with them: "atencao" finds "atenção".

Each entry of the search index gets one more field, ``plain``, that holds its accented words
without their accents; mkdocs.yml declares the field to the search.
"""

import json
import re
from pathlib import Path

from pages import without_accents

WORD = re.compile(r"\w+")
TAG = re.compile(r"<[^>]*>")


def plain_words(text: str) -> str:
    """The words of ``text`` that carry accents, without them, each once."""
    words = dict.fromkeys(WORD.findall(TAG.sub(" ", text).lower()))
    return " ".join(plain for word in words if (plain := without_accents(word)) != word)


def on_post_build(config) -> None:
    path = Path(config.site_dir, "search", "search_index.json")
    index = json.loads(path.read_text(encoding="utf-8"))
    for entry in index["docs"]:
        entry["plain"] = plain_words(f"{entry['title']} {entry['text']}")
    path.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")
