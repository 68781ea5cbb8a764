"""What a page holds, and on which lines, as the passes see it."""

from book.page import Block, Heading, Link, blocks, headings, lines_outside_blocks, links

PAGE = r"""---
title: A page
---

# A page {#top}

- In a list:

    ```python title="x.py"
    # no heading
    ```

??? question "What [is](this.md)?"

    It [is](that.md#x), with `[code](code.md)`
    and ![a drawing](figure:name "What $a$ is").

    ## Inside {: #inside .wide }

    ~~~{.text}
    [no](link.md)
    ~~~

$$
a
= b [c](d)
$$

| [a](one.md) | <https://one.org> |
|---|---|
| `x` | [$a[i]$](two.md) |

    ```
    indented

## Last

```text
never closed
"""


def test_blocks_are_found_in_lists_and_admonitions_too():
    assert blocks(PAGE) == [
        Block("python", 9, 11, ("# no heading",)),
        Block("text", 20, 22, ("[no](link.md)",)),
        Block("indented", 33, 34, ("```", "indented")),
        Block("unclosed", 38, 39, ("never closed",)),
    ]


def test_headings_have_levels_ids_and_lines():
    assert headings(PAGE) == [
        Heading(1, "A page", "top", 5),
        Heading(2, "Inside", "inside", 18),
        Heading(2, "Last", None, 36),
    ]


def test_links_have_the_line_where_they_stand():
    assert links(PAGE) == [
        Link("this.md", False, 13),
        Link("that.md#x", False, 15),
        Link("figure:name", True, 16),
        Link("one.md", False, 29),
        Link("two.md", False, 31),
    ]


def test_lines_of_blocks_are_left_out():
    outside = dict(lines_outside_blocks(PAGE))
    assert not outside.keys() & {9, 10, 11, 20, 21, 22, 33, 34, 38, 39}
    assert len(outside) == PAGE.count("\n") + 1 - 10
    assert outside[36] == "## Last"
