"""Leaves out of the site what no page shows: of the theme's styles, of marks in code, of scripts.

The theme's style sheets are for every site that could be made with it. A rule stays if its classes
are on a page, or if a script may put them there. One for a feature or for colours that this site
has not chosen, or for text from right to left, goes, and so does a variable not read. In code, a
name, a sign, a blank and what is written as a word in a sign's place need no mark of their own:
they have the colour of the code; and what follows something of its colour shares its mark. Where a
page holds very many marks, in the reference of the package, numbers go without, and types without
their modules.
Lines of a page begin without blanks, except in programs: the theme's templates indent each line.
Scripts and the site's own styles go without their comments, a quarter of them.

A few rules make a browser recalculate the style of the whole page when one element changes, as they
speak of any element below an attribute: here they name their element, or go where nothing on this
site needs them.
"""

import re
from pathlib import Path

from pygments.lexer import Lexer
from pygments.lexers import CssLexer, JavascriptLexer
from pygments.token import Comment

from book.edition import Edition
from book.page import BookError, Page

PLAIN = re.compile(
    r'<span class="(?:n|nn|o|ow|p|w|kc|sa|fm|vm)">'
    r"([^<]*|<(?:span|a)\b[^>]*>[^<]*</(?:span|a)>)</span>"
    r'|<span title="(\w+)">\2</span>'
)
NUMBER = re.compile(r'<span class="(?:mi|mf)">([^<]*)</span>')
TYPE = re.compile(r'<span title="[\w.]+">(\w+)</span>')
MARK = re.compile(r'<span class="[a-z][a-z\d]?">|<span title="')
MANY = 600
STRING = re.compile(r'<span class="(?:s1|si)">')  # in one colour with s2
ALIKE = re.compile(
    r'(<span class="([a-z][a-z\d]?)">)[^<]*</span>(?:\s*<span class="\2">[^<]*</span>)+'
)
TAG = re.compile(r"<[^>]*>")
AS_IT_IS = re.compile(r"(<(pre|script|textarea)\b.*?</\2>)", re.DOTALL)
INDENT = re.compile(r"\n\s+")
RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
LIST = re.compile(r",(?![^(]*\))")
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
NOT_OURS = re.compile(
    r"\[dir=rtl\]|\[data-md-color-(?:primary|accent)=(?!custom)"
    r"|\[data-md-color-switching\]|:not\(\[class\]\)\+\*"  # see above; a table is in its scroller
)
IN_A_CELL = re.compile(r"(?<=:not\(\[class\]\) t[dh]>)(?=:(?:first|last)-child)")
OPTIONAL = re.compile(r":(?:not|is|where)\([^()]*\)")
EMPTY = re.compile(r"@[^{}]*\{\}")
VARIABLE = re.compile(r"""(?<=[{;])(--[\w-]+):(?:"[^"]*"|[^;}"])*;?""")

AFTER = ("preload",)


def whole(output: str, page: Page, edition: Edition) -> str:
    output = STRING.sub('<span class="s2">', PLAIN.sub(r"\1\2", output))
    if len(MARK.findall(output)) > MANY:
        output = TYPE.sub(r"\1", NUMBER.sub(r"\1", output))
    output = ALIKE.sub(lambda all_: f"{all_[1]}{TAG.sub('', all_[0])}</span>", output)
    return flush(output)


def flush(page: str) -> str:
    """The page with its lines at the margin, and none empty, but for what is shown as it is.

    >>> flush("<p>\\n\\n   one\\n</p>  <pre>a\\n  b</pre>\\n  <p>")
    '<p>\\none\\n</p>  <pre>a\\n  b</pre>\\n<p>'
    """
    pieces = AS_IT_IS.split(page)  # a text, what is as it is, its element's name, a text, …
    pieces[::3] = [INDENT.sub("\n", text) for text in pieces[::3]]
    del pieces[2::3]
    return "".join(pieces)


def after(site: Path, edition: Edition) -> None:
    if edition.alone or edition.again:
        return  # what the other pages show is not known, or about to change
    sheets = {path: path.read_text("utf-8") for path in sorted(site.glob("assets/**/*.css"))}
    if not sheets:
        raise BookError("book/finish/slim.py: no style sheets of the theme in assets/")
    for path in (*site.glob("explorers/**/*.js"), *site.glob("style/*.js")):
        path.write_text(strip_comments(path.read_text("utf-8")), encoding="utf-8")
    for path in site.glob("style/*.css"):
        path.write_text(strip_comments(path.read_text("utf-8"), CssLexer), encoding="utf-8")
    known = classes(site)
    kept = {path: slim(css, known) for path, css in sheets.items()}
    own = "".join(path.read_text("utf-8") for path in site.rglob("*.css") if path not in sheets)
    everything = "".join(kept.values()) + own
    for path, css in kept.items():
        read = VARIABLE.sub(lambda one: one[0] if f"({one[1]}" in everything else "", css)
        path.write_text(EMPTY.sub("", read), encoding="utf-8")


def strip_comments(script: str, language: type[Lexer] = JavascriptLexer) -> str:
    """A script, or a style sheet, without its comments; every other character stays.

    >>> strip_comments("/** @type {A} */ (a) / 2 // half\\n`// ${`/* ${b /* in */} */`}`")
    ' (a) / 2 \\n`// ${`/* ${b } */`}`'
    >>> strip_comments('a { content: "/*"; top: 0 !important } /* b */', CssLexer)
    'a { content: "/*"; top: 0 !important } '
    """
    tokens = language(stripnl=False, ensurenl=False).get_tokens(script)
    # !important is what the lexer of styles calls Preproc.
    return "".join(x for kind, x in tokens if kind not in Comment or kind is Comment.Preproc)


def classes(site: Path) -> set[str]:
    """Those on the pages, and those that a script may put there."""
    found: set[str] = set()
    for path in site.rglob("*.html"):
        for names in re.findall(r'class="?([^">]*)', path.read_text("utf-8")):
            found |= set(names.split())
    for path in site.glob("style/*.js"):
        found |= set(re.findall(r"[A-Za-z_][\w-]*", path.read_text("utf-8")))
    return found


def slim(css: str, known: set[str]) -> str:
    """The style sheet without the selectors that nothing on the site can match.

    >>> slim(".a,.b .c{top:0}@media print{.c{top:0}}[dir=rtl] .a{left:0}", {"a", "b"})
    '.a{top:0}'
    >>> slim("table:not([class]) td>:last-child{margin:0}[data-md-color-switching] *{top:0}", set())
    'table:not([class]) td>p:last-child{margin:0}'
    """

    def can_match(selector: str) -> bool:
        names = CLASS.findall(OPTIONAL.sub("", selector))
        return not NOT_OURS.search(selector) and all(name in known for name in names)

    def show(rule: re.Match[str]) -> str:
        if rule[1].startswith("@"):
            return rule[0]
        selectors = [selector for selector in LIST.split(rule[1]) if can_match(selector)]
        return f"{','.join(selectors)}{{{rule[2]}}}" if selectors else ""

    css = css.replace(".focus-visible", ":focus-visible")  # for browsers before 2022
    return EMPTY.sub("", RULE.sub(show, IN_A_CELL.sub("p", css)))
