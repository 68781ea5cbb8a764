r"""The cache that forgets: the first tokens stay, and a window of the newest."""

from functools import partial

import torch
from torch import Tensor

from attnref import checks
from attnref.cache import check_fits
from attnref.masks import Mask, causal, sliding_window

__all__ = ["StreamingCache"]


class StreamingCache:
    r"""The keys and values of the first s tokens and of the last W: a size that never grows.

        A_i = {j : j < s} ∪ {j : i - W < j ≤ i}

    is what query i sees, however long the text is. The first tokens are kept because a trained
    model leaves there what it pays to no other token; without them that weight falls to the rest.

    Args:
        first: number s of tokens at the beginning that are kept; 0 keeps a window alone.
        window: number W of keys that a query sees before they are forgotten, its own included.

    Raises:
        ValueError: for a ``first`` below 0 or a ``window`` below 1.

    Exact for that mask, with gradients. Between two calls at most ``h_kv (s + W) (d_k + d_v)``
    numbers are held; a step copies them once.

    Source: Xiao et al. 2023, arXiv 2309.17453, section 3.2, which also counts positions by the
    place in the cache: then put keys in before they are rotated.

    Examples:
        >>> cache = StreamingCache(first=1, window=2)
        >>> for token in torch.arange(5.0).split(1):
        ...     key, value = cache.append(token[:, None], token[:, None])
        >>> key.flatten(), cache.length
        (tensor([0., 3., 4.]), 5)
    """

    def __init__(self, *, first: int, window: int) -> None:
        advice = "It is the number of tokens at the beginning that stay; 4 is a usual choice."
        self.first = checks.check_integer("first", first, 0, advice)
        advice = "It is the number of the newest keys that a query sees, its own included."
        self.window = checks.check_integer("window", window, 1, advice)
        self.length = self._returned = 0
        self._stored: tuple[Tensor, Tensor] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(tensor.nbytes for tensor in self._stored or ())

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Take in n more tokens and return what they may see, in the order of the text.

        Args:
            key: ``(..., h_kv, n, d_k)``.
            value: ``(..., h_kv, n, d_v)``.

        Returns:
            ``(..., h_kv, m, d_k)`` and ``(..., h_kv, m, d_v)``, with m at most s + W - 1 + n. A
            single token sees all of them; several need :meth:`mask`. They may be what the cache
            holds itself: read them, and clone them before you write.

        Raises:
            TypeError: for anything but tensors of one floating dtype, or of int8.
            ValueError: for a shape, dtype or device that differs from what is held.
        """
        check_fits(self, key, value, self._stored)
        held = self._stored or (key[..., :0, :], value[..., :0, :])
        self.length += key.shape[-2]
        key, value = (
            torch.cat([*self._kept_views(old, self.window - 1), new], -2)  # (..., h_kv, m, d)
            for old, new in zip(held, (key, value), strict=True)
        )
        if key.shape[-2] > self.first + self.window:
            held_key, held_value = (
                torch.cat(self._kept_views(x, self.window), -2) for x in (key, value)
            )
            self._stored = held_key, held_value
        else:
            self._stored = key, value
        self._returned = key.shape[-2]
        return key, value

    def mask(self, n: int) -> Mask:
        r"""Which of the keys that were returned last the n newest tokens may see.

        Args:
            n: number of queries, at most that of the keys.

        Returns:
            A :class:`attnref.Mask` of shape ``(n, m)``, which a single token does not need.

        Raises:
            ValueError: for another number of queries.
        """
        m = self._returned
        advice = "The newest tokens are among the keys: append theirs first."
        n = checks.check_integer("n", n, 0, advice, most=m)
        newest = sliding_window(n, m, window=self.window, alignment="bottom-right", is_causal=True)
        early = Mask((1, m), partial(_first_rule, self.first))
        return causal(n, m, alignment="bottom-right") & (newest | early)

    def _kept_views(self, tokens: Tensor, last: int) -> list[Tensor]:
        """The first tokens and the last ones, as views."""
        m = tokens.shape[-2]
        if m <= self.first + last:
            return [tokens]
        return [tokens[..., : self.first, :], tokens[..., m - last :, :]]


def _first_rule(first: int, i: Tensor, j: Tensor) -> Tensor:
    return j < first
