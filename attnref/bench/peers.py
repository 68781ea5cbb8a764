"""Other people's packages, each called as its own examples call it.

Where a package offers its attention without projections, that is called. Where it offers a
whole layer only, the layer's projections are replaced by the identity on queries, keys and
values laid side by side, so that all do the same work and the answers can be compared.
"""

import contextlib
import importlib
import importlib.util
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnref.bench.methods import Prepare, Registry
from attnref.bench.problems import LSH_ROUNDS, WINDOW, Problem

peers = Registry()

Run = Callable[[], Tensor]

_RABE = "memory_efficient_attention_pytorch"


def _peer(
    distribution: str, imports: str, *tasks: str, name: str | None = None
) -> Callable[[Prepare], Prepare]:
    return peers.case(name or distribution, *tasks, needs=distribution, imports=imports)


def _import_quietly(module: str) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):  # some greet at import
        return importlib.import_module(module)


def _load_file(package: str, file: str) -> Any:
    """A file of a package that wants, when it is imported, what this file does without."""
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.submodule_search_locations is not None
    path = Path(found.submodule_search_locations[0]) / file
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _prepare_module(module: nn.Module, problem: Problem) -> Any:
    """The module as its user would run it: in place, in dtype, and not in training."""
    return module.to(device=problem.query.device, dtype=problem.query.dtype).eval()


class _Part(nn.Module):
    """Stands for a projection: one of ``parts`` equal pieces of the last dimension."""

    def __init__(self, index: int, parts: int = 3) -> None:
        super().__init__()
        self.index, self.parts = index, parts

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens.chunk(self.parts, dim=-1)[self.index]


def _join_heads(problem: Problem) -> Tensor:
    """Query, key and value of all heads side by side, ``(1, n, 3 h d)``."""
    sides = (problem.query, problem.key, problem.value)
    return torch.cat([side.transpose(1, 2).flatten(2) for side in sides], dim=-1)


def _split_heads(joined: Tensor, heads: int) -> Tensor:
    return joined.reshape(*joined.shape[:2], heads, -1).transpose(1, 2)  # (1, heads, n, d)


@_peer("local-attention", "local_attention", "window")
def local_attention(problem: Problem) -> Run:
    # It does not count its own key. Its position encoding, on by default, is switched off.
    attention = _import_quietly("local_attention").LocalAttention(
        window_size=WINDOW - 1,
        causal=True,
        exact_windowsize=True,
        autopad=True,
        use_rotary_pos_emb=False,
    )
    attention = _prepare_module(attention, problem)
    return lambda: attention(problem.query, problem.key, problem.value)


@_peer("linear-attention-transformer", "linear_attention_transformer", "dense", "causal")
def linear_attention_transformer(problem: Problem) -> Run:
    package = _import_quietly("linear_attention_transformer.linear_attention_transformer")
    # Not causal, its answer has a factor 1/sqrt(d) too many, which a layer's projection can undo.
    if not problem.is_causal:
        return lambda: package.linear_attn(problem.query, problem.key, problem.value)
    # As its layer calls it; with larger buckets, a token does not see those of its own bucket.
    return lambda: package.causal_linear_attn(
        problem.query, problem.key, problem.value, bucket_size=1
    )


@_peer("performer-pytorch", "performer_pytorch", "dense", "causal")
def performer(problem: Problem) -> Run:
    with contextlib.redirect_stdout(io.StringIO()):  # says that its CUDA kernel is missing
        attention = _import_quietly("performer_pytorch").FastAttention(
            dim_heads=problem.query.shape[-1], causal=problem.is_causal
        )
    attention = _prepare_module(attention, problem)
    return lambda: attention(problem.query, problem.key, problem.value)


@_peer("reformer-pytorch", "reformer_pytorch", "dense", "causal")
def reformer(problem: Problem) -> Run:
    # Queries serve as keys, so its answer is to another question, and its error is too. It hashes
    # in 8 rounds unless told otherwise.
    attention = _import_quietly("reformer_pytorch").LSHAttention(
        causal=problem.is_causal, n_hashes=LSH_ROUNDS
    )
    attention = _prepare_module(attention, problem)

    def run() -> Tensor:
        output: Tensor
        output, *_ = attention(problem.query[0], problem.value[0])  # heads as batches
        return output[None]

    return run


@_peer("nystrom-attention", "nystrom_attention", "dense")
def nystrom(problem: Problem) -> Run:
    heads, head_dim = problem.query.shape[1], problem.query.shape[-1]
    layer = _import_quietly("nystrom_attention").NystromAttention(
        dim=heads * head_dim, dim_head=head_dim, heads=heads, num_landmarks=64, residual=False
    )
    layer.to_qkv = layer.to_out = nn.Identity()
    layer = _prepare_module(layer, problem)
    return lambda: _split_heads(layer(_join_heads(problem)), heads)


@_peer("linformer", "linformer", "dense", name="linformer-pytorch")
def linformer(problem: Problem) -> Run:
    heads, n, head_dim = problem.query.shape[1:]
    layer = _import_quietly("linformer").LinformerSelfAttention(
        dim=heads * head_dim, seq_len=n, heads=heads, k=256
    )
    layer.to_q, layer.to_k, layer.to_v = (_Part(index) for index in range(3))
    layer.to_out = nn.Identity()
    layer = _prepare_module(layer, problem)
    return lambda: _split_heads(layer(_join_heads(problem)), heads)


@_peer(
    "memory-efficient-attention-pytorch", _RABE, "dense", "causal", name="memory-efficient-pytorch"
)
def memory_efficient(problem: Problem) -> Run:
    function = _import_quietly(f"{_RABE}.memory_efficient_attention").memory_efficient_attention
    query, key, value = problem.query, problem.key, problem.value
    return lambda: function(query, key, value, causal=problem.is_causal)


@_peer("x-transformers", "x_transformers", "dense", "causal")
def x_transformers(problem: Problem) -> Run:
    attend = _import_quietly("x_transformers.attend").Attend(
        heads=problem.query.shape[1], causal=problem.is_causal, flash=False
    )
    attend = _prepare_module(attend, problem)
    return lambda: attend(problem.query, problem.key, problem.value)[0]


@_peer("x-transformers", "x_transformers", "layer")
def x_transformers_layer(problem: Problem) -> Run:
    theirs = problem.layer
    assert theirs is not None
    attention = _import_quietly("x_transformers").Attention(
        dim=theirs.embed_dim, heads=theirs.num_heads, dim_head=theirs.head_dim
    )
    query, key, value = theirs.in_proj_weight.detach().chunk(3)
    state = {"to_q": query, "to_k": key, "to_v": value, "to_out": theirs.out_proj.weight.detach()}
    attention.load_state_dict({f"{name}.weight": weight for name, weight in state.items()})
    attention = _prepare_module(attention, problem)
    return lambda: attention(problem.query)


@_peer("transformers", "transformers", "delta")
def transformers(problem: Problem) -> Run:
    # What Qwen3-Next runs where no kernels are installed, which it says when it is imported.
    model = _import_quietly("transformers.models.qwen3_next.modeling_qwen3_next")
    return _delta(problem, model.torch_chunk_gated_delta_rule)


@_peer("fla-core", "fla", "delta")
def flash_linear_attention(problem: Problem) -> Run:
    # Its reference in PyTorch; the package itself wants Triton.
    return _delta(
        problem, _load_file("fla", "ops/gated_delta_rule/naive.py").naive_chunk_gated_delta_rule
    )


def _delta(problem: Problem, rule: Callable[..., Any]) -> Run:
    """Both have tokens before heads, and return a state too."""

    def run() -> Tensor:
        output: Tensor
        output, _ = rule(
            *(side.transpose(1, 2) for side in (problem.query, problem.key, problem.value)),
            g=problem["log_decay"].transpose(1, 2),
            beta=problem["beta"].transpose(1, 2),
        )
        return output.transpose(1, 2)

    return run
