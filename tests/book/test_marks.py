"""Marked lines: each quoted from one line of its program, and never out of step."""

import pytest

from book.finish import lines
from book.stage import marks

SNIPPET = """\
# --8<-- [start:all]
# --8<-- [start:example]
    scores = query @ key.mT / root
    # --8<-- [start:inner]
    weights = softmax(scores)
    # --8<-- [end:inner]
    print(weights @ value)
# --8<-- [end:example]
print(weights)
# --8<-- [end:all]
"""
PACKAGE = '''\
def double(x):
    """Twice x."""
    y = x + x
    return y
'''
PAGE = """\
- In a list:

    ```python title="snippets/room/page/name.py"
    --8<-- "snippets/room/page/name.py:example"
    mark `/ root`
    mark `weights @`
    ```

```python
--8<-- "attnref/box.py:double"
mark `x + x`
```
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name, text in {"snippets/room/page/name.py": SNIPPET, "attnref/box.py": PACKAGE}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(marks, "ROOT", tmp_path)
    return tmp_path


def test_are_taken_out_of_the_block_and_kept_as_lines_of_its_code(root):
    assert marks.stage(PAGE, None, None).split("\n") == [
        "- In a list:",
        "",
        '    ``` { .python title="snippets/room/page/name.py" data-marks="1 3" }',
        '    --8<-- "snippets/room/page/name.py:example"',
        "    ```",
        "",
        '``` { .python data-marks="3" }',
        '--8<-- "attnref/box.py:double"',
        "```",
        "",
    ]


def test_join_the_notes_of_a_core(root):
    noted = PAGE.replace("```python\n", '``` { .python title="x.py" data-notes="1" }\n')
    shown = marks.stage(noted, None, None)
    assert '``` { .python title="x.py" data-notes="1" data-marks="3" }' in shown


def test_leave_other_blocks_as_they_are(root):
    text = "```text\nmark `x`\n```\n\n```python\nx\n```\n"
    assert marks.stage(text, None, None) == text


def test_are_elements_of_their_lines():
    html = '<div class="x" data-marks="2"><pre><code>a\n<b>b</b>\nc</code></pre></div>'
    assert "<code>a\n<mark><b>b</b></mark>\nc</code>" in lines.content(html, None, None)


def test_out_of_step_are_found_where_they_stand(root):
    for old, new, line, message in (
        ("`/ root`", "`* root`", 5, "mark `* root` is in 0 lines of this block; expected one: quo"),
        ("`/ root`", "`scores`", 5, "mark `scores` is in 2 lines of this block"),
        ("`/ root`", "`print(weights)`", 5, "mark `print(weights)` is in 0 lines"),  # outside
        ("`/ root`", "`[start:inner]`", 5, "mark `[start:inner]` is in 0 lines"),
        ("`weights @`", "`query @`", 6, "mark `query @` is not below the line of the mark before"),
        ("`x + x`", "`x * x`", 11, "mark `x * x` is in 0 lines"),
    ):
        (problem,) = marks.problems(root / "page.md", PAGE.replace(old, new), root)
        assert problem.line == line
        assert message in problem.message


def test_of_a_line_that_has_changed_in_the_program_are_found(root):
    path = root / "snippets/room/page/name.py"
    assert marks.problems(root / "page.md", PAGE, root) == []
    path.write_text(SNIPPET.replace("/ root", "* root"), encoding="utf-8")
    (problem,) = marks.problems(root / "page.md", PAGE, root)
    assert problem.line == 5
    assert problem.message.startswith("mark `/ root` is in 0 lines")


def test_of_a_broken_include_are_left_to_those_who_report_it(root):
    assert marks.problems(root / "page.md", PAGE.replace(":example", ":nowhere"), root) == []
