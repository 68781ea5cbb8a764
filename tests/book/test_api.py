"""The reference of the package: whole, in both languages, and tied to the pages."""

import importlib
import inspect
import re
from pathlib import Path

import griffe
import pytest

import attnref
from book.edition import Edition
from book.page import BookError, Page
from book.stage import api, docstrings, names

ROOT = Path(__file__).parent.parent.parent
LANGUAGES = ("pt", "en")


@pytest.fixture(scope="module")
def package():
    """Read as text, as the build does."""
    return griffe.load("attnref", search_paths=[ROOT])


def texts(language):
    folder = ROOT / "docs" / language
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.md"))
    }


def test_public_is_what_a_module_says_is(package):
    """Found by importing, where the reference reads."""
    assert len(names.modules(package)) > 25
    for path, module in names.modules(package).items():
        imported = importlib.import_module(path)
        assert names.exports(module) == imported.__all__
        for name in imported.__all__:
            assert not name.startswith("_"), path
            thing = getattr(imported, name)
            listed = f"{path}.{name}" in names.entries(package)
            assert listed == (inspect.isclass(thing) or inspect.isfunction(thing)), name


def test_the_package_exports_what_has_an_entry(package):
    for name in attnref.__all__:
        assert names.resolve(f"attnref.{name}", package) in names.public_names(package), name


def test_no_name_is_only_that_of_its_module(package):
    """As roofline.roofline was; a class like decimal.Decimal is told apart by its capital."""
    assert not [path for path in names.entries(package) if len(set(path.split(".")[-2:])) == 1]


def test_every_variant_says_what_is_public(package):
    stems = {path.stem for path in (ROOT / "attnref/variants").glob("[!_]*.py")}
    assert {f"attnref.variants.{stem}" for stem in stems} <= names.modules(package).keys()


def test_every_entry_has_a_docstring_with_an_example_and_tests(package):
    for path, one in names.entries(package).items():
        assert "Examples:\n" in one.docstring.value, path
        assert ">>> " in one.docstring.value, path
        assert api.tests(path, one.path, ROOT), (
            f"{path}: expected tests/test_MODULE.py or tests/MODULE"
        )


def test_every_module_and_entry_has_a_sentence_in_portuguese(package):
    assert not api.sentence_problems(ROOT, package)


def test_every_module_is_on_a_page(package):
    for language in LANGUAGES:
        pages = texts(language)
        assert api.places(pages, package).keys() == names.modules(package).keys()
        asked = [match[0] for text in pages.values() for match in api.ASKED.finditer(text)]
        assert len(asked) == len(set(asked)), language


def test_every_entry_is_reached_from_a_page(package):
    """A page of the book speaks of it, or shows a snippet that uses it."""
    # Some types are only returned, and their functions lead to them.
    known = {path for path, one in names.entries(package).items() if not one.is_class}
    lost = {
        language: known - names.speaking(texts(language), ROOT, package).keys()
        for language in LANGUAGES
    }
    assert not any(lost.values()), f"no page names {lost}; write `masks.name` where it belongs"


def test_every_name_of_the_package_on_a_page_exists(package):
    found = [
        problem
        for language in LANGUAGES
        for page, text in texts(language).items()
        for problem in api.page_problems(ROOT / "docs" / language / page, text, package)
    ]
    assert not found, "\n".join(map(str, found))


# What is missing or broken is found.


def test_a_sentence_that_is_missing_or_too_many_is_found(package, tmp_path):
    (tmp_path / "docs").mkdir()
    text = (ROOT / api.SAID).read_text(encoding="utf-8")
    (tmp_path / api.SAID).write_text(text.replace("\nmasks.causal:", "\nmasks.casual:"), "utf-8")
    assert api.sentence_problems(tmp_path, package) == [
        "docs/api.pt.yml: masks.casual is not public",
        "docs/api.pt.yml: masks.causal: expected a sentence of it, got ''",
    ]


def test_tests_mirror_the_package(tmp_path):
    for path in ("test_scaling.py", "variants/test_lsh.py", "masks/test_patterns.py"):
        (tmp_path / "tests" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / path).touch()
    for path, defined, expected in (
        ("attnref.scaling.yarn", "attnref.scaling.yarn", ["tests/test_scaling.py"]),
        ("attnref.variants.lsh.f", "attnref.variants.lsh.f", ["tests/variants/test_lsh.py"]),
        ("attnref.masks.causal", "attnref.masks.patterns.causal", ["tests/masks/test_patterns.py"]),
        ("attnref.masks.mask.Mask", "attnref.masks.mask.Mask", ["tests/masks"]),
        ("attnref.softmax.merge", "attnref.softmax.merge", []),
    ):
        assert api.tests(path, defined, tmp_path) == expected


def test_variants_are_discovered(package):
    pages = {"a.md": "::: attnref.variants.lsh\n", "b.md": "# B\n\n::: attnref.variants.*\n"}
    found = api.places(pages, package)
    assert found["attnref.variants.lsh"] == "a.md"
    assert found["attnref.variants.linear"] == "b.md"
    assert len(found) == len(list((ROOT / "attnref/variants").glob("[!_]*.py")))


def test_a_page_has_all_names_of_its_modules(package):
    """A build that leaves the page as it is tells the engine of them."""
    shown = api.Reference(package, {"attnref.masks": "a.md", "attnref.oracle": "b.md"}, "en")
    assert {"attnref.masks", "attnref.masks.causal"} <= {*shown.names("a.md")}
    assert all(name.startswith("attnref.masks") for name in shown.names("a.md"))


def test_what_is_no_public_module_is_refused_where_it_stands(package):
    for asked in ("attnref.mask", "attnref.checks", "attnref.scaling.*"):
        (problem,) = api.page_problems(Path("a.md"), f"# A\n\n::: {asked}\n", package)
        assert problem.line == 3
        said = f"::: {asked}: expected one of attnref.cache, "
        assert problem.message.startswith(said)


def test_a_misspelt_name_stops_the_build_where_it_stands(package):
    for code, message in {
        "masks.causall": "there is no causall in attnref.masks; did you mean `masks.causal`?",
        "masks.causall(3)": "did you mean `masks.causal`?",
        "attnref.foo": "`attnref.foo`: there is no foo in attnref",
        "attnref.casual": "did you mean `attnref.masks.causal`?",
        "attnref.variants.lhs": "did you mean `attnref.variants.lsh`?",
        "roofline.Rofline": "did you mean `roofline.Roofline`?",  # a module and a function
        "Mask.dence": "did you mean `Mask.dense`?",
        "KVCache.apend(key, value)": "did you mean `KVCache.append`?",
        "conformance.chekc": "did you mean `conformance.check`?",
    }.items():
        text = f"# A {{#top}}\n\nWords, and `{code}`.\n\n```bash\n`{code}`\n```\n"
        (problem,) = api.page_problems(Path("a.md"), text, package)
        assert problem.line == 3
        assert message in problem.message


def test_what_is_not_ours_to_know_is_let_be(package):
    codes = (
        "masks.py",  # a file
        "attnref/masks/mask.py",
        "attnref.checks.check_mask",  # not public, but there
        "attnref copy causall",
        "mask.causall",  # a variable
        "nn.Module.forward",
        "MultiHeadAttention.state_dict",  # what PyTorch gives it
        "masks.causal(n).dence",  # of a value
        "oracle.np.zeros",
    )
    assert [code for code in codes if api.page_problems(Path("a.md"), f"`{code}`", package)] == []


NAMED = {
    "masks.causal": "masks.causal",
    "attnref.masks.causal": "masks.causal",
    "masks.causal(n, alignment='top-left')": "masks.causal",
    "causal(5)": "masks.causal",
    "causal": None,  # also a word, and a name of an argument
    "attention_weights": "reference.attention_weights",
    "KVCache": "cache.KVCache",
    "KVCache()": "cache.KVCache",
    "Mask.dense": "masks.mask.Mask.dense",
    "dense()": None,
    "causal(n) & padding(lengths, n)": None,  # two names, and one link
    "sliding_window": None,  # a mask, and a variant
    "masks.sliding_window": "masks.sliding_window",
    "attnref.variants.sliding_window": "variants.sliding_window",
    "score_statistics.measure": "score_statistics.measure",
    "attnref.cost": "cost",
    "cost": None,
    'cost.of("linear", sizes)': "cost.of",
    "nn.linear": None,
    "F.scaled_dot_product_attention": None,
    "scaled_dot_product_attention": None,  # PyTorch's, as far as one knows
    "attnref.scaled_dot_product_attention": "reference.scaled_dot_product_attention",
    "Attention": "reference.Attention",  # not the oracle's, which comes later
    "oracle.attend": "oracle.attend",
    "attnref.check": "conformance.checker.check",
    "attnref copy causal": None,
    "x": None,
}


def test_what_inline_code_names(package):
    expected = {code: path and f"attnref.{path}" for code, path in NAMED.items()}
    assert {code: names.resolve(code, package) for code in NAMED} == expected


def test_the_first_mention_in_a_section_becomes_a_link(package):
    text = "\n".join(
        [
            "## `masks.causal` {#a}",
            "`masks.causal` and `attnref.masks.causal`, [`masks.padding`](x.md), `masks.padding`",
            '??? question "What is `masks.packed`?"',
            "    ```python",
            "    `masks.packed`",
            "    ```",
            "[a claim of `masks.packed`](claim:c) and ``masks.packed``",
            "## Next {#b}",
            "| `masks.causal` |",
        ]
    )
    page, edition = Page("scale/one.md", Path("one.md"), text), Edition("en", ROOT)
    edition.package = package
    shown = names.add_links(text, package, api.link(page, edition)).split("\n")
    masks = "../reference/api/masks.md#attnref.masks"
    assert shown[1] == (
        f"[`masks.causal`]({masks}.causal) and `attnref.masks.causal`, "
        f"[`masks.padding`](x.md), [`masks.padding`]({masks}.padding)"
    )
    assert shown[8] == f"| [`masks.causal`]({masks}.causal) |"
    assert shown[2:7] == text.split("\n")[2:7]
    assert shown[0] == "## `masks.causal` {#a}"
    assert names.mentions(text, package) == ["attnref.masks.causal", "attnref.masks.padding"]


def test_what_a_program_uses(package, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import attnref\nimport torch\nfrom attnref import masks as patterns, oracle\n"
        "from attnref.softmax import entropy\n"
        "patterns.causal(3).dense()\nattnref.KVCache()\noracle.gradients\ntorch.causal\n"
        "attnref.cost.Sizes\n",
        encoding="utf-8",
    )
    assert set(names.program_uses(program, package)) == {
        "attnref.softmax.entropy",
        "attnref.masks.causal",
        "attnref.cache.KVCache",
        "attnref.oracle.gradients",
        "attnref.cost.Sizes",
    }


# Docstrings.

SOFTMAX = r'''
__all__ = ["bent", "plain"]

def plain(): ...

def bent(scores, a, b):
    r"""Scores *bent*, ``|x_i| ≤ c²``; see :func:`plain` and ``x * y``.

        b_ij = c tanh(s_ij/c)
        c = max_(j ≤ i) |s̃_j| if √d_k > 1

    with a *cap*. It is a list::

        for x in xs:

            code = 1

    Args:
        scores: ``(..., m)``, as in :func:`house.softmax.plain`,
            any dtype.
        a, b: two, as in
            :func:`_hidden`.

    Source: Somebody 2017, arXiv 1706.03762, section 3.

    Examples:
        >>> x = 1
    """

def _hidden(): ...
'''
MARKDOWN = r"""Scores *bent*, $|x_{i}| ≤ c^2$; see [`plain`][house.softmax.plain] and ``x * y``.

$$
\begin{gathered}
b_{ij} = c \tanh (s_{ij}/c) \\
c = \max _{j ≤ i} |\tilde{s}_{j}|\text{ if }\sqrt{d_{k}} > 1 \\
\end{gathered}
$$

with a *cap*. It is a list:

```python
for x in xs:

    code = 1
```

Args:
    scores: ``(..., m)``, as in [`house.softmax.plain`][house.softmax.plain],
        any dtype.
    a: two, as in
        `_hidden`.
    b: two, as in
        `_hidden`.

**Source:** Somebody 2017, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762), section 3.

Examples:
    >>> x = 1"""


def small(text):
    modules = {"__init__.py": "", "softmax.py": text}
    return griffe.temporary_visited_package("house", modules)


def test_a_docstring_becomes_markdown():
    with small(SOFTMAX) as package:
        bent = package["softmax.bent"]
        assert docstrings.markdown(bent, package, "**Source:**") == MARKDOWN


def test_a_reference_to_nothing_stops_the_build_where_it_stands():
    for name in ("plan", "house.softmax.plan", "plain.x", "torch.exp"):
        message = re.escape(f"softmax.py:7: `{name}`: there is no")
        with (
            small(SOFTMAX.replace(":func:`plain`", f":func:`{name}`")) as package,
            pytest.raises(BookError, match=message),
        ):
            docstrings.markdown(package["softmax.bent"], package, "**Source:**")


def test_no_docstring_keeps_a_mark_of_its_own_language(package):
    for path, one in names.public_names(package).items():
        shown = docstrings.markdown(one, package, "**Source:**")
        for leftover in (".. math", ":func:", ":math:", ":class:", "::\n", "Source: "):
            assert leftover not in shown.replace("**Source:** ", ""), (path, leftover)


def test_shown_code_is_without_docstrings(package):
    shown = docstrings.code(package["masks.causal"]).split("\n")
    assert shown[0].startswith("def causal(")
    assert shown[1] == "    n, m, offset = check_alignment(n, m, alignment)"
    assert '"""' not in docstrings.code(package["masks.Mask"])
