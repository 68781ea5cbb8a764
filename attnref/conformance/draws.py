"""Tensors that a function takes beside query, key and value, drawn by their names."""

import ast
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from attnref.positions import alibi_slopes
from attnref.text import Refusal

_SEED = 1729
_BUCKETS = 32  # of distances, in a table such as that of T5
_AXES = "bhknmdet"  # samples, heads, key heads, queries, keys, width, buckets


def _normal(u: Tensor) -> Tensor:
    return torch.erfinv(2 * u.clamp(1e-6, 1 - 1e-6) - 1) * 2**0.5


KINDS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "normal": _normal,
    "uniform": lambda u: u,
    "rate": lambda u: 0.1 + 0.8 * u,  # of a delta rule
    "decay": lambda u: 0.6 + 0.39 * u,
    "log_decay": lambda u: (0.6 + 0.39 * u).log(),
    # Its exponential is 0, and so it is beside scores of -15376, which are asked too.
    "lowest": lambda u: torch.full_like(u, -6e4),
    "slopes": lambda u: alibi_slopes(len(u), dtype=torch.float64),
    "zeros": torch.zeros_like,
    "ones": torch.ones_like,
}
"""What is made of numbers that are uniform between 0 and 1."""


class Draw(NamedTuple):
    """How a parameter is filled: a kind of numbers over named axes, or a ``literal``."""

    kind: str
    axes: str = ""
    literal: object = None

    def tensor(self, query: Tensor, key: Tensor) -> Tensor:
        """Numbers in float64, the first of them the same whatever the number of positions."""
        sizes = dict(zip("bhnd", query.shape, strict=True))
        sizes |= {"k": key.shape[1], "m": key.shape[2], "e": query.shape[-1], "t": _BUCKETS}
        order = sorted(self.axes, key=lambda axis: axis not in "nm")  # positions come first
        generator = torch.Generator().manual_seed(_SEED + sum(map(ord, self.kind + self.axes)))
        shape = [sizes[axis] for axis in order]
        drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
        made = KINDS[self.kind](drawn)
        return made.permute([order.index(axis) for axis in self.axes]).contiguous()


# What parameters of these names hold, the first that fits.
_NAMES: tuple[tuple[re.Pattern[str], Draw], ...] = tuple(
    (re.compile(pattern), draw)
    for pattern, draw in (
        (r"betas?|b_t|rate|write_strength", Draw("rate", "bkn")),
        (r"gk|g_k|log_f(orget)?|log_w|f_gate", Draw("log_decay", "bknd")),
        (r"g|gs|ld|dA|log_(decays?|alphas?|gates?|g|a)|a_log", Draw("log_decay", "bkn")),
        (r"decays?|alphas?|gammas?|a|lambdas?|forget|forget_gate", Draw("decay", "bkn")),
        (r"[kv]_(de)?scale|descale_[kv]|(key|value)_scale", Draw("ones", "bk")),
        (r"(alibi_)?slopes|alibi", Draw("slopes", "h")),
        (r"(attn_|attention_|learnable_)?sinks?(_logits)?|s_aux", Draw("lowest", "h")),
        (r"initial_state|h0|state_0", Draw("zeros", "bkde")),
        (r"lambd|lam|lmbda|lambda_(full|init|val(ue)?)", Draw("literal", literal=0.5)),
        (r"(relative|rel)_(attention|position|pos|attn)?_?bias(es|_table)?", Draw("normal", "th")),
    )
)
GATES = ("rate", "decay", "log_decay")


def draw_of(name: str) -> Draw | None:
    """How a parameter of that name is filled, None where the name says nothing.

    Examples:
        >>> draw_of("beta"), draw_of("block_size")
        (Draw(kind='rate', axes='bkn', literal=None), None)
    """
    return next((draw for pattern, draw in _NAMES if pattern.fullmatch(name)), None)


def parse_draw(name: str, said: str) -> Draw:
    """What ``--draw name=…`` says: ``kind(axes)``, or a literal.

    Raises:
        Refusal: naming what was expected and what came.

    Examples:
        >>> parse_draw("beta", "rate(b, k, n)"), parse_draw("window", "128")
        (Draw(kind='rate', axes='bkn', literal=None), Draw(kind='literal', axes='', literal=128))
    """
    match = re.fullmatch(r"(\w+)\(([a-z, ]*)\)", said.strip())
    axes = "" if match is None else match[2].replace(",", "").replace(" ", "")
    if match is not None and match[1] in KINDS and set(axes) <= set(_AXES):
        return Draw(match[1], axes)
    try:
        return Draw("literal", literal=ast.literal_eval(said))
    except (ValueError, SyntaxError):
        raise Refusal(
            "draw: {name}={said} is neither a literal nor kind(axes). Kinds are {kinds}; axes are "
            "b (samples), h (heads), k (key heads), n, m (queries, keys), d (width) and t (32 "
            "buckets). Write for example {name}=normal(b, h, n).",
            name=name,
            said=said,
            kinds=", ".join(KINDS),
        ) from None
