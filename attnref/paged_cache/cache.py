r"""The keys and values of many sequences in one pool of pages, for one layer.

A sequence has a table of its pages, in order; where they lie in the pool does not matter:

.. math:: K_j = \text{pool}\big[\text{table}[\lfloor j/P\rfloor],\; j \bmod P\big]
"""

import itertools
import operator
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnref import checks
from attnref.paged_cache.pages import BEGINNING, Pages


@dataclass
class Held:
    """What a sequence holds of the pool.

    Attributes:
        pages: its table; all but the last page are full.
        length: its tokens.
        before: the number of what its full pages hold; None once an id is not known.
        recent: the ids of the tokens after the full pages.
    """

    pages: tuple[int, ...]
    length: int
    before: int | None
    recent: tuple[int, ...] = ()


class PagedCache:
    r"""Keys and values of many sequences, in pages that any sequence may have and several share.

    .. math:: K_j = \text{pool}\big[\text{table}[\lfloor j/P\rfloor],\; j \bmod P\big]

    A sequence takes a page when it has a token to put there, not before, so at most P - 1 places
    of it are empty. Two sequences that begin alike may have the same pages: after :meth:`fork`, or
    because :meth:`start` finds the pages of a prompt by the ids of its tokens. A full page is
    never written again; a page that is not full is copied before one of its sequences
    writes to it. Pages that no sequence has any more keep their content, and can be found, until
    they are needed: the least recently used one is given away first.

    One cache serves one layer, and causal attention only. Keys and values are written in place,
    so no gradient flows through it.

    Args:
        num_pages: pages in the pool.
        block_size: P, tokens in a page.

    Raises:
        ValueError: for a number that is not a positive integer.

    Memory ``num_pages block_size h_kv (d_k + d_v)`` numbers, allocated at the first token; what
    sequences occupy of it is counted by :func:`attnref.cost.slots`. An append of n tokens writes
    n rows, and copies fewer than P if a page that is not full is shared.

    Source: Kwon et al. 2023, arXiv 2309.06180, section 4.

    Examples:
        >>> cache = PagedCache(num_pages=8, block_size=4)
        >>> prompt = cache.start()
        >>> cache.append(prompt, torch.zeros(2, 6, 3), torch.zeros(2, 6, 5))
        >>> branch = cache.fork(prompt)
        >>> cache.free_pages  # both have the same two pages
        6
        >>> cache.append(branch, torch.ones(2, 1, 3), torch.ones(2, 1, 5))
        >>> cache.free_pages, cache.length(prompt), cache.length(branch)
        (5, 6, 7)
        >>> cache.block_table([prompt, branch])
        (tensor([[0, 1],
                [0, 2]]), tensor([6, 7]))
    """

    def __init__(self, num_pages: int, block_size: int) -> None:
        advice = "The pool has room for num_pages * block_size tokens of all sequences together."
        self.num_pages = checks.check_integer("num_pages", num_pages, 1, advice)
        self.block_size = checks.check_integer("block_size", block_size, 1, advice)
        self._pages = Pages(self.num_pages)
        self._pool: tuple[Tensor, Tensor] | None = None
        self._sequences: dict[int, Held] = {}
        self._names = itertools.count()

    @property
    def keys(self) -> Tensor:
        """The pool of keys, ``(num_pages, block_size, h_kv, d_k)``, itself and not a copy."""
        return self._tensors()[0]

    @property
    def values(self) -> Tensor:
        """The pool of values, ``(num_pages, block_size, h_kv, d_v)``, itself and not a copy."""
        return self._tensors()[1]

    @property
    def nbytes(self) -> int:
        """Bytes held: those of the whole pool, from the first token on."""
        return sum(tensor.nbytes for tensor in self._pool or ())

    @property
    def free_pages(self) -> int:
        """Pages that no sequence has: empty ones, and those that can still be found."""
        return self._pages.free

    def start(self, tokens: Sequence[int] | Tensor = ()) -> int:
        """A new sequence, with the full pages of its prompt that the cache holds already.

        Args:
            tokens: the ids of the prompt, integers; none to share nothing. All that keys and
                values depend on must show in them: the same ids after the same ids mean the same
                rows. The last token is never found, for its query is still to be computed.

        Returns:
            The number by which the sequence is called. It holds :meth:`length` tokens, a multiple
            of P: go on with ``append`` from there.

        Raises:
            TypeError: for ids that are not integers.
        """
        ids, before, found = _ids(tokens), BEGINNING, []
        for begin in range(0, len(ids) - self.block_size, self.block_size):
            known = self._pages.find(before, ids[begin : begin + self.block_size])
            if known is None:
                break
            page, before = known
            found.append(page)
        return self._new(Held(tuple(found), len(found) * self.block_size, before))

    def fork(self, sequence: int) -> int:
        """A new sequence with the same tokens in the same pages, the last one included.

        Returns:
            The number by which the new sequence is called.

        Raises:
            ValueError: for a sequence that is not there.
        """
        return self._new(replace(self._held(sequence)))

    def free(self, sequence: int) -> None:
        """End a sequence. Pages that it shares stay with the others.

        Raises:
            ValueError: for a sequence that is not there.
        """
        held = self._held(sequence)
        del self._sequences[sequence]
        for page in reversed(held.pages):  # the end of a text is of use to fewer than its beginning
            self._pages.drop(page)

    def length(self, sequence: int) -> int:
        """The number of tokens of a sequence."""
        return self._held(sequence).length

    def append(
        self,
        sequence: int,
        key: Tensor,
        value: Tensor,
        tokens: Sequence[int] | Tensor | None = None,
    ) -> None:
        """Take in n more tokens of a sequence: all of them, or after an error none.

        Args:
            sequence: what :meth:`start` or :meth:`fork` returned.
            key: ``(h_kv, n, d_k)``, rotated already where rotations are used.
            value: ``(h_kv, n, d_v)``.
            tokens: the n ids, so that :meth:`start` can find the pages that they fill; after None
                no further page of this sequence is found.

        Raises:
            TypeError: for anything but a tensor, or ids that are not integers.
            ValueError: for a sequence that is not there; for a shape, dtype or device that differs
                from what is held; for gradients; where not enough pages are left.
        """
        held = self._held(sequence)
        self._check(key, value)
        n, size = key.shape[-2], self.block_size
        ids = None if tokens is None else _ids(tokens)
        if ids is not None and len(ids) != n:
            raise ValueError(
                f"tokens: expected {n} ids, one for each key, got {len(ids)}. What start() found "
                "is held already: go on with tokens[cache.length(sequence):]."
            )
        if n == 0:
            return
        offset = held.length % size  # tokens in the last page, if it is not full
        full = held.length // size
        # A page that is not full and has other users is copied, or they would see what is written.
        copied = bool(offset) and self._pages.users[held.pages[-1]] > 1
        kept = held.pages[: full if copied else None]
        new = -(-(held.length + n) // size) - len(kept)
        if new > self._pages.free:
            raise ValueError(
                f"key: expected {new} free pages for {n} more tokens of sequence {sequence}, got "
                f"{self._pages.free} of {self.num_pages}. Free a sequence that is finished, append "
                "fewer tokens, or make the PagedCache with more pages."
            )
        pages = (*kept, *self._pages.ready(new))
        pools = self._tensors(key, value)
        place = torch.arange(held.length, held.length + n, device=key.device)
        table = torch.tensor(pages[full:], device=key.device)
        rows = table[place // size - full] * size + place % size  # (n,), in the pool as one row
        for pool, tensor in zip(pools, (key, value), strict=True):
            if copied:
                pool[pages[full], :offset] = pool[held.pages[full], :offset]
            pool.flatten(0, 1)[rows] = tensor.transpose(0, 1)  # (n, h_kv, d)

        # Written; from here on nothing can fail.
        for page in pages[len(kept) :]:
            self._pages.use(page)
        if copied:
            self._pages.drop(held.pages[full])
        held.pages, held.length = pages, held.length + n
        self._learn(held, ids)

    def block_table(self, sequences: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The tables of several sequences side by side, and their lengths.

        Returns:
            ``(b, most pages)`` and ``(b,)``, int64 and on the processor; -1 where a sequence has
            no further page.

        Raises:
            TypeError: for anything but several sequences.
            ValueError: for a sequence that is not there.
        """
        if not isinstance(sequences, Iterable):
            raise TypeError(
                f"sequences: expected several, in a list, got {sequences}. They are the numbers "
                "that start() or fork() returned; for one alone write [sequence]."
            )
        held = [self._held(sequence) for sequence in sequences]
        width = max((len(one.pages) for one in held), default=0)
        table = torch.full((len(held), width), -1, device="cpu")
        for row, one in zip(table, held, strict=True):
            row[: len(one.pages)] = torch.tensor(one.pages, dtype=torch.int64, device="cpu")
        return table, torch.tensor([one.length for one in held], dtype=torch.int64, device="cpu")

    def gather(self, sequence: int) -> tuple[Tensor, Tensor]:
        """A copy of the keys and values of a sequence, in order.

        Returns:
            ``(h_kv, length, d_k)`` and ``(h_kv, length, d_v)``.

        Raises:
            ValueError: for a sequence that is not there, or before the first token of any.
        """
        held = self._held(sequence)
        keys, values = (
            pool[torch.tensor(held.pages, dtype=torch.int64, device=pool.device)]
            .flatten(0, 1)[: held.length]
            .transpose(0, 1)
            for pool in self._tensors()
        )
        return keys, values

    def _new(self, held: Held) -> int:
        for page in held.pages:
            self._pages.use(page)
        name = next(self._names)
        self._sequences[name] = held
        return name

    def _held(self, sequence: int) -> Held:
        held = self._sequences.get(sequence) if isinstance(sequence, Hashable) else None
        if held is None:
            raise ValueError(
                f"sequence: expected one of the {len(self._sequences)} that are there, got "
                f"{sequence!r}. It is the number that start() or fork() returned, until free()."
            )
        return held

    def _learn(self, held: Held, ids: tuple[int, ...] | None) -> None:
        """Make the pages that these tokens have filled findable."""
        if ids is None:
            held.before = None
        if ids is None or held.before is None:
            return
        size, recent = self.block_size, held.recent + ids
        full = (held.length - len(recent)) // size
        for begin in range(0, len(recent) - size + 1, size):
            content = recent[begin : begin + size]
            held.before = self._pages.learn(held.pages[full], held.before, content)
            full += 1
        held.recent = recent[len(recent) // size * size :]

    def _tensors(self, *like: Tensor) -> tuple[Tensor, Tensor]:
        """The pool, made for the first tokens."""
        if self._pool is None:
            if not like:
                raise ValueError(
                    "cache: expected tokens in it, got none yet. The pool is made by the first "
                    "append, which says how wide keys and values are."
                )
            with torch.inference_mode(False):  # what is made there can be written to nowhere else
                keys, values = (
                    x.new_empty(self.num_pages, self.block_size, x.shape[0], x.shape[-1])
                    for x in like
                )
            self._pool = keys, values
        return self._pool

    def _check(self, key: Tensor, value: Tensor) -> None:
        for name, tensor in (("key", key), ("value", value)):
            if not isinstance(tensor, Tensor) or tensor.dim() != 3:
                got = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
                raise TypeError(
                    f"{name}: expected a torch.Tensor (h_kv, n, d), the new tokens of one "
                    f"sequence, got {got}. Append the sequences of a batch one by one."
                )
            if not tensor.is_floating_point() and tensor.dtype != torch.int8:
                raise TypeError(
                    f"{name}: expected a floating dtype, or int8 of attnref.variants.quantized, "
                    f"got {tensor.dtype}. Convert it with {name}.float()."
                )
        checks.check_value(key.shape, value.shape)
        for name, tensor, pool in zip(
            ("key", "value"), (key, value), self._pool or (None, None), strict=True
        ):
            if torch.is_grad_enabled() and tensor.requires_grad:
                raise ValueError(
                    f"{name}: expected a tensor without gradient, because pages are written in "
                    "place, got requires_grad=True. Decode under torch.no_grad()."
                )
            if pool is not None and _kind(tensor) != _kind(pool.transpose(1, 2)[0]):
                raise ValueError(
                    f"{name}: expected {_kind(pool.transpose(1, 2)[0])}, as the cache holds, got "
                    f"{_kind(tensor)}. One cache serves one layer: make a new PagedCache for "
                    "another."
                )
        if value.dtype != key.dtype:
            raise TypeError(
                f"value: expected {key.dtype}, the dtype of key, got {value.dtype}. Convert one "
                "of them, for example value.to(key.dtype)."
            )


def _kind(tensor: Tensor) -> str:
    """What must stay the same from one append to the next."""
    heads, _, width = tensor.shape
    return f"({heads}, n, {width}) {tensor.dtype} on {tensor.device}"


def _ids(tokens: Sequence[int] | Tensor) -> tuple[int, ...]:
    if isinstance(tokens, Tensor):
        tokens = tokens.tolist()
    try:
        return tuple(map(operator.index, tokens))
    except TypeError as error:
        raise TypeError(
            f"tokens: expected integers, the ids of one sequence, got {type(tokens).__name__}, in "
            f"which {error}. Pass what the tokenizer gave for this sequence."
        ) from None
