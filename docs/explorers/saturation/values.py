"""Scores, weights and the softmax's Jacobian of one drawn sample, beside the law of normal scores.

The sample is 64 queries and up to 256 keys of standard normal components, which JavaScript draws
too, bit for bit. What attention makes of them is computed by attnref. The law says what to expect
of n independent scores from N(0, c² d_k), and is drawn over the width for each factor.
"""

import inspect
import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from attnref import score_statistics

STATE = {"d_k": 64, "factor": "none", "own": 0.5, "n": 64, "seed": 1}
PROGRAM = True

QUERIES, KEYS = 64, 256
POWERS = {"none": 0.0, "sqrt": -0.5, "inverse": -1.0}  # of d_k
HALF_OCTAVES = 18  # from a width of 1 to one of 512
BINS = {"scores": 32, "rows": 25}


def normals(seed: int, count: int) -> Tensor:
    """Standard normal numbers, an even count: mulberry32, then Box and Muller."""
    state = seed + 0x6D2B79F5 * torch.arange(1, count + 1)
    state = state & 0xFFFFFFFF
    bits = (state ^ state >> 15) * (state | 1) & 0xFFFFFFFF
    bits = bits ^ bits + (bits ^ bits >> 7) * (bits | 61) & 0xFFFFFFFF
    uniform = ((bits ^ bits >> 14).double() + 0.5) / 2**32
    radius, angle = (-2 * uniform[0::2].log()).sqrt(), 2 * torch.pi * uniform[1::2]
    return torch.stack((radius * angle.cos(), radius * angle.sin()), -1).flatten()


def law(sigma: float, n: int) -> tuple[float, float, float]:
    """The mean largest weight, entropy and trace of n independent scores from N(0, sigma²).

    Given the largest score, the others lie y below it, independently, and with the sum S of
    their e^-y the largest weight is 1/(1 + S). Since 1/(1 + S) is the integral of e^-v(1 + S)
    over all v > 0, its mean is an integral over powers of a mean over a single y.
    """
    z = torch.arange(-4, 7, 0.1, dtype=torch.float64)  # the largest score, divided by sigma
    x = torch.arange(-4, 4.5, 0.06, dtype=torch.float64)
    v = (x - (-x).exp()).exp()  # from 0 to infinity, with steps dv
    dv = 0.06 * (1 + (-x).exp()) * v
    y, dy = min(sigma, 1) * v, min(sigma, 1) * dv

    chance = (z[:, None] - y / sigma).square().mul(-0.5).exp() * dy / sigma  # (z, y)
    chance = chance / math.sqrt(2 * torch.pi) / torch.special.ndtr(z)[:, None]
    fade = (-v[:, None] * (-y).exp()).exp()  # (v, y)
    alone = 1 - chance @ (1 - fade).mT  # (z, v), the mean of exp(-v e^-y)
    lagging = chance @ (fade * y * (-y).exp()).mT
    squares = chance @ (fade * (-2 * y).exp()).mT

    leads = n * (-z.square() / 2).exp() / math.sqrt(2 * torch.pi) * torch.special.ndtr(z) ** (n - 1)
    rest, others, end = alone ** (n - 1), (n - 1) * alone ** (n - 2), (-v).exp() * dv

    largest = 0.1 * leads @ rest @ end
    entropy = 0.1 * leads @ ((1 - rest) @ (end / v) + others * lagging @ end)
    squared = 0.1 * leads @ (rest @ (end * v) + others * squares @ (end * v))
    return float(largest), float(entropy), float(1 - squared)


def scale_of(state: dict[str, Any]) -> float:
    """The factor c."""
    power = POWERS.get(state["factor"])
    return float(state["own"]) if power is None else float(state["d_k"] ** power)


def draw_inputs(state: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The queries ``(64, d_k)`` and the keys ``(n, d_k)``: a larger n or d_k only adds to them."""
    count = QUERIES + KEYS
    numbers = normals(state["seed"], count * state["d_k"]).view(-1, count)
    return numbers[:, :QUERIES].mT, numbers[:, QUERIES : QUERIES + state["n"]].mT


def measure(state: dict[str, Any]) -> tuple[float, dict[str, Tensor]]:
    """The standard deviation of all scores, and three numbers of each query."""
    query, key = draw_inputs(state)
    n, scale = state["n"], scale_of(state)
    upstream = torch.zeros(QUERIES, 1, n).double()
    every = score_statistics.measure(query, key, scale=scale, upstream=upstream.squeeze(1))
    rows = score_statistics.measure(
        query[:, None], key.expand(QUERIES, n, -1), scale=scale, upstream=upstream
    )
    return every.logit_variance.sqrt().item(), {
        "largest": rows.max_weight,
        "entropy": rows.entropy,
        "trace": rows.jacobian_trace,
    }


def values(state: dict[str, Any]) -> dict[str, float]:
    deviation, rows = measure(state)
    sigma = scale_of(state) * math.sqrt(state["d_k"])
    found = {
        "factor": scale_of(state),
        "scores": QUERIES * state["n"],
        "deviation-drawn": deviation,
        "deviation-law": sigma,
        "entropy-most": math.log(state["n"]),
        "range-high": span(sigma),
        "range-low": -span(sigma),
    }
    for (name, numbers), expected in zip(rows.items(), law(sigma, state["n"]), strict=True):
        found[f"{name}-drawn"] = numbers.mean().item()
        found[f"{name}-median"] = numbers.quantile(0.5).item()
        found[f"{name}-law"] = expected
    return found


def span(sigma: float) -> float:
    """Where the axis of the scores ends: a power of two, from four to eight times sigma."""
    return float(4 * 2.0 ** math.ceil(math.log2(sigma) - 1e-9))


def drawing(state: dict[str, Any]) -> dict[str, Any]:
    """What there is to see of a state, and what a program needs that computes it."""
    return {"paths": paths(state), "program": program()}


def paths(state: dict[str, Any]) -> dict[str, str]:
    """Paths in a square of 1 by 1."""
    return {**width_curves(state), **distributions(state)}


def width_curves(state: dict[str, Any]) -> dict[str, str]:
    """The law of each factor over the widths from 1 to 512, and dots for what was drawn at this."""
    n, across = state["n"], place(state["d_k"])
    found = {"here": f"M{across:.4f} 0V1"}
    for factor in (*POWERS, "own"):
        is_shown = factor in (state["factor"], *POWERS)
        lines = curves(factor, state["own"], n) if is_shown else {}
        deviation, rows = measure({**state, "factor": factor})
        dots = {"deviation": height(deviation)} | {
            name: (row.mean() / maximum(name, n)).item() for name, row in rows.items()
        }
        for name, dot in dots.items():
            found[f"{name}-{factor}"] = line(lines.get(name, []))
            found[f"{name}-{factor}-dot"] = f"M{across:.4f} {dot:.4f}h0" if is_shown else ""
    return found


def distributions(state: dict[str, Any]) -> dict[str, str]:
    """How the scores, and the numbers of the queries, are distributed, and what the law says."""
    n, scale = state["n"], scale_of(state)
    sigma, count = scale * math.sqrt(state["d_k"]), BINS["scores"]
    query, key = draw_inputs(state)
    scores, end = scale * query @ key.mT, span(sigma)
    shares = shares_of(scores / end / 2 + 0.5, count)
    over = torch.linspace(0, 1, 2 * count + 1).double()
    bell = (-((over - 0.5) * 2 * end / sigma).square() / 2).exp() * 2 * end / count
    bell = bell / sigma / math.sqrt(2 * torch.pi)
    top = max(shares.max().item(), bell.max().item())
    found = {
        "scores-bars": bars(shares / top),
        "scores-law": line(zip((bell / top).tolist(), over.tolist(), strict=True)),
    }
    rows = measure(state)[1]
    for (name, row), expected in zip(rows.items(), law(sigma, n), strict=True):
        shares = shares_of((row / maximum(name, n)).clamp(0, 1), BINS["rows"])
        found[f"{name}-bars"] = bars(shares / shares.max())
        found[f"{name}-law"] = f"M0 {expected / maximum(name, n):.4f}H1"
    return found


def place(d_k: float) -> float:
    return math.log2(d_k) / 9


def height(deviation: float) -> float:
    """A standard deviation on its axis, from 0.01 to 100."""
    return (math.log10(deviation) + 2) / 4


def maximum(name: str, n: int) -> float:
    return math.log(n) if name == "entropy" else 1.0


@cache
def curves(factor: str, own: float, n: int) -> dict[str, list[tuple[float, float]]]:
    """The law over the width."""
    found: dict[str, list[tuple[float, float]]] = {}
    for step in range(HALF_OCTAVES + 1):
        root = 2.0 ** (step / 4)  # of the width
        sigma = {"none": root, "sqrt": 1.0, "inverse": 1 / root}.get(factor, own * root)
        heights = {"deviation": height(sigma)}
        for name, mean in zip(("largest", "entropy", "trace"), law(sigma, n), strict=True):
            heights[name] = mean / maximum(name, n)
        for name, up in heights.items():
            found.setdefault(name, []).append((step / HALF_OCTAVES, up))
    return found


def shares_of(parts: Tensor, count: int) -> Tensor:
    """How much of the numbers from 0 to 1 lies in each bin; what lies outside is left out."""
    inside = parts[(parts >= 0) & (parts <= 1)]
    bins = (inside * count).long().clamp(max=count - 1)
    return torch.bincount(bins, minlength=count).double() / parts.numel()


def line(points: Iterable[tuple[float, float]]) -> str:
    text = "L".join(f"{across:.4f} {up:.4f}" for across, up in points)
    return f"M{text}" if text else ""


def bars(lengths: Tensor) -> str:
    thick = 1 / len(lengths)
    return "".join(
        f"M0 {place * thick:.4f}h{length:.4f}v{thick:.4f}H0z"
        for place, length in enumerate(lengths.tolist())
        if length > 0
    )


def program() -> str:
    """What a program needs before the numbers of a state: the sample and the law."""
    return f"{inspect.getsource(normals)}\n\n{inspect.getsource(law)}"
