"""A fingerprint changes with the code that a method reaches, and with nothing else."""

import itertools

import pytest

from attnref.bench import fingerprint as module
from attnref.bench.fingerprint import fingerprint

HELPERS = '''"""Helpers."""

LIMIT: int = 3


def used(x):
    return x + LIMIT


def unused(x):
    return x
'''
METHOD = '''"""A method."""

from math import pi

from toy import checks, helpers
from toy.helpers import used as renamed
from toy.other import Thing

_BLOCK = _WIDTH = 64


def method(x: Thing) -> int:
    """What it does."""
    checks.check_size(x)
    return renamed(x) + _BLOCK + helpers.LIMIT + pi


class Sibling:
    """Not reached."""
'''
CHECKS = """def check_size(x):
    if x > 3:
        raise ValueError
"""
OTHER = '''class Thing:
    """A thing."""

    size = 1
'''


def forget():
    for kept in vars(module).values():
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()


@pytest.fixture
def digest(tmp_path, monkeypatch):
    """Fingerprint of ``method`` in a package of these files; any may be replaced."""
    numbers = itertools.count()

    def digest(*, name="method", **files):
        place = tmp_path / str(next(numbers))
        package = place / "toy"
        package.mkdir(parents=True)
        texts = {"__init__": "", "helpers": HELPERS, "method": METHOD, "other": OTHER}
        texts |= {"checks": CHECKS} | files
        for stem, text in texts.items():
            (package / f"{stem}.py").write_text(text, encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(place)
            patch.setattr(module, "_PACKAGE", "toy")
            forget()
            try:
                return fingerprint(("toy.method", name))
            finally:
                forget()

    return digest


def test_it_has_16_hexadecimal_digits_and_repeats(digest):
    assert int(digest(), 16) < 16**16
    assert len(digest()) == 16
    assert digest() == digest()


UNREACHED = {
    "docstring": {"method": METHOD.replace("What it does", "Another sentence")},
    "comment": {"method": METHOD.replace("    return", "    # why\n    return")},
    "layout": {"method": METHOD.replace("x: Thing", "x:   Thing")},
    "sibling": {"method": METHOD.replace("Not reached", "Never")},
    "sibling's code": {"method": METHOD.replace('    """Not reached."""', "    size = 2")},
    "unused": {"helpers": HELPERS.replace("return x\n", "return -x\n")},
    "class": {"other": OTHER.replace("A thing", "The thing")},
    "file": {"helpers": "from toy.elsewhere import LIMIT, used\n", "elsewhere": HELPERS},
    "check": {"checks": CHECKS.replace("3", "4")},
    "its call": {"method": METHOD.replace("    checks.check_size(x)\n", "")},
}


def test_what_does_not_run_does_not_count(digest):
    before = digest()
    assert [what for what, changes in UNREACHED.items() if digest(**changes) != before] == []


@pytest.mark.claim("record-knows-changed-code")
def test_what_is_reached_counts(digest):
    moved = HELPERS.replace("x + LIMIT", "x - LIMIT")
    reached = {
        "own code": {"method": METHOD.replace("helpers.LIMIT +", "helpers.LIMIT -")},
        "own constant": {"method": METHOD.replace("= 64", "= 128")},
        "helper": {"helpers": moved},
        "its constant": {"helpers": HELPERS.replace("= 3", "= 4")},
        "annotated class": {"other": OTHER.replace("size = 1", "size = 2")},
        "elsewhere": {"helpers": "from toy.elsewhere import LIMIT, used\n", "elsewhere": moved},
    }
    before = digest()
    assert [what for what, changes in reached.items() if digest(**changes) == before] == []


def test_a_default_of_none_is_not_one_left_out(digest):
    function = "def method(x{}):\n    return x\n"
    one, other = (digest(method=function.format(rest)) for rest in (", y=None", ", y"))
    assert one != other


def test_a_docstring_is_no_body(digest):
    with_docstring = 'def method(x):\n    """Only words."""\n    return x\n'
    assert digest(method=with_docstring) == digest(method="def method(x):\n    return x\n")


def test_what_an_error_says_does_not_count_but_when_it_comes_does(digest):
    method = 'def method(x):\n    if x > 3:\n        raise ValueError(f"{x} is large.")\n'
    assert digest(method=method) == digest(method=method.replace("is large", "is too large"))
    assert digest(method=method) == digest(method=method.replace('f"{x} is large."', '"Large."'))
    assert digest(method=method) != digest(method=method.replace("x > 3", "x > 4"))
    assert digest(method=method) != digest(method=method.replace("ValueError", "TypeError"))


def test_overloads_count_together(digest):
    two = "def method(x: int): ...\ndef method(x):\n    return x\n"
    assert digest(method=two) != digest(method="def method(x):\n    return x\n")


def test_an_unknown_name_is_an_error(digest):
    with pytest.raises(ValueError, match=r"^name: expected one that toy\.method defines, got 'x'"):
        digest(name="x")


def test_an_unknown_module_is_an_error():
    message = r"^module: expected one with a file, got 'attnref\.nowhere'\.$"
    with pytest.raises(ModuleNotFoundError, match=message):
        fingerprint(("attnref.nowhere", "x"))


def test_it_reaches_the_real_package():
    method, caller = (("attnref.variants.lsh", name) for name in ("lsh_attention", "_rounds"))
    assert len(fingerprint(method)) == 16
    assert fingerprint(method) != fingerprint(method, caller)
