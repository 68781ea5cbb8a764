"""Peers are called rightly; those that are not installed are played by exact attention."""

import contextlib
import dataclasses
import importlib.machinery
import importlib.util
import inspect
import sys
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnref.bench.peers import peers
from attnref.bench.problems import TASKS, WINDOW, Shape, exact_output, relative_error
from attnref.variants.gated_delta import gated_delta_attention

PAIRS = [(name, task) for name, method in peers.methods.items() for task in method.cases]


@pytest.fixture
def shape(device):
    return Shape(n=256, heads=4, head_dim=16, dtype=torch.float32, device=device, seed=1)


def attend(query, key, value, causal):
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


class Kernel(nn.Module):
    """Plays those that take query, key and value."""

    def __init__(self, *, causal=False, **options):
        super().__init__()
        self.causal, self.options = causal, options

    def forward(self, query, key, value):
        return attend(query, key, value, self.causal)


class Greeting(Kernel):
    """Plays performer-pytorch, which prints that it has no CUDA kernel."""

    def __init__(self, **options):
        super().__init__(**options)
        print("a greeting")


class Attend(Kernel):
    """Plays x-transformers' inner half, which returns more than its output."""

    def forward(self, query, key, value):
        return super().forward(query, key, value), None


class Window(Kernel):
    """Plays local-attention, whose window leaves the own key out."""

    def forward(self, query, key, value):
        place = torch.arange(query.shape[-2], device=query.device)
        distance = place[:, None] - place
        mask = (distance >= 0) & (distance <= self.options["window_size"])
        return F.scaled_dot_product_attention(query, key, value, mask)


class SharedKernel(Kernel):
    """Plays Reformer's, which has one tensor for queries and keys, heads as batches, and more."""

    def forward(self, tokens, value):
        assert tokens.dim() == 3
        return attend(tokens, tokens, value, self.causal), None, None


class Layer(nn.Module):
    """Plays the layers: projections, heads, attention, projection."""

    def __init__(self, *, dim, heads, dim_head=16, **options):
        super().__init__()
        width = heads * dim_head
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, width, bias=False) for _ in range(3))
        self.to_out = nn.Linear(width, dim, bias=False)

    def sides(self, tokens):
        return self.to_q(tokens), self.to_k(tokens), self.to_v(tokens)

    def forward(self, tokens):
        sides = (
            side.reshape(*side.shape[:2], self.heads, -1).transpose(1, 2)
            for side in self.sides(tokens)
        )
        return self.to_out(attend(*sides, False).transpose(1, 2).flatten(2))


class JointLayer(Layer):
    """Plays the layer whose three projections are one."""

    def __init__(self, *, dim, heads, dim_head, **options):
        super().__init__(dim=dim, heads=heads, dim_head=dim_head)
        self.to_qkv = nn.Linear(dim, 3 * heads * dim_head)

    def sides(self, tokens):
        return self.to_qkv(tokens).chunk(3, dim=-1)


def function(query, key, value, causal=False):
    return attend(query, key, value, causal)


def gated_delta(query, key, value, *, g, beta):
    """Plays those with tokens before heads, who return the state too, if it is asked for."""
    output = gated_delta_attention(
        *(side.transpose(1, 2) for side in (query, key, value)),
        log_decay=g.transpose(1, 2),
        beta=beta.transpose(1, 2),
    )
    return output.transpose(1, 2), None


ACTORS = {
    "local_attention": {"LocalAttention": Window},
    "linear_attention_transformer.linear_attention_transformer": {
        "linear_attn": function,
        "causal_linear_attn": lambda query, key, value, bucket_size: (
            function(query, key, value, True) if bucket_size == 1 else None
        ),
    },
    "performer_pytorch": {"FastAttention": Greeting},
    "reformer_pytorch": {"LSHAttention": SharedKernel},
    "nystrom_attention": {"NystromAttention": JointLayer},
    "linformer": {"LinformerSelfAttention": Layer},
    "memory_efficient_attention_pytorch.memory_efficient_attention": {
        "memory_efficient_attention": function
    },
    "transformers.models.qwen3_next.modeling_qwen3_next": {
        "torch_chunk_gated_delta_rule": gated_delta
    },
    "x_transformers": {"Attention": Layer},
    "x_transformers.attend": {"Attend": Attend},
}


# Plays the file of flash-linear-attention, of which nothing else is imported.
NAIVE = f"""
from attnref.variants.gated_delta import gated_delta_attention

{inspect.getsource(gated_delta)}
naive_chunk_gated_delta_rule = gated_delta
"""


@pytest.fixture
def stage(monkeypatch, tmp_path):
    file = tmp_path / "ops" / "gated_delta_rule" / "naive.py"
    file.parent.mkdir(parents=True)
    file.write_text(NAIVE, encoding="utf-8")
    package = types.ModuleType("fla")
    package.__spec__ = importlib.machinery.ModuleSpec("fla", None, is_package=True)
    package.__spec__.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "fla", package)
    for name, contents in ACTORS.items():
        actor = types.ModuleType(name)
        vars(actor).update(contents)
        monkeypatch.setitem(sys.modules, name, actor)
        package = name.partition(".")[0]
        if package not in ACTORS:
            monkeypatch.setitem(sys.modules, package, types.ModuleType(package))


@pytest.mark.usefixtures("stage")
@pytest.mark.parametrize(("name", "task"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_what_is_sent_and_what_comes_back(shape, name, task, capsys):
    problem = TASKS[task].make(shape)
    if name == "reformer-pytorch":  # its question is another one
        problem = dataclasses.replace(problem, key=problem.query)
    run = peers.methods[name].cases[task](problem)
    with torch.no_grad():
        output = run()
    assert output.shape == problem.query.shape
    # The actors are exact: what remains is float32's rounding.
    assert relative_error(output, exact_output(problem)) < 2e-6
    assert capsys.readouterr().out == ""


@pytest.mark.filterwarnings("ignore")  # theirs, about themselves
def test_installed_peers_understand_it(shape):
    exact_ones = {"local-attention", "memory-efficient-pytorch", "x-transformers"}
    exact_ones |= {"fla-core", "transformers"}
    for name, task in PAIRS:
        method = peers.methods[name]
        if method.missing() is not None:
            assert importlib.util.find_spec(method.imports) is None
            continue
        problem = TASKS[task].make(shape)
        with torch.no_grad(), contextlib.redirect_stdout(None):
            output = method.cases[task](problem)()
        error = relative_error(output, exact_output(problem))
        assert output.shape == problem.query.shape
        assert error < (2e-6 if name in exact_ones else 10), name


def test_the_window_peer_is_asked_for_one_key_less(shape, stage):
    problem = TASKS["window"].make(Shape(**{**vars(shape), "n": 3 * WINDOW}))
    output = peers.methods["local-attention"].cases["window"](problem)()
    assert relative_error(output, exact_output(problem)) < 2e-6


def test_every_peer_names_what_to_install():
    for method in peers.methods.values():
        assert method.needs
        assert method.imports
        assert method.defined is None
