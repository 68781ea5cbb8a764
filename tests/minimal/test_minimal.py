"""The contract of attnref/minimal: short, alone, and the same as the whole function."""

import ast
import statistics
from functools import partial

import pytest
import torch

import attnref
from attnref.conformance import Verdict
from attnref.copying.catalogue import entries
from tests.minimal import pairs
from tests.minimal.pairs import FILES

NAMES = [path.stem for path in FILES]
LIMIT = 40
# Those that the checker knows, with what has to be named for it, and what of them is unsafe: by the
# words of the docstring that say so.
CHECKED = {
    "attention": ("scaled_dot_product_attention", {}, {}),
    "causal": ("causal_attention", {}, {"nan_behind_mask": "NaN in a later key"}),
    "grouped": ("grouped_query_attention", {}, {}),
    "blockwise": ("blockwise_attention", {}, {}),
    "split_kv": (
        "split_kv_attention",
        {"splits": 2},
        {"empty": "no key at all", "half_precision": "half precision"},
    ),
    "causal_window": (
        "causal_window_attention",
        {"window": 3},
        {"nan_behind_mask": "NaN value spreads"},
    ),
}
SIZES = [(1, 1), (7, 7), (5, 13), (70, 70)]


class Draw:
    """Tensors of normal numbers in float64, which carry gradients."""

    def __init__(self, seed=0, device="cpu"):
        self.generator = torch.Generator().manual_seed(seed)
        self.device = device

    def __call__(self, *shape):
        x = torch.randn(*shape, dtype=torch.float64, generator=self.generator)
        return x.to(self.device).requires_grad_()


def test_each_has_its_whole_function():
    """But the verification of drafts, of which the package has no other."""
    assert {*pairs.PAIRS, "speculative"} == set(NAMES)


def test_each_is_short():
    lines = {entry.name: entry.lines for entry in entries()}
    print("".join(f"{name:20}{count:4}\n" for name, count in lines.items()))
    assert max(lines.values()) <= LIMIT
    assert statistics.median(lines.values()) <= 25


@pytest.mark.claim("copies-need-torch-alone")
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_each_stands_alone_and_says_what_it_leaves_out(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [x.name for x in node.names]
        )
    }
    assert modules <= {"math", "torch"}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    public = [node for node in functions if not node.name.startswith("_")]
    docs = [ast.get_docstring(node) or "" for node in public]
    assert all(">>> " in doc for doc in docs)
    (told,) = (doc for doc in docs if "Left out: " in doc)
    assert "\n\n    " in told  # the formula
    assert "\nSource: " in told


@pytest.mark.claim("copies-give-the-same")
@pytest.mark.parametrize("name", pairs.PAIRS)
def test_it_is_the_whole_function(name, one_rank):
    for n, m in SIZES:
        (tensors, ours), whole = pairs.PAIRS[name](Draw(), n, m)
        ours, whole = ((x,) if torch.is_tensor(x) else tuple(x) for x in (ours, whole))
        if tensors:
            losses = (sum(x.square().sum() for x in results) for results in (ours, whole))
            found, expected = (
                torch.autograd.grad(loss, tensors, retain_graph=True) for loss in losses
            )
            ours, whole = (*ours, *found), (*whole, *expected)
        for x, y in zip(ours, whole, strict=True):
            tolerance = {torch.float32: 1e-6, torch.float64: 1e-9}.get(x.dtype, 0.0)
            torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("name", pairs.PAIRS)
def test_it_runs_on_any_device(name, one_rank):
    """Meta tensors have no numbers, and no device to move to."""
    tensors, ours = next(pairs.PAIRS[name](Draw(device="meta"), 5, 13))
    if tensors:
        results = (ours,) if torch.is_tensor(ours) else ours
        assert all(x.is_meta for x in results)


@pytest.mark.parametrize("name", CHECKED)
def test_the_checker_finds_what_the_docstring_says(name):
    function, options, unsafe = CHECKED[name]
    function = getattr(getattr(pairs.minimal, name), function)
    report = attnref.check(partial(function, **options))
    found = {verdict: set() for verdict in Verdict}
    for result in report.results:
        found[result.finding.verdict].add(result.rule.name)
    assert not found[Verdict.WRONG]
    assert len(found[Verdict.PASS]) >= 25
    assert found[Verdict.UNSAFE] == set(unsafe)
    said = " ".join(function.__doc__.split())
    assert all(words in said for words in unsafe.values())


@pytest.mark.parametrize("name", ["ring", "ulysses"])
def test_gradients_that_would_be_wrong_are_refused(name, one_rank):
    x = Draw()(4, 3, 8)
    function = getattr(getattr(pairs.minimal, name), f"{name}_attention")
    with pytest.raises(NotImplementedError, match=r"^no backward pass: call it under"):
        function(x, x, x)
