"""What a copy says of itself: name, origin, page and licence."""

import textwrap

import attnref
from attnref.book import page_address
from attnref.copying.catalogue import Entry

# The file LICENSE, which the licence wants in every copy; an installed package may lack it.
LICENCE = """\
MIT License

Copyright (c) 2026 The attnref authors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""

_WIDTH = 98  # of a line, behind "# "


def header(entry: Entry) -> str:
    """Comments for the beginning of a copy; the same for the same version."""
    lines = [
        *textwrap.wrap(f"{entry.definition.names[0]}: {entry.summary}", _WIDTH),
        "",
        f"Copied from attnref {attnref.__version__}: {entry.path}",
        f"See {page_address(entry.page, 'en')}",
        "",
        *LICENCE.splitlines(),
    ]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)
