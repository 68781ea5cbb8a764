"""A record survives its file, and knows when it is stale."""

import json

import pytest

from attnref.bench.record import Record, Skipped, entry, stale_methods


@pytest.fixture
def record(result):
    def record(**code):
        skipped = [Skipped("dense", "a", None, "é")]
        return Record({"threads": 2}, {"heads": 2}, code, [result("sdpa", 7, 0.25)], skipped)

    return record


def test_it_comes_back_as_it_was(record, tmp_path):
    path = tmp_path / "record.json"
    saved = record(linear={"module": "m", "name": "n", "fingerprint": "f"})
    saved.save(path)
    assert Record.load(path) == saved
    text = path.read_text(encoding="utf-8")
    assert text.endswith("}\n")
    assert "é" in text
    assert json.loads(text)["results"][0]["peak_bytes"] == 1_500_000


def test_tasks_are_in_the_order_of_measurement(record):
    assert record().tasks() == ["dense"]


@pytest.mark.claim("record-knows-changed-code")
def test_it_is_stale_when_code_has_changed_or_is_gone(record):
    module, name = "attnref.variants.linear", "linear_attention"
    fresh = entry(module, name, ["kv_cache"])
    kept = record(
        fresh=fresh,
        recalled={**fresh, "called": ["linear"]},
        changed={**fresh, "fingerprint": "0" * 16},
        renamed={**fresh, "name": "former_attention"},
        removed={**fresh, "module": "attnref.variants.former"},
    )
    assert stale_methods(kept) == ["recalled", "changed", "renamed", "removed"]
    assert stale_methods(record(fresh=fresh)) == []
