"""The smallest call as a program: pasted where the check ran, it prints what the report names."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as fused
from torch.testing import assert_close

from attnref.conformance import check
from attnref.conformance.case import Case, Sizes
from attnref.conformance.request import Request
from attnref.conformance.settings import Settings

MINE = """
import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention as fused

def unscaled(q, k, v):
    return torch.softmax(q @ k.mT, -1) @ v

def hides_the_diagonal(query, key, value, forbidden=None, is_causal=False):
    m = key.shape[-2]
    allowed = torch.ones(query.shape[-2], m, dtype=torch.bool)
    allowed = allowed.tril(-1) if is_causal else allowed
    return fused(query, key, value, allowed if forbidden is None else allowed & ~forbidden)

def in_their_axes(q, k, v, mask=None, causal=False):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    output = fused(q, k, v, mask, is_causal=causal and mask is None)
    return output.transpose(1, 2), None

def of_arrays(query, key, value):
    scores = query @ np.swapaxes(key, -1, -2)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ value

def only_large(query, key, value):
    return value * 2 if query.numel() > 100 else fused(query, key, value)

def hides_by_a_number(q, k, v, forbidden=None):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    scores = scores if forbidden is None else scores.masked_fill(forbidden, -1e9)
    return torch.softmax(scores, -1) @ v

def step(query, key, value, cache):
    if cache is not None:
        key, value = (torch.cat(pair, -2) for pair in zip(cache, (key, value)))
    several = query.shape[-2] > 1
    return fused(query, key, value, is_causal=several), (key.clone(), value.clone())

class Cache:
    def __init__(self, batch, heads, max_len, head_dim, dtype):
        self.held = torch.zeros(2, batch, max_len, heads, head_dim, dtype=dtype)

def step_in_place(q, k, v, input_pos, cache):
    end = int(input_pos[-1]) + 1
    cache.held[0][:, input_pos], cache.held[1][:, input_pos] = k, v
    past = cache.held[:, :, : end - 1 if end > 2 else end]
    return fused(*(x.transpose(1, 2) for x in (q, *past))).transpose(1, 2)

class Layer(torch.nn.Module):
    def forward(self, query, key, value):
        return fused(query, key, value) * 2

layer = Layer()
"""

# The property that names the fault, and what is said of the function.
ASKED = {
    "unscaled": ("oracle", {}),
    "hides_the_diagonal": ("own_token", {}),
    "hides_by_a_number": ("fully_masked", {"names": {"attn_mask": "forbidden"}}),
    "in_their_axes": ("mask_with_causal", {}),
    "of_arrays": ("oracle", {}),
    "layer.forward": ("row_sums", {}),
    "step": ("pieces", {"step": True}),
    "step_in_place": ("past_kept", {"cache": "mine.py:Cache"}),
}


@pytest.fixture
def folder(monkeypatch, tmp_path):
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(target, only, **options):
    (result,) = Request(target, Settings(only=[only], **options)).report().results
    return result, result.counterexample


def outputs_of(programs):
    """What each leaves behind, all in one process, for it takes long to import PyTorch."""
    for place, program in enumerate(programs):
        Path(f"program_{place}.py").write_text(program, encoding="utf-8")
    lines = f"""
import runpy
for place in range({len(programs)}):
    found = runpy.run_path(f"program_{{place}}.py")
    print("left:", found["output"].tolist())
"""
    said = run(["-c", lines])
    left = [each.removeprefix("left: ") for each in said.splitlines() if each.startswith("left: ")]
    return [torch.tensor(eval(each, {"nan": math.nan})) for each in left]


def run(arguments, **options):
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


@pytest.mark.claim("programs-print-the-failure")
@pytest.mark.usefixtures("folder")
def test_a_program_prints_what_the_report_names():
    examples, programs = [], []
    for name, (only, options) in ASKED.items():
        target = f"mine.py:{name}"
        result, example = found(target, only, **options)
        programs.append(example.program(target))
        examples.append(example)
        page, empty, *shown, comment = result.details("en", target)
        assert (page, empty, shown) == (result.page(), "", programs[-1].splitlines())
        assert "\nprint(output)" in programs[-1]
        assert comment.startswith("# returned [")
    for name, example, got in zip(ASKED, examples, outputs_of(programs), strict=True):
        assert_close(got, torch.tensor(example.printed), equal_nan=True, msg=name)
        if example.wanted is not None:
            assert got.shape == torch.tensor(example.wanted).shape, name
            assert not torch.equal(got, torch.tensor(example.wanted)), name
    assert "q = torch.tensor([[[[2.0]], [[0.0]]" in programs[[*ASKED].index("in_their_axes")]
    assert "forbidden = torch.tensor([[True]])" in programs[[*ASKED].index("hides_by_a_number")]
    assert "query = numpy.array([" in programs[[*ASKED].index("of_arrays")]
    assert "cache = Cache(batch=1," in programs[[*ASKED].index("step_in_place")]


@pytest.mark.usefixtures("folder")
def test_a_loop_can_be_pasted_line_by_line():
    _, example = found("mine.py:step", "pieces", step=True)
    program = example.program("mine.py:step")
    assert "    outputs.append(output)\n\n" in program
    said = run(["-i", "-q"], input=f"{program}\nprint(output.tolist())\n")
    assert said.splitlines()[-1] == str(example.printed)


PLACES = {
    "mine": "from mine import unscaled",
    "sub/mine.py": "import sys\nsys.path.insert(0, 'sub')\nfrom mine import unscaled",
    "odd-name.py": "import runpy\nunscaled = runpy.run_path('odd-name.py')['unscaled']",
    "math.py": "import runpy\nunscaled = runpy.run_path('math.py')['unscaled']",
}


def test_the_function_is_imported_from_where_it_is(folder):
    (folder / "sub").mkdir()
    for name in ("sub/mine.py", "odd-name.py", "math.py"):
        (folder / name).write_text(MINE, encoding="utf-8")
    _, example = found("mine.py:unscaled", "oracle")
    programs = [example.program(f"{place}:unscaled") for place in PLACES]
    for program, line in zip(programs, PLACES.values(), strict=True):
        assert program.startswith(f"import torch\n{line}\n\nq = torch.tensor([[[[")
    (folder / "math.py").rename("another.py")  # Python itself would find that one
    programs[-1] = programs[-1].replace("math.py", "another.py")
    for got in outputs_of(programs):
        assert_close(got, torch.tensor(example.printed))


@pytest.mark.usefixtures("folder")
def test_large_tensors_are_drawn_again():
    _, example = found("mine.py:only_large", "oracle")
    program = example.program("mine.py:only_large")
    drawn = Case.draw(Sizes(), 0).round(0)
    made = {"only_large": lambda *three: three}
    exec(program.replace("from mine import only_large", ""), made)
    assert program.count("generator=generator") == 3
    for got, wanted in zip(made["output"], (drawn.query, drawn.key, drawn.value), strict=True):
        assert_close(got, wanted.float())


def test_where_there_is_no_honest_program_the_call_is_shown():
    def changes(query, key, value):
        output = fused(query, key, value) * 2
        query.zero_()
        return output

    (result,) = check(changes, only=["row_sums"], limit=None).results
    assert result.counterexample.program("changes") is None
    assert "query = [[[[0" in result.details("en", "changes")[3]
    (result,) = check(lambda *three: fused(*three) * 2, only=["row_sums"], limit=None).results
    assert result.counterexample.program("double") is not None
    assert result.counterexample.program("<lambda>") is None
