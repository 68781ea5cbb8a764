"""The reference of the package: whole, in both languages, and tied to the pages."""

import ast
import importlib
import inspect
import shutil
from pathlib import Path

import api
import docstrings
import mentions
import public_names
import pytest
from mkdocs.exceptions import PluginError
from pages import Problem

import attnref

ROOT = Path(__file__).parent.parent.parent
LANGUAGES = ("pt", "en")


def api_problems(root: Path) -> list[str]:
    """What the reference leaves out, says of nothing, or says only in one language."""
    known = {**public_names.modules(root), **public_names.names(root)}
    found = []
    for module in public_names.modules(root):
        if module not in api.places(root):
            found.append(f"{module} is on no page of docs/en/{api.FOLDER}: name it in a block")
    for key, name in known.items():
        said = api.summaries(root, "pt").get(key, "")
        if not said.endswith(".") or len(said) > 160:
            found.append(f"{key}: expected a sentence of it in docs/api.pt.yml, got {said!r}")
        if not public_names.tests(name, root):
            found.append(f"{key}: expected tests/test_{name.module}.py or a folder of that name")
    for key in api.summaries(root, "pt").keys() - known.keys():
        found.append(f"docs/api.pt.yml: {key} is no public name")
    return found


def reach_problems(root: Path) -> list[str]:
    """Names that no page of the book leads to."""
    found = []
    for language in LANGUAGES:
        for key, name in public_names.names(root).items():
            if ">>> " in name.docstring and key not in mentions.speaking(root, language):
                found.append(
                    f"{key}: no page of docs/{language} speaks of it or shows a snippet that uses "
                    f"it; write `{name.short}` where it belongs"
                )
    return found


def test_the_reference_is_whole():
    assert not api_problems(ROOT), "\n".join(api_problems(ROOT))


def test_every_public_name_is_reached_from_a_page():
    assert not reach_problems(ROOT), "\n".join(reach_problems(ROOT))


def test_every_public_function_and_class_has_an_entry():
    """Found by importing, where the reference reads."""
    listed = public_names.names(ROOT)
    for module in public_names.modules(ROOT):
        imported = importlib.import_module(f"attnref.{module}")
        for name, thing in vars(imported).items():
            ours = getattr(thing, "__module__", "") == imported.__name__
            if name.startswith("_") or not ours or not (thing.__doc__ or "").strip():
                continue
            if inspect.isclass(thing) or (inspect.isfunction(thing) and ">>> " in thing.__doc__):
                assert f"{module}.{name}" in listed
    for name in attnref.__all__:
        thing = getattr(attnref, name)
        key = f"{thing.__name__}".removeprefix("attnref.")
        assert key in public_names.modules(ROOT) or any(
            other.endswith(f".{key}") for other in listed
        )
    for module in ("conformance", "exercises"):
        imported = importlib.import_module(f"attnref.{module}")
        for name in imported.__all__:
            if callable(getattr(imported, name)):
                assert f"{module}.{name}" in listed


def test_no_name_is_on_two_pages():
    asked = [module for _, block in api._blocks(ROOT) for module in api.asked(block, ROOT)]
    assert len(asked) == len(set(asked)) == len(public_names.modules(ROOT))


@pytest.fixture
def copy(tmp_path):
    for folder in ("docs/pt", "docs/en", "attnref", "tests", "snippets"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "docs/api.pt.yml", tmp_path / "docs/api.pt.yml")
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_what_is_missing_is_found(copy):
    assert not api_problems(copy)
    for cached in (api.places, api.summaries, *public_names.CACHED, *mentions.CACHED):
        cached.cache_clear()
    edit(copy / "docs/api.pt.yml", "masks.causal:", "masks.casual:")
    edit(copy / "docs/en/reference/api/cost.md", "cost\nroofline", "cost")
    (copy / "tests/test_masks.py").unlink()
    found = "\n".join(api_problems(copy))
    assert "masks.causal: expected a sentence of it in docs/api.pt.yml, got ''" in found
    assert "docs/api.pt.yml: masks.casual is no public name" in found
    assert "roofline is on no page of docs/en/reference/api/" in found
    assert "masks.packed: expected tests/test_masks.py" in found


def test_a_name_that_no_page_speaks_of_is_found(copy):
    edit(copy / "docs/pt/foundations/masks.md", "`masks.dilated`", "esta")
    (found,) = reach_problems(copy)
    assert found.startswith("masks.dilated: no page of docs/pt speaks of it")
    assert "write `masks.dilated` where it belongs" in found


def test_a_module_that_is_none_stops_the_build(tmp_path):
    text = "# A\n\n```api\nmask\n```\n\n```api\n\n```\n"
    first, second = api.problems(Path("a.md"), text, ROOT)
    assert first == Problem(Path("a.md"), 3, first.message)
    assert first.message.startswith("module 'mask': expected one of adaptive_scaling, ")
    assert second.line == 7
    assert second.message.startswith("no module: name one of adaptive_scaling, ")


@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("masks.causal", "masks.causal"),
        ("attnref.masks.causal", "masks.causal"),
        ("masks.causal(n, alignment='top-left')", "masks.causal"),
        ("causal(5)", "masks.causal"),
        ("causal", None),  # also a word, and a name of an argument
        ("attention_weights", "reference.attention_weights"),
        ("KVCache", "multihead.KVCache"),
        ("KVCache()", "multihead.KVCache"),
        ("Mask.dense", "masks.Mask.dense"),
        ("dense()", None),
        ("causal(n) & padding(lengths, n)", None),  # two names, and one link
        ("sliding_window", None),  # a mask, and a variant
        ("masks.sliding_window", "masks.sliding_window"),
        ("attnref.variants.sliding_window", "variants.sliding_window"),
        ("score_statistics", "score_statistics.score_statistics"),
        ("attnref.cost", "cost"),
        ("cost", None),
        ("cost.linear", "cost.linear"),
        ("nn.linear", None),
        ("F.scaled_dot_product_attention", None),
        ("scaled_dot_product_attention", None),  # PyTorch's, as far as one knows
        ("attnref.scaled_dot_product_attention", "reference.scaled_dot_product_attention"),
        ("oracle.log_sum_exp", "oracle.log_sum_exp"),
        ("conformance.check", "conformance.check"),
        ("attnref copy causal", None),
        ("x", None),
    ],
)
def test_what_inline_code_names(code, key):
    name = mentions.resolve(code, ROOT)
    assert (name and name.key) == key


def test_the_first_mention_in_a_section_becomes_a_link():
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
    shown = mentions.linked(text, ROOT, lambda name, code: f"<{name.key}>").split("\n")
    assert shown[1] == (
        "<masks.causal> and `attnref.masks.causal`, [`masks.padding`](x.md), <masks.padding>"
    )
    assert shown[8] == "| <masks.causal> |"
    assert shown[2:7] == text.split("\n")[2:7]
    assert shown[0] == "## `masks.causal` {#a}"
    assert mentions.mentioned(text, ROOT) == ["masks.causal", "masks.padding"]


def test_what_a_program_uses(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import attnref\nimport torch\nfrom attnref import masks as patterns, oracle\n"
        "from attnref.softmax import entropy\n"
        "patterns.causal(3).dense()\nattnref.KVCache()\noracle.gradients\ntorch.causal\n"
        "attnref.cost.Sizes\n",
        encoding="utf-8",
    )
    assert set(mentions.used_by(program, ROOT)) == {
        "softmax.entropy",
        "masks.causal",
        "multihead.KVCache",
        "oracle.gradients",
        "cost.Sizes",
    }


def of(code: str) -> ast.FunctionDef | ast.ClassDef:
    return ast.parse(code).body[0]


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("def f(a, /, b=1, *, c: str = 'x') -> int: ...", 'f(a, /, b=1, *, c: str = "x") -> int'),
        ("def f(a: int, **b: object) -> int: ...", "f(a: int, **b: object) -> int"),
        ("def f(*a: int, b: int = 2) -> None: ...", "f(*a: int, b: int = 2) -> None"),
        ("@property\ndef f(self) -> int: ...", "f -> int"),
        ("@classmethod\ndef f(cls, a: int) -> int: ...", "@classmethod\nf(a: int) -> int"),
        ("class A:\n def __init__(self, b: int) -> None: ...", "class A(b: int)"),
        ("class A(NamedTuple):\n b: int\n c: int = 3", "class A(b: int, c: int = 3)"),
        ("@dataclass(kw_only=True)\nclass A:\n b: int", "class A(*, b: int)"),
    ],
)
def test_signatures(code, shown):
    assert public_names.signature(of(code)) == shown


def test_a_long_signature_has_a_line_for_each_argument():
    arguments = ", ".join(f"argument_{number}: int" for number in range(5))
    shown = public_names.signature(of(f"def f({arguments}) -> int: ...")).split("\n")
    assert shown[0] == "f("
    assert shown[1] == "    argument_0: int,"
    assert shown[-1] == ") -> int"


DOCSTRING = r"""Scores *bent* into :math:`(-c, c)`; see :func:`naive` and ``x * y``.

.. math:: c\,\tanh
          (s/c)

with a *cap*. It is a list::

    for x in xs:
        code = 1

- one, of
  two lines;
- another.

Args:
    scores: ``(..., m)``, any
        floating dtype.
    a, b: two.

Returns:
    The same shape.

Raises:
    ValueError: for a cap that is not
        positive.

Source: Somebody 2017, arXiv 1706.03762, section 3.

>>> x = 1
>>> x
1
>>> y = [
...     2]
"""


def test_a_docstring_becomes_markdown():
    def link(text: str) -> str:
        return f"<{text}>"

    assert docstrings.summary(DOCSTRING, link) == (
        "Scores *bent* into $(-c, c)$; see <naive> and `x * y`."
    )
    label = "{ .api-label lang=pt }"
    assert docstrings.body(DOCSTRING, "pt", link).split("\n\n") == [
        "$$\nc\\,\\tanh\n(s/c)\n$$",
        "with a *cap*. It is a list:",
        "```python\nfor x in xs:\n    code = 1\n```",
        "- one, of two lines;\n- another.",
        f"Argumentos\n{label}",
        "`scores`\n:   `(..., m)`, any floating dtype.",
        "`a`, `b`\n:   two.",
        f"Devolve\n{label}",
        "The same shape.",
        f"Erros\n{label}",
        "`ValueError`\n:   for a cap that is not positive.",
        f"Fonte\n{label}",
        "Somebody 2017, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762), section 3.",
        f"Exemplo\n{label}",
        "```python\nx = 1\nx\n```",
        "```text\n1\n```",
        "```python\ny = [\n    2]\n```",
    ]


def test_no_docstring_keeps_a_mark_of_its_own_language():
    for key, name in public_names.names(ROOT).items():
        shown = docstrings.body(name.docstring, "en", str)
        for leftover in (".. math", ":func:", ":math:", ":class:", "``x", ">>>", "Args:"):
            assert leftover not in shown, (key, leftover)


def test_a_name_without_a_sentence_stops_the_build(monkeypatch):
    monkeypatch.setattr(api, "summaries", lambda root, language: {"masks": "Máscaras."})
    with pytest.raises(PluginError, match=r"docs/api.pt.yml: expected a sentence for masks.Mask"):
        api.Writer("reference/api/masks.md", "pt").module("masks")


def test_an_entry_says_where_everything_is():
    entry = api.Writer("reference/api/masks.md", "pt").module("masks")
    assert "### `causal` {#causal}\n\nNenhuma consulta vê chaves do seu futuro." in entry
    assert "- Código: `attnref/masks.py`\n- Testes: `tests/test_masks.py`\n" in entry
    assert "- Para copiar: `attnref copy causal`" in entry
    assert "- Explicado em: [Máscaras](../../foundations/masks.md)" in entry
    assert "[Armadilhas das máscaras](../../foundations/mask-traps.md)" in entry
    assert "#### `Mask.dense` {#Mask.dense}" in entry
    assert entry.count('lang="en"') > 14
