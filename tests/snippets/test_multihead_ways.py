"""The nine ways to write multi-head attention are one function: outputs, gradients, print-outs."""

import functools
import importlib.util
import itertools
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attnref import oracle

FOLDER = Path(__file__).parents[2] / "snippets" / "foundations" / "multi-head-ways"
WAYS = sorted({path.stem for path in FOLDER.glob("*.py")} - {"parameters", "costs"})
SHAPES = [None, (3, 67, 7, 11)]  # the snippets' own numbers, and (b, n, h, d) of this test

# Un-compiled FlexAttention says what it is: an unfused computation.
pytestmark = pytest.mark.filterwarnings(
    "ignore:flex_attention called without torch.compile:UserWarning"
)


@functools.cache
def load(name):
    spec = importlib.util.spec_from_file_location(f"multihead_way_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def section(name):
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    start, end = "# --8<-- [start:attention]\n", "# --8<-- [end:attention]\n"
    assert text.count(start) == text.count(end) == 1
    return text.split(start)[1].split(end)[0]


def call(name, tensors, num_heads):
    """The output alone: one of the nine returns the weights beside it."""
    result = load(name).attention(*tensors, num_heads)
    return result[0] if name == "module_weights" else result


def draw(shape, device):
    """x, w_qkv, w_o in float64, the number of heads, and a weight for each output."""
    generator = torch.Generator().manual_seed(1)
    if shape is None:
        shared = load("parameters")
        tensors, num_heads = shared.parameters(torch.float64, device), shared.NUM_HEADS
    else:
        b, n, num_heads, d = shape
        width = num_heads * d
        tensors = [
            (torch.randn(*sizes, generator=generator, dtype=torch.float64) * scale).to(device)
            for sizes, scale in (
                ((b, n, width), 1.0),
                ((width, 3 * width), width**-0.5),
                ((width, width), width**-0.5),
            )
        ]
    weight = torch.randn(tensors[0].shape, generator=generator, dtype=torch.float64)
    return tensors, num_heads, weight.to(device)


def has_backward(name, device):
    return name != "flex" or device.type != "cpu"


def outputs_and_gradients(name, tensors, num_heads, weight, dtype):
    """In float64: the output, and the gradients of its weighted sum where there are some."""
    backward = has_backward(name, weight.device)
    leaves = [tensor.detach().to(dtype).requires_grad_(backward) for tensor in tensors]
    output = call(name, leaves, num_heads)
    assert output.dtype == dtype
    found = torch.autograd.grad(output, leaves, weight.to(dtype)) if backward else ()
    return [tensor.detach().double() for tensor in (output, *found)]


def rms(tensor):
    return tensor.square().mean().sqrt().item()


def by_oracle(x, w_qkv, num_heads):
    """Outputs of the heads and weights."""
    heads = (x @ w_qkv).cpu().unflatten(-1, (3, num_heads, -1)).permute(2, 0, 3, 1, 4)
    found = oracle.attend(*heads, is_causal=True)
    return torch.from_numpy(found.output), torch.from_numpy(found.weights)


def test_outputs_are_those_of_the_oracle(device):
    (x, w_qkv, w_o), num_heads, _ = draw(None, device)
    attended, _ = by_oracle(x, w_qkv, num_heads)
    expected = attended.transpose(1, 2).flatten(2) @ w_o.cpu()
    assert len(WAYS) == 9
    for name in WAYS:
        found = call(name, (x, w_qkv, w_o), num_heads).cpu()
        assert (found - expected).abs().max() < 1e-14, name  # some ten roundings of numbers near 1


@pytest.mark.claim("nine-ways-one-function")
@pytest.mark.parametrize("name", WAYS)
def test_all_agree_in_float64_and_keep_the_budget_in_float32(name, device):
    """Errors are taken from the loop in float64; the budget is PyTorch's own fused path."""
    for shape, dtype in itertools.product(SHAPES, (torch.float64, torch.float32)):
        arguments = draw(shape, device)
        exact = outputs_and_gradients("loop", *arguments, torch.float64)
        found = outputs_and_gradients(name, *arguments, dtype)
        assert len(found) == (4 if has_backward(name, device) else 1)
        if dtype == torch.float64:
            # The loop is off as well, so that both may differ by eps a term, for some ten
            # stages and sums that grow like the root of their b n = 201 terms at most.
            budgets = [10 * 15 * torch.finfo(dtype).eps * rms(one) for one in exact]
        else:
            own = outputs_and_gradients("sdpa_causal", *arguments, dtype)
            budgets = [1.5 * rms(one - two) for one, two in zip(own, exact, strict=True)]
        for one, two, budget in zip(found, exact, budgets, strict=False):
            assert rms(one - two) <= budget


@pytest.mark.claim("flex-has-no-backward-on-a-cpu")
def test_flex_attention_has_no_backward_pass_on_a_cpu():
    """Which is why the next test measures its slopes instead of asking for gradients."""
    tensors, num_heads, _ = draw(None, torch.device("cpu"))
    tensors[1].requires_grad_()
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        call("flex", tensors, num_heads)


@pytest.mark.claim("nine-ways-one-function")
def test_slopes_of_flex_attention_are_the_gradients_of_the_others(device):
    tensors, num_heads, weight = draw(None, device)
    _, *gradients = outputs_and_gradients("loop", tensors, num_heads, weight, torch.float64)
    generator = torch.Generator().manual_seed(2)

    def loss(way, step):
        moved = [one + step * two for one, two in zip(tensors, way, strict=True)]
        return (call("flex", moved, num_heads) * weight).sum().item()

    def slope(way, step):
        return (loss(way, step) - loss(way, -step)) / (2 * step)

    for _ in range(3):
        way = [
            torch.randn(one.shape, generator=generator, dtype=torch.float64).to(device)
            for one in tensors
        ]
        expected = sum((one * two).sum().item() for one, two in zip(gradients, way, strict=True))
        step = 1e-4
        fine, coarse = slope(way, step), slope(way, 2 * step)
        # A central difference errs by c step^2, so that half the step errs by a third of what
        # halving changes; and by the rounding of two sums of 210 terms over 2 step.
        bound = abs(coarse - fine) + 210 * torch.finfo(torch.float64).eps / step
        assert abs(fine - expected) < bound < 1e-4 * abs(expected)


@pytest.mark.claim("copied-way-works-alone")
def test_what_is_copied_works_alone(device, subtests):
    """The section between the markers needs nothing else of its file, and fits on a screen."""
    tensors, num_heads, _ = draw(None, device)
    for name in WAYS:
        with subtests.test(name):
            code = section(name)
            assert 10 <= len(code.strip().splitlines()) <= 25
            namespace = {"__name__": "copied"}
            exec(compile(code, f"<{name}>", "exec"), namespace)
            result = namespace["attention"](*tensors, num_heads)
            output = result[0] if name == "module_weights" else result
            assert torch.equal(output, call(name, tensors, num_heads))


@pytest.mark.claim("module-returns-its-weights")
def test_the_module_with_weights_returns_them(device):
    (x, w_qkv, w_o), num_heads, _ = draw(None, device)
    _, weights = load("module_weights").attention(x, w_qkv, w_o, num_heads)
    _, expected = by_oracle(x, w_qkv, num_heads)
    assert (weights.cpu() - expected).abs().max() < 1e-14


def test_every_script_prints_the_same_numbers(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in WAYS:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        shape, numbers, *rest = capsys.readouterr().out.splitlines()
        assert shape == "(2, 7, 15)", name
        assert numbers == "tensor([ 0.3376,  1.0349, -0.4116,  0.2014])", name
        assert rest == (["(2, 3, 7, 7)"] if name == "module_weights" else []), name


def test_a_script_runs_by_itself_from_the_root_of_the_project():
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    answer = subprocess.run(
        [sys.executable, "snippets/foundations/multi-head-ways/loop.py"],
        cwd=FOLDER.parents[2],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert answer.stdout.startswith("(2, 7, 15)\ntensor(["), answer.stderr
    assert answer.stderr == ""
