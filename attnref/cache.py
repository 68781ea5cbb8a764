r"""What decoding keeps: the keys and values of the tokens so far, of one layer and one batch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnref import checks

__all__ = ["KVCache"]

_PLACES = "Name the tokens to keep by their places behind the first `after`."


class KVCache:
    r"""The keys and values of the tokens so far, so that each is projected once.

        K ← [K; K_new]
        V ← [V; V_new]

    One cache serves one layer and one batch. It is right for causal attention only, in which no
    new token changes what the old ones made.

    Args:
        max_length: None lets the cache grow, copying what it holds at each step, and carries
            gradients; a number allocates room for so many tokens once and writes in place,
            for decoding without gradients.

    Raises:
        ValueError: for a ``max_length`` that is not a positive integer.

    Memory ``h_kv (d_k + d_v)`` numbers per token; over n steps growing copies ``O(n^2)`` of them,
    the preallocated one ``O(n)``.

    Source: Shazeer 2019, arXiv 1911.02150, section 2.4.

    Examples:
        >>> cache = KVCache(max_length=8)
        >>> for _ in range(3):
        ...     key, value = cache.append(torch.ones(2, 1, 4), torch.ones(2, 1, 5))
        >>> key.shape, value.shape, cache.length
        (torch.Size([2, 3, 4]), torch.Size([2, 3, 5]), 3)
    """

    def __init__(self, max_length: int | None = None) -> None:
        if max_length is not None:
            advice = "It is the number of tokens to make room for; None lets the cache grow."
            max_length = checks.check_integer("max_length", max_length, 1, advice)
        self.max_length = max_length
        self.length = 0
        self._stored: tuple[Tensor, Tensor] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held: with ``max_length`` those of all its room."""
        return sum(tensor.nbytes for tensor in self._stored or ())

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Take in n more tokens and return all keys and values.

        Args:
            key: ``(..., h_kv, n, d_k)``, rotated already where rotations are used.
            value: ``(..., h_kv, n, d_v)``.

        Returns:
            ``(..., h_kv, length, d_k)`` and ``(..., h_kv, length, d_v)``: what the cache holds
            itself, not a copy, with ``max_length`` as views. Read them; to write, clone them
            first, or the past changes for all later steps.

        Raises:
            TypeError: for anything but tensors of one floating dtype, or of int8.
            ValueError: for a shape, dtype or device that differs from what is held, past
                ``max_length``, or for gradients into a preallocated cache.
        """
        check_fits(self, key, value, self._stored)
        old, new = self.length, self.length + key.shape[-2]
        if self.max_length is None:
            # Copied at the first step too: the caller may write to its tensors again.
            held = self._stored or (key[..., :0, :], value[..., :0, :])
            key = torch.cat([held[0], key], dim=-2)  # (..., h_kv, length, d_k)
            value = torch.cat([held[1], value], dim=-2)  # (..., h_kv, length, d_v)
            self._stored, self.length = (key, value), new
            return key, value

        if new > self.max_length:
            raise ValueError(
                f"key: expected room for {key.shape[-2]} more tokens after {old}, got a cache of "
                f"max_length={self.max_length}. Make it larger, or let it grow: KVCache()."
            )
        if torch.is_grad_enabled() and (key.requires_grad or value.requires_grad):
            raise ValueError(
                "key: expected keys and values without gradients, because a preallocated cache "
                "is written in place, got requires_grad=True. Decode under torch.no_grad(), or "
                "let the cache grow: KVCache()."
            )
        if self._stored is None:
            with torch.inference_mode(False):  # what is made there can be written to nowhere else
                self._stored = (
                    key.new_empty(*key.shape[:-2], self.max_length, key.shape[-1]),
                    value.new_empty(*value.shape[:-2], self.max_length, value.shape[-1]),
                )
        keys, values = self._stored
        keys.narrow(-2, old, new - old).copy_(key)
        values.narrow(-2, old, new - old).copy_(value)
        self.length = new
        return keys.narrow(-2, 0, new), values.narrow(-2, 0, new)

    def keep(self, tokens: Tensor | Sequence[int] | Sequence[Sequence[int]], *, after: int) -> None:
        """Of the tokens after the first ``after``, keep these, in this order, and drop the others.

        It is what follows when drafts have been verified: the accepted path stays, and what
        comes next is appended behind it. An empty list cuts the cache off at ``after``.

        Args:
            tokens: ``(n,)`` integers, or ``(b, n)``, other ones for each sample of a cache
                ``(b, h_kv, length, d)``: which to keep, counted from 0 behind the first
                ``after``, each once.
            after: how many of the oldest tokens stay as they are.

        Raises:
            TypeError: for tokens that are no integers in a tensor or in lists.
            ValueError: for tokens that are not there, are named twice or have another shape, or
                an ``after`` past the end; the cache is then as it was.

        With ``max_length`` in place: views that :meth:`append` gave change. Time and memory
        ``O(n)``; a growing cache copies the older ones, too, and carries gradients.

        Examples:
            >>> cache = KVCache()
            >>> numbers = torch.arange(5.0)[:, None]
            >>> key, value = cache.append(numbers, numbers)
            >>> cache.keep([0, 2], after=2)
            >>> key, value = cache.append(numbers[:1], numbers[:1])
            >>> key.flatten()
            tensor([0., 1., 2., 4., 0.])
        """
        advice = "Tokens before it stay as they are: the length before the drafts were appended."
        after = checks.check_integer("after", after, 0, advice, most=self.length)
        chosen = self._token_index(tokens, after)
        if self._stored is None:
            return
        # All copied before any is written to: in place, old and new places may overlap.
        kept = [
            torch.take_along_dim(part.narrow(-2, after, self.length - after), chosen, dim=-2)
            for part in self._stored
        ]
        length = after + chosen.shape[-2]
        if self.max_length is None:
            key, value = (
                torch.cat([part.narrow(-2, 0, after), new], dim=-2)  # (..., h_kv, length, d)
                for part, new in zip(self._stored, kept, strict=True)
            )
            self._stored = key, value
        else:
            for part, new in zip(self._stored, kept, strict=True):
                part.narrow(-2, after, length - after).copy_(new)
        self.length = length

    def _token_index(
        self, tokens: Tensor | Sequence[int] | Sequence[Sequence[int]], after: int
    ) -> Tensor:
        """The tokens to keep, as an index ``(..., n, 1)`` into the keys and values ``after``."""
        lead = self._stored[0].shape[:-2] if self._stored else ()
        place = self._stored[0].device if self._stored else None
        _check_tokens(tokens)
        chosen = torch.as_tensor(tokens, device=place)
        whole = not (chosen.is_floating_point() or chosen.dtype == torch.bool)
        fits = chosen.dim() == 1 or (chosen.dim() == 2 and (len(chosen),) == lead[:-1])
        checks.check_integers(
            "tokens",
            f"(n,) or ({lead[0]}, n)" if len(lead) == 2 else "(n,)",
            f"shape {tuple(chosen.shape)} of {chosen.dtype}",
            "Name the tokens to keep by their places behind the first `after`.",
            whole=whole or chosen.numel() == 0,
            fits=fits,
        )
        count = self.length - after
        outside = chosen[(chosen < 0) | (chosen >= count)]
        if outside.numel():
            raise ValueError(
                f"tokens: expected places among the {count} behind the first {after}, counted from "
                f"0, got {int(outside[0])}. Subtract `after` from places in the whole cache."
            )
        ordered = chosen.sort(dim=-1).values
        twice = ordered[..., 1:][ordered[..., 1:] == ordered[..., :-1]]
        if twice.numel():
            raise ValueError(
                f"tokens: expected each one once, got {int(twice[0])} twice. A token that is kept "
                "twice would count twice."
            )
        chosen = chosen.long()[..., None]  # (n, 1) or (b, n, 1)
        if chosen.dim() == 3:
            return chosen[:, None]  # (b, 1, n, 1)
        return chosen[(None,) * len(lead)]  # (1, ..., n, 1)


def _check_tokens(tokens: Tensor | Sequence[int] | Sequence[Sequence[int]]) -> None:
    """A tensor, or what becomes one, of numbers that can be compared."""
    try:
        chosen = torch.as_tensor(tokens)
    except (TypeError, ValueError, RuntimeError) as error:  # which PyTorch raises, by kind
        ragged = isinstance(error, ValueError) and not isinstance(tokens, str)
        raise (ValueError if ragged else TypeError)(
            f"tokens: expected integers in a tensor or in lists of one length, got {tokens!r:.60}. "
            f"{_PLACES}"
        ) from None
    if chosen.is_complex() or chosen.dtype in (torch.uint16, torch.uint32, torch.uint64):
        raise TypeError(
            f"tokens: expected integers with a sign, or of 8 bits, got {chosen.dtype}. Convert "
            "them with tokens.long()."
        )


def check_fits(
    cache: object, key: Tensor, value: Tensor, stored: tuple[Tensor, Tensor] | None
) -> None:
    """What a cache takes in: keys and values like those that it holds."""
    for name, tensor in (("key", key), ("value", value)):
        if not isinstance(tensor, Tensor) or tensor.dim() < 2:
            got = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
            raise TypeError(
                f"{name}: expected a torch.Tensor (..., h_kv, n, d), got {got}. Project the "
                "new tokens first."
            )
        if not tensor.is_floating_point() and tensor.dtype != torch.int8:
            raise TypeError(
                f"{name}: expected a floating dtype, or int8 of attnref.variants.quantized, got "
                f"{tensor.dtype}. Convert it with {name}.float()."
            )
    checks.check_value(key.shape, value.shape)
    for name, tensor, own in zip(
        ("key", "value"), (key, value), stored or (key, value), strict=True
    ):
        if not _is_compatible(tensor, own):
            raise ValueError(
                f"{name}: expected {_kind(own)}, as the cache holds, got {_kind(tensor)}. "
                f"One cache serves one layer and one batch: make a new {type(cache).__name__} for "
                "another."
            )
    if value.dtype != key.dtype:
        raise TypeError(
            f"value: expected {key.dtype}, the dtype of key, got {value.dtype}. Convert one of "
            "them, for example value.to(key.dtype)."
        )


def _is_compatible(one: Tensor, other: Tensor) -> bool:
    """Whether both fit one cache: all but their numbers of tokens agree."""
    return (
        one.shape[:-2] == other.shape[:-2]
        and one.shape[-1] == other.shape[-1]
        and one.dtype == other.dtype
        and one.device == other.device
    )


def _kind(tensor: Tensor) -> str:
    """What must stay the same from one step to the next."""
    *lead, _, width = tensor.shape
    return f"({', '.join(map(str, lead))}, n, {width}) {tensor.dtype} on {tensor.device}"
