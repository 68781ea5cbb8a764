"""Sentences that promise more than they show are listed for a look, until their reason is given."""

from pathlib import Path

import pytest
import yaml

from book.make import sweeping

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def root(tmp_path):
    for folder in ("docs/en/scale", "docs/pt/scale"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / sweeping.ALLOWED).write_text("{}")
    return tmp_path


def listed(root, text, language="en", below=""):
    page = root / "docs" / language / "scale" / "a.md"
    page.write_text(text, encoding="utf-8")
    return sweeping.problems(root, below)


def test_a_sweeping_sentence_is_listed_with_its_line(root):
    for language, sentence in (
        ("en", "It never fails."),
        ("en", "Any factor does."),
        ("en", "It costs nothing."),
        ("en", "There is no loss at all."),
        ("en", "It holds however long the text is."),
        ("pt", "Ele nunca falha."),
        ("pt", "Qualquer fator serve."),
        ("pt", "Não custa nada."),
        ("pt", "Nenhum peso muda."),
        ("pt", "Vale seja qual for o texto."),
    ):
        text = f"---\ntitle: Never\n---\n\nOne. {sentence} Outra."
        (found,) = listed(root, text, language)
        assert found.line == 5
        assert found.message.endswith(f": {sentence}")
        listed(root, "", language)


def test_what_shows_for_it_or_is_no_sentence_is_not_listed(root):
    for text in (
        "It [never fails](claim:it-works).",
        "It never fails [@vaswani2017].",
        "It is never above $1$.",
        "It says `never`.",
        "## Never",
        "| never | any |",
        "```text\nnever\n```",
        "![It never falls](figure:one)",
        "Anyhow it is many.",
    ):
        assert listed(root, text) == [], text


def test_another_sentence_of_the_line_does_not_help(root):
    (found,) = listed(root, "It is $1$. It never fails. So [it works](claim:it-works).")
    assert found.message.endswith(": It never fails.")


def test_a_reason_takes_it_from_the_list_until_the_sentence_goes(root):
    reason = "scale/a:\n  - {en: It never, why: proved above}\n"
    (root / sweeping.ALLOWED).write_text(reason)
    assert listed(root, "It never fails.") == []
    (found,) = listed(root, "It seldom fails.")
    assert found.message == "scale/a: 'It never' is in no sweeping sentence of en; remove it"
    assert listed(root, "It never fails.", below="begin") == []


def test_each_reason_is_given_and_needed():
    entries = yaml.safe_load((ROOT / sweeping.ALLOWED).read_text(encoding="utf-8"))
    assert all(entry.get("why") for page in entries.values() for entry in page)
    unneeded = [one for one in sweeping.problems(ROOT) if one.path.name == "sweeping.yml"]
    assert unneeded == []
