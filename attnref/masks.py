r"""Masks: which query may attend to which key.

A :class:`Mask` is a rule and a shape; it becomes a tensor of booleans, ``True`` = may attend,
only when asked for with :meth:`Mask.dense`. Masks combine with ``&`` (both allow), ``|``
(either allows) and ``~`` (the opposite).

>>> mask = causal(3) & padding([2, 3], 3)
>>> mask
Mask(shape=(2, 1, 3, 3))
>>> mask.dense()[0, 0]
tensor([[ True, False, False],
        [ True,  True, False],
        [ True,  True, False]])
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnref.checks import Shape, broadcast_shape

# Given query positions (n, 1) and key positions (1, m), says which pairs are allowed.
Rule = Callable[[Tensor, Tensor], Tensor]


class Mask:
    """Which query may attend to which key, as a rule with the shape ``(..., n, m)``."""

    def __init__(self, shape: Shape, rule: Rule) -> None:
        self.shape = shape
        self._rule = rule

    def dense(self, device: torch.device | str | None = None) -> Tensor:
        """The mask as a bool tensor of its whole shape, to be passed as ``attn_mask``."""
        n, m = self.shape[-2:]
        rows = torch.arange(n, device=device)[:, None]  # (n, 1)
        columns = torch.arange(m, device=device)[None, :]  # (1, m)
        return self._rule(rows, columns).expand(self.shape)

    def __and__(self, other: "Mask") -> "Mask":
        shape = _common_shape(self, other)
        return Mask(shape, lambda i, j: self._rule(i, j) & other._rule(i, j))

    def __or__(self, other: "Mask") -> "Mask":
        shape = _common_shape(self, other)
        return Mask(shape, lambda i, j: self._rule(i, j) | other._rule(i, j))

    def __invert__(self) -> "Mask":
        return Mask(self.shape, lambda i, j: ~self._rule(i, j))

    def __repr__(self) -> str:
        return f"Mask(shape={self.shape})"


def causal(n: int, m: int | None = None, *, alignment: str | None = None) -> Mask:
    r"""Each query sees no key of its own future.

    With as many queries as keys this is :math:`j\le i`. With :math:`n\ne m` two meanings are
    in use, and one must be named:

    - ``"top-left"``: :math:`j\le i`, both sequences begin together (PyTorch's ``is_causal``);
    - ``"bottom-right"``: :math:`j\le i+m-n`, both end together, as when the last n tokens
      attend to a cache of m.

    Args:
        n: number of queries.
        m: number of keys; None means n.
        alignment: required when n != m, without effect when n == m.

    Raises:
        ValueError: when n != m and no alignment is named, or for an unknown name.

    >>> causal(2, 4, alignment="bottom-right").dense()
    tensor([[ True,  True,  True, False],
            [ True,  True,  True,  True]])
    """
    m = n if m is None else m
    _check_count(n=n, m=m)
    if alignment not in (None, "top-left", "bottom-right"):
        raise ValueError(
            f"alignment: expected 'top-left' or 'bottom-right', got {alignment!r}. "
            "top-left lets both sequences begin together, bottom-right lets them end together."
        )
    if n != m and alignment is None:
        raise ValueError(
            f"alignment: expected 'top-left' or 'bottom-right' because n={n} differs from m={m}, "
            "got None. For decoding with a cache choose 'bottom-right'; PyTorch's is_causal is "
            "'top-left'."
        )
    offset = m - n if alignment == "bottom-right" else 0
    return Mask((n, m), lambda i, j: j <= i + offset)


def padding(lengths: Tensor | Sequence[int], m: int) -> Mask:
    r"""Each sample sees its own first ``lengths[b]`` keys, not the padding behind them.

    The shape ``(b, 1, 1, m)`` broadcasts over heads and queries. It forbids keys only: the rows
    of padded queries still hold numbers, to be left out of the loss.

    Args:
        lengths: ``(b,)`` integers between 0 and m.
        m: number of keys, the padded length.

    Raises:
        ValueError: for lengths of another shape or out of range.

    >>> padding([1, 3], 3).dense()[:, 0, 0]
    tensor([[ True, False, False],
            [ True,  True,  True]])
    """
    _check_count(m=m)
    counts = torch.as_tensor(lengths)
    if counts.dim() != 1 or counts.is_floating_point() or counts.dtype == torch.bool:
        raise ValueError(
            f"lengths: expected one integer a sample, shape (b,), got shape "
            f"{tuple(counts.shape)} of {counts.dtype}. Count the real tokens of each sequence."
        )
    if bool(((counts < 0) | (counts > m)).any()):
        raise ValueError(
            f"lengths: expected integers between 0 and m={m}, got {counts.tolist()}. "
            "m is the padded length, at least that of the longest sequence."
        )
    ends = counts[:, None, None, None]  # (b, 1, 1, 1)
    return Mask((len(counts), 1, 1, m), lambda i, j: j < ends.to(j.device))


def _common_shape(one: Mask, other: Mask) -> Shape:
    if not isinstance(other, Mask):
        raise TypeError(
            f"mask: expected another Mask to combine with, got {type(other).__name__}. "
            "Combine masks first and call .dense() last."
        )
    # Both must cover the same queries and keys; only a mask over keys alone may lack queries.
    shape = broadcast_shape(one.shape, other.shape)
    if shape is None or shape[-1] != one.shape[-1] or shape[-1] != other.shape[-1]:
        raise ValueError(
            f"mask: expected shapes that broadcast and agree in the number of keys, got "
            f"{one.shape} and {other.shape}. Build both for the same (n, m)."
        )
    return shape


def _check_count(**counts: int) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError(
                f"{name}: expected a number of positions, 0 or more, got {count!r}. "
                "Take it from the tensors: query.shape[-2], key.shape[-2]."
            )
