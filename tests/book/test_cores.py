"""The package's code on a page: cut out by name, numbered at its lines, and never out of step."""

import pytest

from book.finish import lines
from book.stage import bodies, cores

SOURCE = '''\
"""A module."""

STEP = 3  # keys


@decorated
def double(x):
    """Twice x.

    What one would not guess: it is 2 x.
    """
    y = x + x  # (n, m)
    return _checked(y)


def _checked(y):
    return _again(y)


def _again(y):
    return y


class Box:
    """One line."""

    def open(self):
        """Opens it, as :func:`~box.double` does."""
        return double(STEP)
'''
PAGE = """\
Before.

```python
--8<-- "attnref/box.py:{name}"
```

1. `y = x`: the sum, $2x$,

    with a second paragraph.
2. `return`: and out.

After.
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "attnref").mkdir()
    (tmp_path / "attnref" / "box.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


class TestADefinition:
    def test_is_cut_out_by_its_name_with_a_short_docstring(self, root):
        shown = {
            "STEP": "STEP = 3  # keys",
            "_again": "def _again(y):\n    return y",
            "Box.open": 'def open(self):\n    """Opens it, as box.double does."""\n'
            "    return double(STEP)",
            "double": '@decorated\ndef double(x):\n    """Twice x."""\n'
            "    y = x + x  # (n, m)\n    return _checked(y)",
        }
        assert {name: bodies.source(root / "attnref/box.py", name) for name in shown} == shown

    def test_that_there_is_not_is_told_with_those_that_there_are(self, root):
        with pytest.raises(bodies.DefinitionError, match=r"no 'shut' in 'Box.shut'.*open"):
            bodies.source(root / "attnref/box.py", "Box.shut")

    def test_reaches_what_is_behind_it_but_nothing_public(self):
        behind = bodies.dependencies(SOURCE, "double", ["double", "Box"])
        assert behind == {"double", "_checked", "_again"}
        assert bodies.dependencies(SOURCE, "Box", ["double", "Box"]) == {"Box", "STEP"}


class TestNotes:
    def test_belong_to_lines(self, root):
        (core,) = cores.cores(PAGE.format(name="double"), root)
        assert core.names == [("attnref/box.py", "double")]
        assert core.notes == [(7, "y = x"), (10, "return")]
        assert [core.line_of(note) for _, note in core.notes] == [[4], [5]]
        assert core.end == 10

    def test_end_where_the_list_ends(self, root):
        text = PAGE.format(name="double").replace("2. `return`: and out.\n\n", "")
        (core,) = cores.cores(text, root)
        assert len(core.notes) == 1
        assert core.end == 9

    def test_number_their_lines_in_the_margin(self):
        html = '<div class="x" data-notes="2 3"><pre><code>a\n<b>b</b>\nc</code></pre></div>'
        first, second, third = lines.content(html, None, None).split("\n")
        assert "note" not in first.partition("<code>")[2]
        assert second.startswith('<span class="note" data-note="1"')
        assert third.startswith('<span class="note" data-note="2"')

    def test_out_of_step_are_found(self, root):
        (root / "attnref" / "other.py").write_text(SOURCE, encoding="utf-8")
        other = ':double"\n--8<-- "attnref/other.py:_again"\n'
        for old, new, message in (
            ("`y = x`", "The sum", "a note begins with code of the line"),
            ("`y = x`", "`y = z`", "`y = z` is in 0 lines"),
            ("`y = x`", "`x`", "`x` is in 3 lines"),
            ("`y = x`", "`y`", "`y` is in 2 lines"),
            ("`return`", "`def`", "`def` is above the line of the note before"),
            (':double"\n', other, "code of one file"),
        ):
            text = PAGE.format(name="double").replace(old, new, 1)
            assert message in cores.problems(root / "page.md", text, root)[0].message

    def test_in_step_are_no_problem(self, root):
        assert cores.problems(root / "page.md", PAGE.format(name="double"), root) == []

    def test_of_a_snippet_are_a_list_like_others(self, root):
        text = PAGE.format(name="double").replace("attnref/box.py:double", "snippets/x.py:y")
        assert list(cores.cores(text, root)) == []
