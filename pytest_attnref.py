"""What pytest loads of attnref in every run: an option, and no more until it is given.

It stands beside the package, not in it, for to import anything of ``attnref`` imports PyTorch.
"""

import re

import pytest

PLUGIN = "attnref.conformance.plugin"
# What pytest prints of a property: my/file.py:attention::scale. A test has two colons everywhere.
_ID = re.compile(r"(?P<function>.*[^:]:[\w.]+)::(?P<property>\w+)")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The function to judge, and how."""
    group = parser.getgroup("attnref", "judge an attention function (attnref)")
    group.addoption(
        "--attention",
        metavar="MODULE:FUNCTION",
        help="whose properties to test, or pyproject.toml: of all functions that it names",
    )


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Loads the checker, which has the other options, for a function, or where help is wanted."""
    ours = ("--attention", "-h", "--help")
    if any(each.partition("=")[0] in ours or _ID.fullmatch(each) for each in args):
        early_config.pluginmanager.import_plugin(PLUGIN)


def pytest_configure(config: pytest.Config) -> None:
    """Takes properties by their ids; workers of xdist, which get no options, load the checker."""
    option = config.option
    for argument in list(config.args):
        found = _ID.fullmatch(argument)
        if found and found["function"] == (option.attention or found["function"]):
            option.attention = found["function"]
            option.attention_only = [*(option.attention_only or []), found["property"]]
            config.args.remove(argument)
    if option.attention:
        config.pluginmanager.import_plugin(PLUGIN)
