"""The command line in Portuguese: help, errors of usage and whatever ends with status 2."""

import json
import os
import subprocess
import sys

import pytest
import typer

from attnref import cli, usage
from tests.variants.every import every

# Says the help of each option and command, as JSON; the modules read the language when they load.
SAYS = """
import json, importlib, sys
import typer
from attnref.cli import COMMANDS
from attnref.conformance import command

def walk(name, one):
    help = {name: one.help, **{f"{name} {each.name}": each.help for each in one.params}}
    for inner, each in getattr(one, "commands", {}).items():
        help |= walk(f"{name} {inner}", each)
    return help

said = {}
for name, module in COMMANDS.items():
    found = getattr(importlib.import_module(module), name)
    app = found if isinstance(found, typer.Typer) else typer.Typer(add_completion=False)
    if app is not found:
        app.command()(found)
    said |= walk(name, typer.main.get_command(app))
json.dump(said, sys.stdout)
"""


def helps(locale):
    env = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "1"}
    ran = subprocess.run([sys.executable, "-c", SAYS], env=env, capture_output=True, check=True)
    said = json.loads(ran.stdout)
    return {name: help for name, help in said.items() if "completion" not in name}


def test_all_help_is_there_in_portuguese():
    english, portuguese = helps("C"), helps("pt_BR.UTF-8")
    assert len(english) > 50
    assert english.keys() == portuguese.keys()
    assert all(english.values())
    assert all(portuguese.values())
    assert [name for name in english if english[name] == portuguese[name]] == []


@pytest.fixture
def em_portugues(attnref, monkeypatch):
    """Runs the command where Portuguese is spoken."""
    monkeypatch.setenv("LC_ALL", "pt_BR.UTF-8")
    return attnref


@every("command", [(), ("-h",), ("check", "-h"), ("exercise", "start", "-h")])
def test_the_parsers_own_words_in_a_help_are_portuguese(em_portugues, command):
    status, out, err = em_portugues(*command)
    assert status == (0 if command else 2)
    text = out or err
    assert text.startswith(f"Uso: {' '.join(('attnref', *command[:-1]))}")
    for word in ("Opções:", "Mostra esta mensagem."):
        assert word in text
    for word in ("Usage", "Options:", "Commands:", "Arguments:", "COMMAND", "Show", "[default:"):
        assert word not in text


@every(
    ("command", "said"),
    [
        (["chek"], "Erro: Não há o comando 'chek'."),
        (["check", "--formt", "json"], "Erro: Não há a opção --formt"),
        (["exercise", "start"], "Erro: Falta o argumento 'name'."),
        (["check", "a:b", "--seed", "x"], "Erro: Valor inválido para '--seed': "),
        (["check", "a:b", "--limit", "x"], "Erro: Valor inválido para '--limit': "),
        (["check", "a:b", "--seed"], "Erro: A opção '--seed' pede um valor."),
        (["check", "a:b", "--strict=1"], "Erro: A opção '--strict' não recebe valor."),
        (["check", "a", "b", "c"], "Erro: Argumentos a mais: b c"),
        (["check", "none_such:f"], "attnref check: function: não foi possível"),
        (["check", "a:b", "--lang", "fr"], "attnref check: lang: 'fr' não é um valor"),
        (["copy"], "attnref copy: NAME: falta o método a copiar. attnref copy --list"),
        (["bench", "--n", "0"], "attnref bench: n deve ser"),
        (["bench", "--ranks", "0"], "attnref bench: ranks deve ser"),
        (["exercise", "list", "--lang", "fr"], "attnref exercise: lang: 'fr' não é um"),
    ],
)
def test_an_error_of_usage_is_portuguese(em_portugues, command, said):
    status, out, err = em_portugues(*command)
    assert (status, out.strip()) == (2, "")
    assert err.splitlines()[-1].startswith(said)
    for word in ("Usage", "Error", "expected", "Try", "option", "valid "):
        assert word not in err


def test_the_option_of_the_language_counts_before_the_locale(attnref, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    assert attnref("check", "--lang", "pt", "--help")[1].startswith("Uso: attnref check [OPÇÕES]")
    assert attnref("check", "--help")[1].startswith("Usage: attnref check [OPTIONS]")


@every(
    ("english", "portuguese"),
    [
        ("No such option: --foo", "Não há a opção --foo"),
        ("No such option: --foo Did you mean --for?", "Não há a opção --foo Seria --for?"),
        ("Invalid value for '--n': 'x' is not a valid integer.", None),
        ("Got unexpected extra arguments (b c)", "Argumentos a mais: b c"),
    ],
)
def test_older_parsers_are_understood_too(english, portuguese):
    said = "Valor inválido para '--n': 'x' não é um número inteiro."
    assert usage.translate(english, "pt") == (portuguese or said)


def test_what_breaks_is_told_in_portuguese(em_portugues, monkeypatch):
    def breaks() -> None:
        raise ZeroDivisionError

    module = type("module", (), {"odd": breaks, "other": breaks})
    monkeypatch.setattr(cli, "COMMANDS", {"odd": "odd_commands", "other": "odd_commands"})
    monkeypatch.setitem(sys.modules, "odd_commands", module)
    monkeypatch.setattr(module, "odd", staticmethod(breaks))
    status, _, err = em_portugues("odd")
    assert status == 2
    assert err.splitlines()[-1].startswith("attnref: isto não é um veredito:")


def test_it_knows_the_parsers_errors_by_their_class():
    assert issubclass(typer.BadParameter, usage._UsageError)
    assert usage._UsageError.__name__ == "UsageError"
