"""What pages say of the code of others is written down with its place: docs/named-code.yml.

The places themselves were read, and ``python -m book.make.named_code`` reads them again in clones.
Here it is compared what can be without them: rows, conditions and commits.
"""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from book.make import named_code
from book.make.named_code import LIST, addresses, places
from book.stage import citations

ROOT = Path(__file__).parent.parent.parent
LANGUAGES = ("en", "pt")
# A name that is not the same in both languages.
CALLED = {
    "Llama 1 a 3, Mistral, Qwen2, Phi-3": "Llama 1 to 3, Mistral, Qwen2, Phi-3",
    "logaritmo do comprimento": "log-length",
    "Qwen3-Next, nas camadas sem softmax": "Qwen3-Next, the layers without softmax",
}


def rows(page: Path) -> dict[tuple[str, str], tuple[str, list[str]]]:
    """By section and model, what a table with sources says, and the sources."""
    found, section = {}, ""
    for line in page.read_text(encoding="utf-8").split("\n"):
        if heading := re.match(r"## .*\{#([\w-]+)\}", line):
            section = heading[1]
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 3 and "[@" in cells[2]:
            name = CALLED.get(cells[0].strip(), cells[0].strip())
            found[section, name] = cells[1], citations.citation_keys(cells[2])
    return found


def paragraphs(page: Path, section: str) -> list[str]:
    """The lines of a section, in which a paragraph is one line, also in a box."""
    text = page.read_text(encoding="utf-8")
    parts = re.split(r"^## .*\{#([\w-]+)\}$", text, flags=re.MULTILINE)
    lines = dict(zip(parts[1::2], parts[2::2], strict=True))[section].split("\n")
    return [line.strip() for line in lines]


def problems(root: Path) -> list[str]:
    listed = yaml.safe_load((root / LIST).read_text(encoding="utf-8"))
    urls = addresses(root)
    found = []
    for page, sections in listed.items():
        entries = {(name, one["model"]): one for name, some in sections.items() for one in some}
        for language in LANGUAGES:
            said = rows(root / "docs" / language / f"{page}.md")
            tables = {section for section, _ in said}
            of_tables = {key for key in entries if key[0] in tables}
            for key in sorted(said.keys() ^ of_tables):
                found.append(f"{language}: {key} is not both on {page} and in {LIST}")
            for key in sorted(said.keys() & of_tables):
                text, sources = said[key]
                entry = entries[key]
                for place in entry.get("at", ()):
                    if place["source"] not in sources:
                        found.append(f"{language}: {key} does not cite {place['source']}")
                if "if" in entry and entry["says"][language] not in text:
                    found.append(f"{language}: {key} does not say {entry['says'][language]!r}")
            for key in sorted(entries.keys() - of_tables):
                said_there = entries[key]["says"][language]
                sources = {place["source"] for place in entries[key].get("at", ())}
                if not any(
                    said_there in line and sources <= set(citations.citation_keys(line))
                    for line in paragraphs(root / "docs" / language / f"{page}.md", key[0])
                ):
                    found.append(
                        f"{language}: no paragraph of {page} says and cites {said_there!r}"
                    )
        for key, entry in entries.items():
            if ("at" in entry) == ("unread" in entry):
                found.append(f"{key}: expected either places or why there is none")
            for place in entry.get("at", ()):
                url = urls.get(place["source"], "")
                if not re.match(r"https://github\.com/[^/]+/[^/]+/(blob|tree)/[0-9a-f]{7}/", url):
                    found.append(f"{key}: {place['source']} names no commit in the bibliography")
                if "line" not in place and "unseen" not in place:
                    found.append(f"{key}: a place without its line, and without the reason")
    return found


@pytest.fixture
def copy(tmp_path):
    listed = yaml.safe_load((ROOT / LIST).read_text(encoding="utf-8"))
    shown = [f"docs/{language}/{page}.md" for language in LANGUAGES for page in listed]
    for name in (LIST, "docs/references.bib", *shown):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def test_rows_on_named_code_have_their_place():
    assert problems(ROOT) == []


def test_there_are_places_to_compare():
    assert len(list(places(ROOT))) > 30


def test_what_disagrees_is_reported(copy):
    for name, was, now, says in (
        ("docs/en/scale/known-models.md", "| BERT |", "| BART |", "'BART'"),
        ("docs/pt/scale/known-models.md", "em toda posição, se", "se", "DeepSeek-V3"),
        ("docs/en/scale/known-models.md", "function, the default;", "function;", "Whisper"),
        ("docs/pt/scale/known-models.md", "[@whisper-code]", "[@gemma-code]", "whisper-code"),
        ("docs/en/foundations/dropout.md", "drops a tenth of", "drops a fifth of", "drops a tenth"),
        ("docs/pt/foundations/mask-traps.md", "[@bert-code]", "[@devlin2018]", "-10000"),
        ("docs/references.bib", "whisper/blob/c0d2f62", "whisper/blob/main", "whisper-code"),
        (LIST, "      unread: 'a paper; equation", "      why: 'a paper; equation", "log-length"),
    ):
        text = (copy / name).read_text(encoding="utf-8")
        assert was in text
        (copy / name).write_text(text.replace(was, now), encoding="utf-8")
        found = problems(copy)
        assert found, now
        assert all(says in one or "BERT" in one for one in found)
        (copy / name).write_text(text, encoding="utf-8")


def test_a_piece_that_a_commit_does_not_hold_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(named_code, "line_at", lambda *place: "something else")
    place = next(iter(places(ROOT)))
    assert "something else" in str(named_code.problem(place, tmp_path))
    monkeypatch.setattr(named_code, "line_at", lambda *place_: f"  {place.piece},")
    assert named_code.problem(place, tmp_path) is None
    monkeypatch.setattr(named_code, "line_at", lambda *place: None)
    assert "no clone" in str(named_code.problem(place, tmp_path))
