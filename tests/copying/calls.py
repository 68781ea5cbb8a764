"""What to call each function with, and what it gives, in plain numbers.

It imports torch alone, for it also runs in the process that does not have the package. Arguments
are known by their names, which mean the same throughout the package; sizes are primes.
"""

import dataclasses
import inspect

import torch
from torch import Tensor, nn

N, HEADS, D_K, D_V = 11, 3, 5, 7


def randn(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


def arguments(module):
    """By name; types that only ``module`` has are made by it, when they are asked for."""

    def partial(seed):
        return module.partial_attention(randn(2, N, N, seed=seed), randn(2, N, D_V, seed=seed + 1))

    return {
        "bias": lambda: randn(HEADS, 2 * N - 1, seed=27).requires_grad_(),
        "block_size": lambda: 5,
        "block_table": lambda: torch.tensor([[1, 0], [2, -1]]),
        "bytes_per_second": lambda: 1e11,
        "cap": lambda: 2.0,
        "num_blocks": lambda: 3,
        "num_keys": lambda: 3,
        "cu_seqlens": lambda: torch.tensor([0, 4, N]),
        "dilation": lambda: 2,
        "dim": lambda: 6,
        "distance": lambda: torch.arange(1 - N, N),
        "dtype": lambda: torch.float32,
        "embed_dim": lambda: 21,
        "factor": lambda: randn(HEADS, 1, 1, seed=1),
        "generator": lambda: torch.Generator().manual_seed(3),
        "global_blocks": lambda: 1,
        "gates": lambda: randn(HEADS, N, 3, seed=27).requires_grad_(),
        "head_dim": lambda: D_K,
        "initial": lambda: 0.2,
        "ids": lambda: [0, 0, 1, 1, -1],
        "index_key": lambda: randn(2, N, 4, seed=28).requires_grad_(),
        "index_query": lambda: randn(2, 2, N, 4, seed=29).requires_grad_(),
        "index_weights": lambda: randn(2, 2, N, seed=30).requires_grad_(),
        "key": lambda: randn(2, HEADS, N, D_K, seed=4).requires_grad_(),
        "key_projection": lambda: randn(3, N, seed=5),
        "key_up": lambda: randn(HEADS, D_K, 11, seed=24).requires_grad_(),
        "latent": lambda: randn(2, N, 11, seed=25).requires_grad_(),
        "lambd": lambda: torch.tensor(0.6).requires_grad_(),
        "layer": lambda: 3,
        "layout": lambda: torch.tensor([[1, 0, 1], [0, 1, 0], [1, 1, 0]]).bool(),
        "length": lambda: N,
        "lengths": lambda: [3, 5],
        "m": lambda: N,
        "max_length": lambda: 13,
        "n": lambda: N,
        "name": lambda: "plain",
        "num_buckets": lambda: 4,
        "num_features": lambda: 7,
        "num_heads": lambda: HEADS,
        "num_landmarks": lambda: 3,
        "num_pages": lambda: 7,
        "num_rounds": lambda: 2,
        "parents": lambda: [-1, 0, 0, 1, -1, 4],
        "one": lambda: partial(6),
        "operations_per_second": lambda: {torch.float32: 1e12},
        "other": lambda: partial(8),
        "positions": lambda: [0, 5],
        "prefix": lambda: 4,
        "first": lambda: 2,
        "projection": lambda: randn(17, D_K, seed=10),
        "query": lambda: randn(2, HEADS, N, D_K, seed=11).requires_grad_(),
        "random_blocks": lambda: 1,
        "rank": lambda: 3,
        "rotations": lambda: randn(2, D_K, 3, seed=12),
        "rule": lambda: lambda i, j: j > i,
        "scores": lambda: randn(2, HEADS, N, N, seed=13).requires_grad_(),
        "shape": lambda: (N, 13),
        "stretch": lambda: 4.0,
        "stride": lambda: 3,
        "target": lambda: 1.0,
        "tensor": lambda: randn(N, 6, seed=14),
        "tokens": lambda: randn(2, HEADS, N, D_K, seed=15).requires_grad_(),
        "value": lambda: randn(2, HEADS, N, D_V, seed=16).requires_grad_(),
        "value_projection": lambda: randn(3, N, seed=17),
        "value_up": lambda: randn(HEADS, D_V, 11, seed=26).requires_grad_(),
        "vector": lambda: randn(2, N, seed=18),
        "visible": lambda: torch.arange(1, N + 1),
        "weights": lambda: torch.softmax(randn(2, N, seed=19), -1).requires_grad_(),
        "window": lambda: 3,
        "window_blocks": lambda: 1,
        "x": lambda: randn(2, N, 6, seed=20).requires_grad_(),
    }


# Arguments that are given although they have a default: it is random, or too large for N.
OPTIONAL = {"generator", "num_landmarks"}

# Where a name means something else than elsewhere.
OTHERWISE = {
    "differential_attention": {
        "query": lambda: randn(2, HEADS, N, 2 * D_K, seed=11).requires_grad_(),
        "key": lambda: randn(2, HEADS, N, 2 * D_K, seed=4).requires_grad_(),
    },
    "linear_attention_step": {
        name: lambda width=width: randn(HEADS, 1, width, seed=width)
        for name, width in {"query": D_K, "key": D_K, "value": D_V}.items()
    },
}

PAGES = {
    name: lambda width=width: randn(3, 4, HEADS, width, seed=width).requires_grad_()
    for name, width in {"key": D_K, "value": D_V}.items()
}
OTHERWISE["paged_attention"] = {**PAGES, "lengths": lambda: torch.tensor([7, 3])}

# Types that hold what they are given, whatever it is.
RECORDS = {
    "Attention",
    "LinearState",
    "Partial",
    "QuantizedTokens",
    "Roofline",
    "ScoreStatistics",
}


def run_paged(cache):
    """A fork of some tokens, of which it writes one more, and the pages of both."""
    one = cache.start([5, 7])
    one.append(randn(2, 6, D_K, seed=27), randn(2, 6, D_V, seed=28), range(6))
    other = one.fork()
    other.append(randn(2, 1, D_K, seed=29), randn(2, 1, D_V, seed=30))
    return *cache.block_table([one, other]), *other.gather()


def bounded(machine):
    """A cost under its roofline, of the type that its own module has."""
    cost = machine.roofline.__globals__["Cost"](bytes_read=10**6)
    return machine.roofline(cost, dtype=torch.float32)


# How an object of a class is put to use.
OBJECTS = {
    "KVCache": lambda cache: cache.append(randn(2, N, D_K, seed=21), randn(2, N, D_V, seed=22)),
    "StreamingCache": lambda cache: (
        cache.append(randn(2, N, D_K, seed=21), randn(2, N, D_V, seed=22)),
        cache.mask(3).dense(),
    ),
    "LearnedPositions": lambda layer: layer(N),
    "LearnedLambda": lambda layer: layer(),
    "LearnedTemperature": lambda layer: layer(),
    "Machine": bounded,
    "Mask": lambda mask: mask.dense(),
    "MultiHeadAttention": lambda layer: layer(randn(2, N, 21, seed=23), is_causal=True),
    "PagedCache": run_paged,
}


def outcomes(module, name):
    """What the function or class ``name`` of ``module`` gives, and gradients where it has them."""
    function = getattr(module, name)
    parameters = inspect.signature(function).parameters
    known = arguments(module) | OTHERWISE.get(name, {})
    if name in RECORDS:
        known = {field: lambda field=field: field for field in parameters}
    found = []
    for causal in (False, True) if "is_causal" in parameters else (None,):
        given = {
            parameter.name: known[parameter.name]()
            for parameter in parameters.values()
            if parameter.default is parameter.empty or parameter.name in OPTIONAL
        }
        if causal is not None:
            given["is_causal"] = causal
        try:
            made = simplify(function(**given))
        except ValueError as error:
            if not str(error).startswith("is_causal: expected False"):
                raise
            continue  # of a method that is causal, or never is
        inputs = [one for one in given.values() if isinstance(one, Tensor) and one.requires_grad]
        outputs = [one for one in tensors(made) if one.requires_grad]
        if inputs and outputs:
            sum(output.square().sum() for output in outputs).backward()
        found.append((detach(made), [one.grad for one in inputs]))
    return found


def simplify(result):
    """Tensors, numbers and strings, in tuples."""
    kind = type(result).__name__
    if kind in OBJECTS:
        return simplify(OBJECTS[kind](result))
    assert not isinstance(result, nn.Module), f"say in OBJECTS how a {kind} is used"
    if dataclasses.is_dataclass(result):
        return tuple(simplify(getattr(result, field.name)) for field in dataclasses.fields(result))
    if isinstance(result, list | tuple):
        return tuple(map(simplify, result))
    if isinstance(result, dict):
        return tuple((str(key), simplify(value)) for key, value in result.items())
    return result if isinstance(result, Tensor | int | float) else str(result)


def tensors(result):
    return [leaf for leaf in leaves(result) if isinstance(leaf, Tensor)]


def leaves(result):
    if isinstance(result, list | tuple):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


def is_same(one, other):
    """Whether two results are equal to the last bit."""
    pairs = list(zip(leaves(one), leaves(other), strict=True))
    return all(
        torch.allclose(a, b, rtol=0, atol=0, equal_nan=True) and a.dtype == b.dtype
        if isinstance(a, Tensor)
        else a == b
        for a, b in pairs
    )


def detach(result):
    if isinstance(result, tuple):
        return tuple(map(detach, result))
    return result.detach() if isinstance(result, Tensor) else result
