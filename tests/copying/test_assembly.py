"""How a copy is put together, on small packages made for one case each."""

import doctest
import shutil
from textwrap import dedent
from types import ModuleType

import pytest

from attnref.copying import assembly
from attnref.copying.assembly import assemble
from attnref.copying.source import CopyError, Package


@pytest.fixture
def copied(tmp_path):
    """The copy of ``module.name`` from a package called house, given as its modules."""

    def copied(wanted, **modules):
        root = tmp_path / "house"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        for name, text in modules.items():
            path = root / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(dedent(text), encoding="utf-8")
        module, _, name = wanted.rpartition(".")
        return assemble(Package(root).source(module).definitions[name])

    return copied


def run(text):
    """The module that a text makes; its examples must run."""
    module = ModuleType("copied")
    exec(text, vars(module))
    failed, _ = doctest.testmod(module)
    assert failed == 0
    return module


def test_what_is_needed_and_nothing_else(copied):
    text = copied(
        "a.f",
        a="""
            from house import b
            from house.c import three as drei

            UNUSED = 1

            # What is added.
            ONE, TWO = 1, 2  # both

            def f():
                '''Six.'''
                return ONE + b.two() + drei()

            def unused():
                return UNUSED
        """,
        b="def two():\n    return _two\n\n_two = 2\n",
        c="import math\n\n# Not of three.\n\ndef three():\n    return 3\n",
    )
    assert run(text).f() == 6
    assert text == dedent(
        """\
        # From house.b.


        def two():
            return _two


        _two = 2

        # From house.c.


        def three():
            return 3


        # From house.a.

        # What is added.
        ONE, TWO = 1, 2  # both


        def f():
            '''Six.'''
            return ONE + two() + three()
        """
    ).replace("'''", '"""')


def test_modules_come_after_those_that_they_need(copied):
    text = copied(
        "a.f",
        a="from house import b\n\ndef f(x=b.B):\n    return x\n",
        b="from house import z\n\nB = z.Z + 1\n",
        z="Z = 1\n",
    )
    assert run(text).f() == 2


def test_an_example_may_need_a_module_that_needs_its_own(copied):
    text = copied(
        "b.f",
        a="from house.b import f\n\ng = f\n",
        b="""
            def f():
                \"""One.

                >>> from house import a
                >>> a.g()
                1
                \"""
                return 1
        """,
    )
    assert run(text).g() == 1


def test_imports_are_merged(copied):
    text = copied(
        "a.f",
        a="""
            import os.path
            import math as m
            from typing import Any
            import torch
            from torch import nn

            from house.b import g

            def f(x: Any):
                return os.path, m.pi, torch.tensor, nn.Linear, g
        """,
        b="import torch\nfrom torch import Tensor\nfrom typing import Literal\n"
        "def g(x: Tensor, y: Literal['x']):\n    return torch.nn\n",
    )
    assert text.startswith(
        "import math as m\nimport os.path\nfrom typing import Any, Literal\n\n"
        "import torch\nfrom torch import Tensor, nn\n\n"
    )


class TestNames:
    def test_two_of_one_name(self, copied):
        text = copied(
            "a.f",
            a="from house import b\n\ndef f():\n    return _one() + b.f()\n\n"
            "def _one():\n    return 1\n",
            b="def f():\n    return _one() + K + C.c\n\ndef _one():\n    return 10\n\n"
            "K = 100\n\nclass C:\n    c = 1000\n",
        )
        assert run(text).f() == 1111
        assert "return _one() + b_f()" in text
        assert "return _b_one() + K + C.c" in text

    def test_constants_and_classes_keep_their_manner(self, copied):
        text = copied(
            "a.f",
            a="from house.some_where import g\n\n_K = 1\n\nclass _C:\n    c = 2\n\n"
            "def f():\n    return _K, _C.c, g()\n",
            some_where='_K = 3\n\nclass _C:\n    c = 4\n\n    def me(self) -> "_C":\n'
            "        return self\n\ndef g():\n    return _K, _C().me().c\n",
        )
        assert run(text).f() == (1, 2, (3, 4))
        assert "return _SOME_WHERE_K, _SomeWhereC().me().c" in text
        assert 'def me(self) -> "_SomeWhereC":' in text

    def test_a_private_module_adds_no_second_underscore(self, copied):
        """Python reads a name with two in a class as one of that class."""
        text = copied(
            "a.f",
            a="from house._inner import C\n\n_K = 1\n\ndef f():\n    return _K + C().g()\n",
            _inner="_K = 2\n\nclass C:\n    def g(self):\n        return _K\n",
        )
        assert run(text).f() == 3
        assert "return _INNER_K" in text

    def test_a_variable_of_the_same_name(self, copied):
        text = copied(
            "a.f",
            a="from house import masks\n\ndef f(n):\n    causal = masks.causal(n)\n"
            "    return causal\n",
            masks="def causal(n):\n    return n + 1\n",
        )
        assert run(text).f(1) == 2
        assert "causal = masks_causal(n)" in text

    def test_a_name_that_a_folder_offers_has_that_of_the_folder(self, copied):
        modules = {
            "masks/__init__": "from house.masks.patterns import causal\n",
            "masks/patterns": "def causal(n):\n    return inner(n) + 1\n\ndef inner(n):\n"
            "    return n\n",
        }
        text = copied(
            "a.f",
            a="from house import masks\nfrom house.masks import patterns\n\ndef f(n):\n"
            "    inner = causal = masks.causal(n)\n    return causal + patterns.inner(inner)\n",
            **modules,
        )
        assert run(text).f(1) == 4
        assert "inner = causal = masks_causal(n)" in text
        assert "causal + patterns_inner(inner)" in text  # not offered by the folder

    def test_an_import_of_the_same_name(self, copied):
        text = copied(
            "a.f",
            a="from math import pi\n\nfrom house import b\n\ndef f():\n    return pi < b.pi\n",
            b="pi = 4\n",
        )
        assert run(text).f() is True
        assert "return pi < b_pi" in text

    def test_a_builtin_of_the_same_name(self, copied):
        text = copied(
            "a.f",
            a="from house import b\n\ndef f():\n    return sum([1, b.sum()])\n",
            b="def sum():\n    return 2\n",
        )
        assert run(text).f() == 3

    def test_no_name_is_free(self, copied):
        with pytest.raises(CopyError) as error:
            copied(
                "a.f",
                a="from house import b\n\ndef f():\n    return g, b_g, b.g\n\ng = 1\nb_g = 2\n",
                b="g = 4\n",
            )
        assert str(error.value) == (
            "house.a.f: expected a free name for house.b.g in one file, got g and b_g, which mean "
            "something else there. Rename one of them."
        )

    def test_what_is_copied_keeps_its_name(self, copied):
        with pytest.raises(CopyError) as error:
            copied(
                "a.pi",
                a="from house import b\n\ndef pi():\n    return b.f()\n",
                b="from math import pi\n\ndef f():\n    return pi\n",
            )
        assert str(error.value).startswith(
            "house.a.pi: expected a free name for house.a.pi in one file, got pi, which mean"
        )


class TestExamples:
    def test_they_are_written_for_the_copy(self, copied):
        text = copied(
            "a.f",
            a="""
                import house
                from house import b

                def f(x):
                    \"""The same.

                    >>> import house
                    >>> from house import b as c
                    >>> f(house.b.g(1)), f(b.g(
                    ...     c.g(1)))
                    (2, 3)
                    \"""
                    return x
            """,
            b="def g(x):\n    return x + 1\n",
        )
        run(text)
        assert ">>> f(g(1)), f(g(" in text
        assert "import house" not in text

    def test_they_import_what_the_code_does_not(self, copied):
        text = copied(
            "a.f",
            a="""
                import math

                def f(x):
                    \"""The same.

                    >>> f(math.pi) == math.pi
                    True
                    \"""
                    return x

                def g():
                    return math
            """,
        )
        run(text)
        assert "    >>> import math\n    >>> f(math.pi)" in text
        assert "\nimport math" not in text

    def test_those_of_what_comes_along_may_be_left_out(self, copied):
        text = copied(
            "a.f",
            a="""
                def f():
                    return g(), h(), one()

                def g():
                    \"""Has an example of its own.

                    >>> g()
                    2
                    \"""
                    return 2

                def h():
                    \"""Has one that shows more.

                    It says so:

                    >>> not_copied()
                    >>> x = 3

                    Again:

                    >>> x
                    3
                    \"""
                    return 3

                def one():
                    \"""Has one line then.

                    >>> not_copied()
                    \"""
                    return 4

                def not_copied():
                    return 5
            """,
        )
        assert run(text).f() == (2, 3, 4)
        assert ">>> g()" in text
        assert (
            'def h():\n    """Has one that shows more.\n\n    It says so:\n\n    Again:\n    """\n'
        ) in text
        assert 'def one():\n    """Has one line then."""\n' in text
        assert "not_copied" not in text

    def test_names_of_their_own_hide_others(self, copied):
        text = copied(
            "a.f",
            a="""
                from house import b

                def f():
                    \"""One.

                    >>> g = b.g()
                    >>> g
                    1
                    \"""
            """,
            b="def g():\n    return 1\n",
        )
        run(text)
        assert ">>> g = b_g()" in text


def test_what_marks_sections_is_left_behind(copied):
    text = copied(
        "a.f",
        a="# --8<-- [start:f]\n# Why.\ndef f():\n    # --8<-- [start:part]\n    return 1\n"
        "    # --8<-- [end:part]\n\n# --8<-- [end:f]\n",
    )
    assert text == "# Why.\ndef f():\n    return 1\n"


def test_overloads_and_decorators_come_along(copied):
    text = copied(
        "a.f",
        a="""
            from typing import overload

            def twice(function):
                return lambda x: 2 * function(x)

            @overload
            def f(x: int) -> int: ...

            @overload
            def f(x: str) -> str: ...

            # Twice.
            @twice
            def f(x):
                return x
        """,
    )
    assert run(text).f(2) == 4
    assert text.count("@overload") == 2
    assert "# Twice.\n@twice\ndef f(x):" in text


def test_a_name_is_followed_to_where_it_is_defined(copied):
    text = copied(
        "c.f",
        __init__="from house.a import g\n",
        a="def g():\n    return 1\n",
        b="import house.a as a\n",
        c="import house.a\nfrom house import b, g\n\ndef f():\n"
        "    return house.g() + house.a.g() + g() + b.a.g()\n",
    )
    assert run(text).f() == 4
    assert "return g() + g() + g() + g()" in text


REFUSED = [
    (
        {"a": "import numpy\n\ndef f():\n    return numpy.pi\n"},
        "house.a.f: expected imports of torch and the standard library alone, for these a copy "
        "may need, got 'import numpy'. What needs more cannot be copied: install the package.",
    ),
    (
        {"a": "def f():\n    from numpy import pi\n    return pi\n"},
        "house.a.f: expected imports of torch and the standard library alone, for these a copy "
        "may need, got 'from numpy import pi'. What needs more cannot be copied: install the "
        "package.",
    ),
    (
        {"a": "def f():\n    from house.b import g\n    return g\n"},
        "house.a, line 2: expected house.a.f to import nothing of house within a function, got "
        "'from house.b import g'. Import it at the top of the module.",
    ),
    (
        {"a": "from house import b\n\ndef f():\n    return b\n", "b": ""},
        "b: expected a name of this module, for house.a.f is to be copied, got the module "
        "itself. Write what is needed of it.",
    ),
    (
        {"a": "from house import b\n\ndef f():\n    return b.c.d\n", "b": ""},
        "b.c.d: expected a function, class or constant of house, because house.a.f needs it, "
        "got none called c. Import it from the module that defines it.",
    ),
    (
        {"a": "def f():\n    return g\n"},
        "house.a: expected g, which house.a.f needs, to be defined or imported, got no such "
        "name. Define it there.",
    ),
    (
        {"a": "try:\n    g = 1\nexcept OSError:\n    g = 2\n\ndef f():\n    return g\n"},
        "house.a, line 1: expected g, which house.a.f needs, to be a definition or an import, "
        "got another statement that makes or changes it. Define it in one statement.",
    ),
    (
        {"a": "def f():\n    return g()\n\ndef g():\n    return g.x\n\ng.x = 1\n"},
        "house.a, line 7: expected g, which house.a.f needs, to be a definition or an import, "
        "got another statement that makes or changes it. Define it in one statement.",
    ),
    (
        {"a": "def f():\n    return 1\n\nf.x = 1\n"},
        "house.a, line 4: expected f, which house.a.f needs, to be a definition or an import, "
        "got another statement that makes or changes it. Define it in one statement.",
    ),
    (
        {"a": "g, h = 1, 2\ng = 3\n\ndef f():\n    return h, g\n"},
        "house.a, line 2: expected g, which house.a.f needs, to be a definition or an import, "
        "got another statement that makes or changes it. Define it in one statement.",
    ),
    (
        {
            "a": "from math import pi as x\n\nfrom house import b\n\ndef f():\n    return x, b.g\n",
            "b": "from math import e as x\n\ndef g():\n    return x\n",
        },
        "x: expected one meaning in all that is copied, got 'from math import e as x' in "
        "house.b.g and 'from math import pi as x' in house.a.f. Import one of them under "
        "another name.",
    ),
    (
        {
            "a": "from house import b\n\ndef f():\n    return pow, b.g\n",
            "b": "from math import pow\n\ndef g():\n    return pow\n",
        },
        "pow: expected one meaning in all that is copied, got 'from math import pow' in "
        "house.b.g and the builtin in house.a.f. Import one of them under another name.",
    ),
]


def test_what_cannot_stand_alone_is_refused(copied):
    for modules, message in REFUSED:
        with pytest.raises(CopyError) as error:
            copied("a.f", **modules)
        assert str(error.value) == message


def test_without_ruff_it_says_what_to_install(copied, monkeypatch):
    monkeypatch.setattr(assembly.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CopyError) as error:
        copied("a.f", a="def f():\n    return 1\n")
    assert str(error.value) == (
        "ruff: expected it to be installed, for it formats what is copied, got no such package. "
        "Run pip install '.[cli]' in a clone, or pip install './WHEEL[cli]' with the site's wheel."
    )
