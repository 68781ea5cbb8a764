"""The cost of attention in a model: operations, bytes, memory and time, at a length and over all.

First of all it says whether the model fits: its weights, and what it keeps of the tokens.

The reader chooses a model or types its sizes, a phase, an attention and a machine. The chosen
attention is compared with full attention, causal and with a key head for each head, and with the
projections around it; feed-forward layers are left out. Numbers are of all layers, and of the whole
batch.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

from attnref import cost
from attnref.cost.kernels import linear_layer, pass_over
from attnref.roofline import Machine, Roofline

State = dict[str, Any]

# Name, then layers, width, heads, key heads, width of a head, the numbers through which the queries
# of a latent layer pass, and all parameters; tests/peers/test_cost_calculator.py has their source.
MODELS = {
    "bert-base": ("BERT-base", 12, 768, 12, 12, 64, 0, 109_514_298),
    "gpt-2": ("GPT-2", 12, 768, 12, 12, 64, 0, 124_439_808),
    "gpt-j": ("GPT-J 6B", 28, 4096, 16, 16, 256, 0, 6_050_882_784),
    "gpt-3": ("GPT-3 175B", 96, 12_288, 96, 96, 128, 0, 174_604_259_328),
    "falcon-7b": ("Falcon 7B", 32, 4544, 71, 1, 64, 0, 6_921_720_704),
    "gemma-7b": ("Gemma 7B", 28, 3072, 16, 16, 256, 0, 8_537_680_896),
    "llama-2-7b": ("Llama 2 7B", 32, 4096, 32, 32, 128, 0, 6_738_415_616),
    "mistral-7b": ("Mistral 7B", 32, 4096, 32, 8, 128, 0, 7_241_732_096),
    "llama-3.1-8b": ("Llama 3.1 8B", 32, 4096, 32, 8, 128, 0, 8_030_261_248),
    "llama-3.1-70b": ("Llama 3.1 70B", 80, 8192, 64, 8, 128, 0, 70_553_706_496),
    "llama-3.1-405b": ("Llama 3.1 405B", 126, 16_384, 128, 8, 128, 0, 405_853_388_800),
    "gpt-oss-120b": ("gpt-oss 120B", 36, 2880, 64, 8, 64, 0, 116_829_156_672),
    "deepseek-v3": ("DeepSeek-V3", 61, 7168, 128, 128, 128, 1536, 671_026_404_352),
}
# What a model has been trained with, if not causal with its own key heads in every layer.
TRAINED_WITH = {"bert-base": "all-pairs", "mistral-7b": "window", "deepseek-v3": "latent"}
FIELDS = ("layers", "width", "heads", "kv_heads", "head_dim")
ROTARY_DIM = 64  # of the latent attention, as in DeepSeek-V3
# Trillions of operations in 16 bits, of bytes and, where they have a unit, of exponentials a
# second, as on the page about the roofline; the example is of round numbers.
MACHINES: dict[str, tuple[float, float, float | None]] = {
    "A100": (312.0, 2.0, None),
    "H100": (989.0, 3.35, 3.9),
    "B200": (2250.0, 8.0, 2250.0 * 16 / 8192),
    "example": (100.0, 1.0, None),
}
GIGABYTES = {"A100": 80, "H100": 80, "B200": 180, "example": 100}  # of 10^9 bytes each
DTYPES = {
    str(one).removeprefix("torch."): one
    for one in (torch.float32, torch.bfloat16, torch.float8_e4m3fn)
}
LONGEST = 2**20
ENDLESS = 2**50  # tokens or sequences: if so many fit, any number does
OCTAVES = range(4, 21)  # of the chart: 16 to 1048576 tokens
COLUMNS = ("core", "full", "projections")

STATE: State = {
    "model": "mistral-7b",
    **dict(zip(FIELDS, MODELS["mistral-7b"][1:6], strict=True)),
    "parameters": 7.242,
    "phase": "prefill",
    "n": 32_768,
    "batch": 1,
    "dtype": "bfloat16",
    "attention": "window",
    "window": 4096,
    "latent": 512,
    "bits": 4,
    "machine": "H100",
    "speed": 100,
    "bandwidth": 1,
    "gigabytes": 80,
    "quantity": "operations",
}
PROGRAM = True


def values(state: State) -> dict[str, float]:
    """All that is shown: of this length, over all lengths, and where lines cross."""
    n, found = state["n"], dict[str, float]()
    costs = {column: spent(state, column, n) for column in COLUMNS}
    for column, one in costs.items():
        roof = roofline(state, one)
        found[f"{column}-operations"] = one.operations.total
        found[f"{column}-bytes"] = one.bytes_moved
        found[f"{column}-intensity"] = roof.intensity
        found[f"{column}-seconds"] = roof.seconds
    for column in ("core", "full"):
        found[f"{column}-cache"] = cache(state, kind_of(state, column), n)
    found["full-scores"] = sizes(state, "multi-head", n).score_bytes
    for name in tuple(found):
        found[f"{name}-brief"] = brief(found[name], name)[0]
    for length in (2**octave for octave in OCTAVES):
        for column in shown_columns(state):
            value = quantity(state, column, length)
            found[f"{column}-at-{length}"] = brief(value, f"{column}-{state['quantity']}")[0]
    found["ridge"] = roofline(state, costs["core"]).balance
    return found | crossings(state) | fit(state)


def model(state: State) -> tuple[int, int, int, int, int, int]:
    """Layers, width, heads, key heads, width of a head, numbers before the queries."""
    if state["model"] == "own":
        layers, width, heads, kv_heads, head_dim = (state[field] for field in FIELDS)
        return layers, width, heads, kv_heads, head_dim, 0
    return MODELS[state["model"]][1:7]


def parameters(state: State) -> int:
    own = round(state["parameters"] * 1e9)
    return own if state["model"] == "own" else MODELS[state["model"]][7]


def kind_of(state: State, column: str) -> str:
    return "multi-head" if column == "full" else state["attention"]


def sizes(state: State, kind: str, length: int) -> cost.Sizes:
    """Of one layer; the queries are one new token while decoding, and all tokens otherwise."""
    _, _, heads, kv_heads, d, _ = model(state)
    if kind in ("multi-head", "latent", "linear"):
        kv_heads = heads
    if kind == "multi-query":
        kv_heads = 1
    decoding = state["phase"] == "decoding"
    return cost.Sizes(
        n=1 if decoding else length,
        m=min(length, state["window"]) if decoding and kind == "window" else length,
        d_k=d,
        d_v=d,
        batch=state["batch"],
        num_heads=heads,
        num_kv_heads=kv_heads,
        dtype=DTYPES[state["dtype"]],
    )


def spent(state: State, column: str, length: int) -> cost.Cost:
    """Of all layers: the attention chosen, full attention, or the projections around the first."""
    kind, layers = kind_of(state, column), model(state)[0]
    one = projections if column == "projections" else core
    # Of plain, with its gradients; of the others, as the page about the phases counts.
    times = 3 if state["phase"] == "training" and (one, kind) != (core, "plain") else 1
    return one(state, kind, length) * times * layers


def core(state: State, kind: str, length: int) -> cost.Cost:
    """Of one layer, forward; of the plain formula with its gradients in training."""
    of = sizes(state, kind, length)
    causal = cost.allowed_pairs(of.n, of.m, window=(None, of.m - of.n))
    match kind:
        case "all-pairs":
            return cost.of("fused", of)
        case "plain" if state["phase"] == "training":
            backward = cost.of("plain", of, masked=True, backward=True)
            return cost.of("plain", of, masked=True) + backward
        case "plain":
            return cost.of("plain", of, masked=of.n > 1)
        case "window" if of.n > 1:
            near = cost.allowed_pairs(of.n, of.m, window=(state["window"] - 1, 0))
            return cost.of("fused", of, pairs=near)
        case "latent":
            return cost.of(
                "latent",
                of,
                latent_dim=state["latent"],
                rotary_dim=ROTARY_DIM,
                absorb=state["phase"] == "decoding",
                pairs=causal,
            )
        case "linear" if state["phase"] == "decoding":  # one token is added to the state
            step = sizes(state, kind, 1)
            return cost.of("linear", step) + cost.Cost(bytes_read=step.state_bytes)
        case "linear":
            return cost.of("linear", of)
        case "quantized":
            return cost.of("quantized", of, bits=state["bits"], pairs=causal)
        case _:
            return cost.of("fused", of, pairs=causal)


def projections(state: State, kind: str, length: int) -> cost.Cost:
    """Of one layer, forward."""
    of = sizes(state, kind, length)
    _, width, heads, _, d, query_latent = model(state)
    if kind != "latent":
        return cost.multihead(of, width, cost.Cost(), bias=False)
    tokens, size, queries = of.batch * of.n, of.dtype.itemsize, heads * (d + ROTARY_DIM)
    steps = [(width, query_latent), (query_latent, queries)] if query_latent else [(width, queries)]
    steps += [(width, state["latent"] + ROTARY_DIM), (heads * d, width)]
    joined = pass_over(tokens * heads * d, size)
    return sum((linear_layer(tokens, *step, size, False) for step in steps), joined)


def cache(state: State, kind: str, length: int) -> int:
    """What all layers keep of the tokens, in bytes."""
    of = sizes(state | {"phase": "decoding"}, kind, length)
    each = of.cache_bytes
    if kind == "latent":
        shape = {"d_k": state["latent"] + ROTARY_DIM, "d_v": 0}
        each = cost.Sizes(n=1, m=length, batch=of.batch, dtype=of.dtype, **shape).cache_bytes
    if kind == "linear":
        each = of.state_bytes
    if kind == "quantized":
        few, wide = cost.of("quantized", of, bits=state["bits"]), cost.of("fused", of)
        each += few.bytes_read - wide.bytes_read
    return model(state)[0] * each


def fit(state: State) -> dict[str, float]:
    """Weights and cache beside the memory of a machine, and for what else one has room."""
    memory = int(GIGABYTES.get(state["machine"]) or state["gigabytes"]) * 10**9
    weights = parameters(state) * DTYPES[state["dtype"]].itemsize

    def held(n: int, batch: int) -> int:
        return weights + cache(state | {"batch": batch}, state["attention"], n)

    n, batch = state["n"], state["batch"]
    sizes = {"weights": weights, "kept": held(n, batch) - weights, "memory": memory}
    sizes["held"] = held(n, batch)
    found: dict[str, float] = {f"{name}-GB": size / 1e9 for name, size in sizes.items()}
    rooms = {
        "machines": -(-held(n, batch) // memory),
        "room-tokens": most(lambda length: held(length, batch) <= memory),
        "room-batch": most(lambda sequences: held(n, sequences) <= memory),
    }
    return found | {name: count for name, count in rooms.items() if count is not None}


def most(holds: Callable[[int], bool]) -> int | None:
    """The largest number for which it holds, as for all below; None if for any, 0 if for none."""
    if holds(ENDLESS):
        return None
    low, high = 0, ENDLESS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def roofline(state: State, of: cost.Cost) -> Roofline:
    """Arithmetic at the speed for 16 bits, whatever the numbers are stored in."""
    name = state["machine"]
    speed, memory, exponentials = MACHINES.get(name, (state["speed"], state["bandwidth"], None))
    rate = exponentials and exponentials * 1e12
    machine = Machine(name, {torch.bfloat16: speed * 1e12}, memory * 1e12, rate)
    return machine.roofline(of, dtype=torch.bfloat16)


def shown_columns(state: State) -> tuple[str, ...]:
    return COLUMNS[:2] if state["quantity"] == "cache" else COLUMNS


def quantity(state: State, column: str, length: int) -> float:
    """What the chart shows of a line at a length."""
    if state["quantity"] == "cache":
        return cache(state, kind_of(state, column), length)
    one = spent(state, column, length)
    if state["quantity"] == "seconds":
        return roofline(state, one).seconds
    return one.operations.total if state["quantity"] == "operations" else one.bytes_moved


def crossings(state: State) -> dict[str, float]:
    """Where the core takes as much as the projections, and where less than full attention."""

    def overtakes(length: int) -> bool:
        return quantity(state, "core", length) >= quantity(state, "projections", length)

    def saves(length: int) -> bool:
        return quantity(state, "core", length) < quantity(state, "full", length)

    found = {"saves": crossing(saves)}
    if state["quantity"] != "cache":
        found["overtakes"] = crossing(overtakes)
    return {name: length for name, length in found.items() if length}


def crossing(holds: Callable[[int], bool]) -> int:
    """A length at which it holds, and does not one token before; 0 if not at the longest."""
    if not holds(LONGEST):
        return 0
    low, high = 0, LONGEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


UNITS = {
    "operations": (1000, ("", "k", "M", "G", "T", "P", "E", "Z", "Y")),
    "intensity": (1000, ("", "k", "M", "G", "T", "P")),
    "bytes": (1000, ("B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")),
    "cache": (1000, ("B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")),
    "scores": (1000, ("B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")),
    "seconds": (1000, ("ns", "µs", "ms", "s")),
}


def brief(value: float, name: str) -> tuple[float, str]:
    """A number in the unit in which it is read most easily."""
    base, units = UNITS[name.split("-")[1]]
    value, place = value * 1e9 if units[0] == "ns" else value, 0
    while value >= base and place + 1 < len(units):
        value, place = value / base, place + 1
    return value, units[place]


# The drawing before a script comes; docs/shared/explorers/cost/view.js draws the same.
LEFT, RIGHT, TOP, BOTTOM, TICKS = 66, 548, 14, 250, 9


def x_position(length: float) -> float:
    octaves = min(max(math.log2(length), OCTAVES[0]), OCTAVES[-1])
    return LEFT + (octaves - OCTAVES[0]) / len(OCTAVES[1:]) * (RIGHT - LEFT)


def drawing(state: State) -> dict[str, Any]:
    """What the chart shows of a state, and the words beside its numbers."""
    lengths = [2 ** (quarter / 4) for quarter in range(4 * OCTAVES[0], 4 * OCTAVES[-1] + 1)]
    columns = shown_columns(state)
    lines = {one: [quantity(state, one, round(x)) for x in lengths] for one in columns}
    every = [value for line in lines.values() for value in line]
    low, high = math.floor(math.log10(min(every))), math.floor(math.log10(max(every))) + 1

    def y_position(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return round(BOTTOM - share * (BOTTOM - TOP), 1)

    paths = {
        one: "M"
        + "L".join(
            f"{x_position(x):.1f} {y_position(y)}" for x, y in zip(lengths, line, strict=True)
        )
        for one, line in lines.items()
    }
    base, units = UNITS[state["quantity"]]
    first = 1e-9 if units[0] == "ns" else 1
    ticks = [(y_position(first * base**k), f"1 {unit}") for k, unit in enumerate(units)]
    found, n = values(state), state["n"]
    return {
        "paths": paths,
        "ticks": [tick for tick in ticks if TOP <= tick[0] <= BOTTOM],
        "x": round(x_position(n), 1),
        "dots": {one: y_position(quantity(state, one, n)) for one in columns},
        "crossings": {
            one: (
                round(x_position(found[one]), 1),
                y_position(quantity(state, "core", int(found[one]))),
            )
            for one in ("saves", "overtakes")
            if found.get(one, 0) >= 2 ** OCTAVES[0]
        },
        "units": {
            name: brief(found[name.removesuffix("-brief")], name)[1]
            for name in found
            if name.endswith("-brief")
        }
        | {
            f"{column}-at-{2**octave}": brief(
                quantity(state, column, 2**octave), f"{column}-{state['quantity']}"
            )[1]
            for column in columns
            for octave in OCTAVES
        },
        "bounds": {one: roofline(state, spent(state, one, n)).bound for one in COLUMNS},
        "models": MODELS,
        "trained": {key: TRAINED_WITH.get(key, "grouped") for key in MODELS},
        "machines": MACHINES,
        "gigabytes": GIGABYTES,
        "sizes": dict(zip(FIELDS, model(state), strict=False))
        | {"billions": f"{parameters(state) / 1e9:.2f}"},
        "octaves": OCTAVES,
    }
