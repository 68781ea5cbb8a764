r"""The keys and values of many sequences in one pool of pages, for one layer.

A sequence has a table of its pages, in order; where they lie in the pool does not matter:

    K_j = pool[table[⌊j/P⌋], j mod P]
"""

import operator
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from attnref import checks
from attnref.paged_cache.pages import BEGINNING, Pages


class PagedSequence:
    """One text in a :class:`PagedCache`, which :meth:`PagedCache.start` and :meth:`fork` make.

    Attributes:
        length: its tokens, 0 or more.
        pages: its table; all but the last page are full.

    Examples:
        >>> text = PagedCache(num_pages=8, block_size=4).start()
        >>> text.append(torch.zeros(2, 6, 3), torch.zeros(2, 6, 5))
        >>> text.length, text.pages
        (6, (0, 1))
    """

    def __init__(self, cache: "PagedCache", pages: tuple[int, ...], before: int | None) -> None:
        self.pages = pages
        self.length = len(pages) * cache.block_size
        self._cache = cache
        self._is_free = False
        self._before = before  # the number of what its full pages hold; None where ids are unknown
        self._recent: tuple[int, ...] = ()  # the ids of the tokens after the full pages
        for page in pages:
            cache._pages.use(page)

    def append(
        self,
        key: Tensor,
        value: Tensor,
        tokens: Sequence[int] | Tensor | None = None,
    ) -> None:
        """Take in n more tokens: all of them, or after an error none.

        Args:
            key: ``(h_kv, n, d_k)``, rotated already where rotations are used.
            value: ``(h_kv, n, d_v)``.
            tokens: the n ids, so that :meth:`PagedCache.start` can find the pages that they fill;
                after None no further page of this text is found.

        Raises:
            TypeError: for anything but a tensor, or ids that are not integers.
            ValueError: after :meth:`free`; for a shape, dtype or device that differs from what the
                cache holds; for gradients; where not enough pages are left.
        """
        self._check_there()
        cache = self._cache
        cache._check(key, value)
        n, size = key.shape[-2], cache.block_size
        ids = None if tokens is None else _ids(tokens)
        if ids is not None and len(ids) != n:
            raise ValueError(
                f"tokens: expected {n} ids, one for each key, got {len(ids)}. What start() found "
                "is held already: go on with tokens[sequence.length:]."
            )
        if n == 0:
            return
        offset = self.length % size  # tokens in the last page, if it is not full
        full = self.length // size
        # A page that is not full and has other users is copied, or they would see what is written.
        copied = bool(offset) and cache._pages.users[self.pages[-1]] > 1
        kept = self.pages[: full if copied else None]
        new = -(-(self.length + n) // size) - len(kept)
        if new > cache._pages.num_free:
            raise ValueError(
                f"key: expected {new} free pages for {n} more tokens, got {cache._pages.num_free} "
                f"of {cache.num_pages}. Free a sequence that is finished, append fewer tokens, or "
                "make the PagedCache with more pages."
            )
        pages = (*kept, *cache._pages.reserve(new))
        pools = cache._tensors(key, value)
        place = torch.arange(self.length, self.length + n, device=key.device)
        table = torch.tensor(pages[full:], device=key.device)
        rows = table[place // size - full] * size + place % size  # (n,), in the pool as one row
        for pool, tensor in zip(pools, (key, value), strict=True):
            if copied:
                pool[pages[full], :offset] = pool[self.pages[full], :offset]
            pool.flatten(0, 1)[rows] = tensor.transpose(0, 1)  # (n, h_kv, d)

        # Written; from here on nothing can fail.
        for page in pages[len(kept) :]:
            cache._pages.use(page)
        if copied:
            cache._pages.drop(self.pages[full])
        self.pages, self.length = pages, self.length + n
        self._learn(ids)

    def fork(self) -> "PagedSequence":
        """Another text with the same tokens in the same pages, the last one included.

        Raises:
            ValueError: after :meth:`free`.
        """
        self._check_there()
        other = PagedSequence(self._cache, self.pages, self._before)
        other.length, other._recent = self.length, self._recent
        return other

    def free(self) -> None:
        """End it. Pages that it shares stay with the others.

        Raises:
            ValueError: after :meth:`free`.
        """
        self._check_there()
        self._is_free = True
        for page in reversed(self.pages):  # the end of a text is of use to fewer than its beginning
            self._cache._pages.drop(page)

    def gather(self) -> tuple[Tensor, Tensor]:
        """A copy of its keys and values, in order.

        Returns:
            ``(h_kv, length, d_k)`` and ``(h_kv, length, d_v)``.

        Raises:
            ValueError: after :meth:`free`, or before the first token of any text of the cache.
        """
        self._check_there()
        keys, values = (
            pool[torch.tensor(self.pages, dtype=torch.int64, device=pool.device)]
            .flatten(0, 1)[: self.length]
            .transpose(0, 1)
            for pool in self._cache._tensors()
        )
        return keys, values

    def _check_there(self) -> None:
        if self._is_free:
            raise ValueError(
                f"sequence: expected one that is in use, got one of {self.length} tokens that was "
                "freed. Its pages may hold other tokens by now: start another one."
            )

    def _learn(self, ids: tuple[int, ...] | None) -> None:
        """Make the pages that these tokens have filled findable."""
        if ids is None:
            self._before = None
        if ids is None or self._before is None:
            return
        size, recent = self._cache.block_size, self._recent + ids
        full = (self.length - len(recent)) // size
        for begin in range(0, len(recent) - size + 1, size):
            content = recent[begin : begin + size]
            self._before = self._cache._pages.learn(self.pages[full], self._before, content)
            full += 1
        self._recent = recent[len(recent) // size * size :]


class PagedCache:
    r"""Keys and values of many sequences, in pages that any sequence may have and several share.

        K_j = pool[table[⌊j/P⌋], j mod P]

    A sequence takes a page when it has a token to put there, not before, so at most P - 1 places
    of it are empty. Two sequences that begin alike may have the same pages: after a fork, or
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
        >>> prompt.append(torch.zeros(2, 6, 3), torch.zeros(2, 6, 5))
        >>> branch = prompt.fork()
        >>> cache.free_pages  # both have the same two pages
        6
        >>> branch.append(torch.ones(2, 1, 3), torch.ones(2, 1, 5))
        >>> cache.free_pages, prompt.length, branch.length
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
        return self._pages.num_free

    def start(self, tokens: Sequence[int] | Tensor = ()) -> PagedSequence:
        """A new sequence, with the full pages of its prompt that the cache holds already.

        Args:
            tokens: the ids of the prompt, integers; none to share nothing. All that keys and
                values depend on must show in them: the same ids after the same ids mean the same
                rows. The last token is never found, for its query is still to be computed.

        Returns:
            The sequence. It holds ``length`` tokens, a multiple of P: go on with ``append`` from
            there.

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
        return PagedSequence(self, tuple(found), before)

    def block_table(self, sequences: Sequence[PagedSequence]) -> tuple[Tensor, Tensor]:
        """The tables of several sequences side by side, and their lengths.

        Returns:
            ``(b, most pages)`` and ``(b,)``, int64 and on the processor; -1 where a sequence has
            no further page.

        Raises:
            TypeError: for anything but several sequences.
            ValueError: for a sequence of another cache, or that was freed.
        """
        if not isinstance(sequences, Iterable):
            raise TypeError(
                f"sequences: expected several, in a list, got {type(sequences).__name__}. They are "
                "what start() or fork() returned; for one alone write [sequence]."
            )
        held = [*sequences]
        for one in held:
            if not isinstance(one, PagedSequence):
                raise TypeError(
                    f"sequences: expected what start() or fork() returned, got "
                    f"{type(one).__name__}. A table is made of their pages."
                )
            if one._cache is not self:
                raise ValueError(
                    "sequences: expected those of this cache, got one of another. A table belongs "
                    "to one pool: ask the cache that started the sequence."
                )
            one._check_there()
        width = max((len(one.pages) for one in held), default=0)
        table = torch.full((len(held), width), -1, device="cpu")
        for row, one in zip(table, held, strict=True):
            row[: len(one.pages)] = torch.tensor(one.pages, dtype=torch.int64, device="cpu")
        return table, torch.tensor([one.length for one in held], dtype=torch.int64, device="cpu")

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
                    f"{name}: expected a floating dtype, or int8 of attnref.quantize, "
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
