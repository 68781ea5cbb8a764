"""Who uses which page of a pool, and what is in it; the numbers themselves are kept elsewhere."""

import itertools

# What a page holds: the number of what comes before it, and the ids of its own tokens.
Content = tuple[int, tuple[int, ...]]

BEGINNING = 0  # the number of what comes before the first page


class Pages:
    """Pages in three states: used by sequences, idle with a known content, or empty.

    A known content has a number that no other content ever has, so two pages whose contents are
    equal hold the same tokens after the same tokens, back to the beginning: ids are compared,
    never hashes alone.

    Args:
        count: how many pages there are.

    Examples:
        >>> pages = Pages(2)
        >>> (page,) = pages.reserve(1)
        >>> pages.use(page)
        >>> number = pages.learn(page, BEGINNING, (7, 8))
        >>> pages.drop(page)
        >>> pages.find(BEGINNING, (7, 8)) == (page, number), pages.num_free
        (True, 2)
    """

    def __init__(self, count: int) -> None:
        self.users = [0] * count
        self._empty = dict.fromkeys(range(count))
        self._idle: dict[int, None] = {}  # the least recently used first
        self._known: dict[Content, int] = {}  # the page of a content
        self._contents: dict[int, tuple[Content, int]] = {}  # and that of a page, with its number
        self._numbers = itertools.count(BEGINNING + 1)

    @property
    def num_free(self) -> int:
        """How many pages no sequence uses."""
        return len(self._empty) + len(self._idle)

    def reserve(self, count: int) -> list[int]:
        """Empty pages, ``num_free`` at most; for them the least recently used are forgotten.

        They stay empty until they are used, so that nothing is lost if they are not.
        """
        while len(self._empty) < count:
            page = next(iter(self._idle))
            del self._idle[page]
            content, _ = self._contents.pop(page)
            del self._known[content]
            self._empty[page] = None
        return list(itertools.islice(self._empty, count))

    def use(self, page: int) -> None:
        """One more sequence has this page."""
        self._empty.pop(page, None)
        self._idle.pop(page, None)
        self.users[page] += 1

    def drop(self, page: int) -> None:
        """One sequence fewer; after the last, a page whose content is known can still be found."""
        self.users[page] -= 1
        if not self.users[page]:
            (self._idle if page in self._contents else self._empty)[page] = None

    def find(self, before: int, tokens: tuple[int, ...]) -> tuple[int, int] | None:
        """The page that holds these tokens after those, and the number of its content."""
        page = self._known.get((before, tokens))
        return None if page is None else (page, self._contents[page][1])

    def learn(self, page: int, before: int, tokens: tuple[int, ...]) -> int:
        """The page is full of these tokens: the number of this content, new or known already."""
        found = self.find(before, tokens)
        if found is not None:  # another page holds the same; this one is not looked for
            return found[1]
        content, number = (before, tokens), next(self._numbers)
        self._known[content], self._contents[page] = page, (content, number)
        return number
