"""What pytest loads of attnref in every run: an option, and no more until it is given.

It stands beside the package, not in it, for to import anything of ``attnref`` imports PyTorch.
"""

import re

import pytest

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
    group.addoption("--attention-supports", metavar="NAMES", help="options that it takes")
    group.addoption("--attention-dtype", help="default: float32, or the half that it takes")
    group.addoption("--attention-device", help="default: cpu")
    group.addoption("--attention-seed", type=int, help="default: 0")
    group.addoption("--attention-limit", type=float, help="seconds; default: 10")
    group.addoption("--attention-map", metavar="OPTION=PARAMETER", help="its own names of options")
    group.addoption(
        "--attention-with",
        metavar="NAME=VALUE",
        action="append",
        help="what a layer needs beside widths and heads; may be repeated",
    )
    group.addoption("--attention-lang", help="default: that of the locale")
    group.addoption("--attention-strict", action="store_true", help="what is unsafe fails, too")


def pytest_configure(config: pytest.Config) -> None:
    """Loads the checker if there is something to check: a function, or properties by their ids."""
    option = config.option
    option.attention_only = getattr(option, "attention_only", None)  # set where xdist copied it
    for argument in list(config.args):
        found = _ID.fullmatch(argument)
        if found and found["function"] == (option.attention or found["function"]):
            option.attention = found["function"]
            option.attention_only = [*(option.attention_only or []), found["property"]]
            config.args.remove(argument)
    if option.attention:
        config.pluginmanager.import_plugin("attnref.conformance.plugin")
