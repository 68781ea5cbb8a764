"""A record survives its file, and knows when it is stale."""

import json

import pytest

from attnref.bench.record import Record, Result, Skipped, entry, stale

RESULT = Result(
    task="dense",
    method="sdpa",
    n=7,
    query=[1, 2, 7, 3],
    key=[1, 2, 7, 3],
    median=0.25,
    lower=0.125,
    upper=0.5,
    samples=3,
    error=1e-7,
    peak_bytes=64,
    sdpa_backend="MATH",
)


def record(**code):
    return Record({"threads": 2}, {"heads": 2}, code, [RESULT], [Skipped("dense", "a", None, "é")])


def test_it_comes_back_as_it_was(tmp_path):
    path = tmp_path / "record.json"
    saved = record(linear={"module": "m", "name": "n", "fingerprint": "f"})
    saved.save(path)
    assert Record.load(path) == saved
    text = path.read_text(encoding="utf-8")
    assert text.endswith("}\n")
    assert "é" in text
    assert json.loads(text)["results"][0]["peak_bytes"] == 64


def test_tasks_are_in_the_order_of_measurement():
    assert record().tasks() == ["dense"]


@pytest.mark.claim("record-knows-changed-code")
def test_it_is_stale_when_code_has_changed_or_is_gone():
    module, name = "attnref.variants.linear", "linear_attention"
    fresh = entry(module, name, ["kv_cache"])
    kept = record(
        fresh=fresh,
        recalled={**fresh, "called": ["linear"]},
        changed={**fresh, "fingerprint": "0" * 16},
        renamed={**fresh, "name": "former_attention"},
        removed={**fresh, "module": "attnref.variants.former"},
    )
    assert stale(kept) == ["recalled", "changed", "renamed", "removed"]
    assert stale(record(fresh=fresh)) == []
