"""Masks by their algebra: pairs, blocks that a kernel computes, and reach over layers.

The expression is read as the script reads it: not by ``eval``, but as calls of the patterns of
:mod:`attnref.masks` with integers, lists, sizes and constants, joined by ``&``, ``|`` and ``~``.
"""

import ast
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnref import cost, masks
from attnref.masks import FULL, MIXED, Mask

State = dict[str, Any]

STATE: State = {
    "expression": "causal(n) & (sliding_window(n, window=15) | global_tokens(n, positions=[0]))",
    "n": 32,
    "m": 32,
    "block": 4,
    "layers": 2,
    "query": 27,
}
PROGRAM = True

LAYERS = 6
WIDTH = 64  # d_k and d_v of the operations that are counted
SIDE, TOP, BELOW = 384, 24, 40  # of the figure

PATTERNS: dict[str, Callable[..., Mask]] = {
    name: getattr(masks, name)
    for name in (
        "causal",
        "sliding_window",
        "dilated",
        "strided",
        "dyadic",
        "padding",
        "prefix_lm",
        "documents",
        "packed",
        "global_tokens",
        "tree",
    )
}


def evaluate(expression: str, n: int, m: int) -> Mask:
    """The mask that an expression makes, its one row repeated where it has just one.

    Examples:
        >>> print(evaluate("causal(n) & ~masks.sliding_window(n, window=1)", 3, 3).picture())
        ...
        #..
        ##.
        >>> evaluate("padding([2], m)", 4, 3)
        Mask(shape=(1, 1, 4, 3))
    """
    tree = ast.parse(f"({expression})", mode="eval")
    mask = _mask(tree.body, {"n": n, "m": m})
    *lead, rows, columns = mask.shape
    return mask.expand((*lead, n, columns)) if rows == 1 else mask


def _mask(node: ast.expr, sizes: dict[str, int]) -> Mask:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        one, other = _mask(node.left, sizes), _mask(node.right, sizes)
        return one & other if isinstance(node.op, ast.BitAnd) else one | other
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return ~_mask(node.operand, sizes)
    if isinstance(node, ast.Call):
        arguments = [_argument(argument, sizes) for argument in node.args]
        named = {word.arg: _argument(word.value, sizes) for word in node.keywords if word.arg}
        return PATTERNS[_pattern_name(node.func)](*arguments, **named)
    raise ValueError(f"no part of an expression of masks: {ast.unparse(node)}")


def _pattern_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id != "masks":
            raise ValueError(f"not in attnref.masks: {ast.unparse(node)}")
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    raise ValueError(f"no name of a pattern: {ast.unparse(node)}")


def _argument(node: ast.expr, sizes: dict[str, int]) -> Any:
    if isinstance(node, ast.List):
        return [_argument(item, sizes) for item in node.elts]
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_argument(node.operand, sizes)
    if isinstance(node, ast.Constant):
        return node.value
    raise ValueError(f"no argument of a mask: {ast.unparse(node)}")


def allowed_pairs(state: State) -> Tensor:
    """Which pairs are allowed, ``(n, m)``."""
    mask = evaluate(state["expression"], state["n"], state["m"])
    return mask.dense().reshape(mask.shape[-2:])


def reach_by_layer(may: Tensor) -> list[Tensor]:
    """The pairs between which information flows in exactly 1, 2, … layers; 1 if not square."""
    step = may.float()
    reached = [step]
    while len(reached) < LAYERS and may.shape[0] == may.shape[1]:
        reached.append((reached[-1] @ step > 0).float())
    return [one.bool() for one in reached]


def values(state: State) -> dict[str, float]:
    mask = evaluate(state["expression"], state["n"], state["m"])
    may = allowed_pairs(state)
    n, m = may.shape
    block = state["block"]
    summary = mask.block_summary(block).reshape(-(-n // block), -(-m // block))
    found: dict[str, float] = {"pairs": n * m, "allowed": mask.count()}
    for name, kind in (("empty", 0), ("partial", MIXED), ("full", FULL)):
        here = masks.block_layout(n, m, layout=summary == kind, block_size=block)
        found[f"blocks-{name}"] = int((summary == kind).sum())
        found[f"pairs-{name}"] = here.count()
    computed = masks.block_layout(n, m, layout=summary > 0, block_size=block).count()
    dense = cost.of("plain", cost.Sizes(n=n, m=m, d_k=WIDTH, d_v=WIDTH)).operations.matmul
    found |= {
        "allowed-percent": 100 * found["allowed"] / (n * m),
        "blocks": summary.numel(),
        "blocks-computed": found["blocks-full"] + found["blocks-partial"],
        "computed": computed,
        "computed-percent": 100 * computed / (n * m),
        "vain": computed - found["allowed"],
        "operations": dense,
        "operations-computed": dense * computed // (n * m),
        "saved-percent": 100 * (1 - computed / (n * m)),
        "blind": int((~may.any(-1)).sum()),
    }
    layers = reach_by_layer(may)
    query = min(state["query"], n - 1)
    found |= {f"reach-{layer}": int(one[query].sum()) for layer, one in enumerate(layers, 1)}
    if n == m:
        linked = layers[state["layers"] - 1]
        found |= {"linked": int(linked.sum()), "gained": int((linked & ~may).sum())}
    return found | {f"row-{i}": int(row.sum()) for i, row in enumerate(may)}


def drawing(state: State) -> dict[str, Any]:
    """What the figure is made of: paths in whole cells, and the keys of each query in words."""
    mask = evaluate(state["expression"], state["n"], state["m"])
    may = allowed_pairs(state)
    n, m = may.shape
    block = state["block"]
    summary = mask.block_summary(block).reshape(-(-n // block), -(-m // block))
    kind = summary.repeat_interleave(block, 0).repeat_interleave(block, 1)[:n, :m]
    query = min(state["query"], n - 1)
    layers = reach_by_layer(may)
    gained = layers[min(state["layers"], len(layers)) - 1] & ~may
    strips = torch.stack([one[query] for one in layers])
    cell = SIDE / max(n, m)
    return {
        "rows": n,
        "columns": m,
        "query": query,
        "cell": f"{cell:.6g}",
        "below": f"{TOP + n * cell + BELOW:.6g}",
        "keys": [ranges(row) for row in may.tolist()],
        "full": runs(may & (kind == FULL)),
        "partial": runs(may & (kind == MIXED)),
        "vain": runs(~may & (kind == MIXED)),
        "gained": runs(gained, inset=1),
        "lines": lines(n, m),
        "blocks": "".join(
            f"M{j * block} {i * block}h{min(block, m - j * block)}v{min(block, n - i * block)}"
            f"h-{min(block, m - j * block)}z"
            for i, j in (summary > 0).nonzero().tolist()
        ),
        "blind": "".join(f"M-2 {3 * int(i)}h1v3h-1z" for i in (~may.any(-1)).nonzero()),
        "direct": runs(strips & strips[0]),
        "indirect": runs(strips & ~strips[0]),
        "between": lines(len(layers), m),
    }


def spans(row: list[bool]) -> list[tuple[int, int]]:
    """The first and the last place of each run.

    >>> spans([True, False, True, True])
    [(0, 0), (2, 3)]
    """
    edges = [0, *map(int, row), 0]
    starts = [j for j in range(len(row)) if edges[j] < edges[j + 1]]
    ends = [j for j in range(len(row)) if edges[j + 1] > edges[j + 2]]
    return list(zip(starts, ends, strict=True))


def runs(cells: Tensor, inset: int = 0) -> str:
    """A path around the runs of true cells, or around their middle thirds, in thirds of a cell."""
    size = 3 if inset else 1
    return "".join(
        f"M{size * first + inset} {size * i + inset}h{size * (last + 1 - first) - 2 * inset}v1"
        f"h-{size * (last + 1 - first) - 2 * inset}z"
        for i, row in enumerate(cells.tolist())
        for first, last in spans(row)
    )


def lines(rows: int, columns: int) -> str:
    """A path between the cells."""
    across = "".join(f"M0 {i}H{columns}" for i in range(1, rows))
    return across + "".join(f"M{j} 0V{rows}" for j in range(1, columns))


def ranges(row: list[bool]) -> str:
    """Keys in words.

    >>> ranges([True, False, True, True, True])
    '0, 2–4'
    """
    parts = ((str(a) if a == b else f"{a}{'–' if b - a > 1 else ', '}{b}") for a, b in spans(row))
    return ", ".join(parts)
