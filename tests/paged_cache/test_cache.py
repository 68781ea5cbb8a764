"""A cache in pages against a dictionary of lists, which knows no pages."""

import itertools
import math
import re

import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from attnref import PagedCache

HEADS, D_K, D_V = 2, 3, 5


def rows(places):
    """Keys and values of tokens, ``(heads, n, d)`` each, that tell all tokens apart.

    What makes a row is the text up to it, as in a model: its place in ``TEXTS``.
    """
    numbers = torch.tensor(places, dtype=torch.float64).reshape(1, -1, 1)
    key = numbers + torch.arange(HEADS).reshape(-1, 1, 1) / 4 + torch.arange(D_K) / 32
    return key, -numbers - torch.arange(HEADS).reshape(-1, 1, 1) / 4 - torch.arange(D_V) / 32


class Text:
    """Numbers a text by its ids, so that equal beginnings have equal rows."""

    def __init__(self):
        self.numbers = {}

    def __call__(self, ids, begin=0):
        texts = (tuple(ids[: end + 1]) for end in range(begin, len(ids)))
        return [self.numbers.setdefault(text, len(self.numbers)) for text in texts]


def used(cache, sequences):
    """The pages of each sequence, by its table."""
    table, _ = cache.block_table(sequences)
    return [[page for page in row if page >= 0] for row in table.tolist()]


def check(cache, model):
    """Whether the cache holds what the model does, and each page is where it must be."""
    sequences = list(model)
    tables = used(cache, sequences)
    _, lengths = cache.block_table(sequences)
    assert lengths.tolist() == [len(model[one]) for one in sequences]
    for sequence, pages in zip(sequences, tables, strict=True):
        assert len(pages) == math.ceil(len(model[sequence]) / cache.block_size)
        assert len({*pages}) == len(pages)
        assert sequence.length == len(model[sequence])
        if cache.nbytes:
            for own, expected in zip(sequence.gather(), rows(model[sequence]), strict=True):
                assert torch.equal(own, expected)
    counted = [0] * cache.num_pages
    for page in itertools.chain(*tables):
        counted[page] += 1
    pages = cache._pages
    assert pages.users == counted
    states = [*pages._empty, *pages._idle, *(page for page in range(len(counted)) if counted[page])]
    assert sorted(states) == list(range(cache.num_pages))  # each in exactly one state
    assert cache.free_pages == counted.count(0)
    assert {*pages._idle} <= {*pages._contents}
    assert {*pages._empty}.isdisjoint(pages._contents)
    assert {page: content for content, page in pages._known.items()} == {
        page: content for page, (content, _) in pages._contents.items()
    }


class Machine(RuleBasedStateMachine):
    """Sequences begin, grow, fork and end in any order, in a pool that is soon too small."""

    @initialize(pages=st.integers(1, 7), size=st.integers(1, 4))
    def begin(self, pages, size):
        self.cache, self.text = PagedCache(pages, size), Text()
        self.model, self.ids = {}, {}  # rows and ids; ids are None once one is not told
        self.prompts = [[]]
        self.loose = itertools.count(-1, -1)  # rows of tokens whose ids are not told

    @rule(data=st.data(), ids=st.lists(st.integers(0, 1), max_size=9))
    def start(self, data, ids):
        ids = [*data.draw(st.sampled_from(self.prompts)), *ids]
        sequence = self.cache.start(ids)
        assert sequence not in self.model
        found = sequence.length
        # Full pages, and never the last token.
        assert found % self.cache.block_size == 0
        assert found < max(1, len(ids))
        self.ids[sequence] = ids[:found]
        self.model[sequence] = self.text(ids[:found])

    @precondition(lambda self: self.model)
    @rule(data=st.data(), ids=st.lists(st.integers(0, 1), max_size=9), told=st.booleans())
    def append(self, data, ids, told):
        sequence = data.draw(st.sampled_from([*self.model]))
        before = self.ids[sequence]
        if told and before is not None:
            new = self.text([*before, *ids], len(before))
        else:
            new = [next(self.loose) for _ in ids]
        length, size = len(self.model[sequence]), self.cache.block_size
        (pages,) = used(self.cache, [sequence])
        split = length % size and self.cache._pages.users[pages[-1]] > 1
        needs = math.ceil((length + len(ids)) / size) - len(pages) + bool(split and ids)
        if needs > self.cache.free_pages:
            with pytest.raises(ValueError, match=rf"^key: expected {needs} free pages for"):
                sequence.append(*rows(new), ids if told else None)
            return
        sequence.append(*rows(new), ids if told else None)
        self.model[sequence] = self.model[sequence] + new
        if ids:
            self.ids[sequence] = [*before, *ids] if told and before is not None else None
            self.prompts.append(self.ids[sequence] or [])

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def fork(self, data):
        sequence = data.draw(st.sampled_from([*self.model]))
        copy = sequence.fork()
        assert used(self.cache, [copy]) == used(self.cache, [sequence])
        self.model[copy], self.ids[copy] = self.model[sequence], self.ids[sequence]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def free(self, data):
        sequence = data.draw(st.sampled_from([*self.model]))
        sequence.free()
        del self.model[sequence], self.ids[sequence]

    @invariant()
    def holds_what_it_was_given(self):
        if hasattr(self, "model"):
            check(self.cache, self.model)


TestAnyHistory = pytest.mark.claim("paged-cache-loses-nothing")(Machine.TestCase)
TestAnyHistory.settings = settings(
    max_examples=50,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.claim("fork-copies-one-page")
def test_a_fork_has_the_same_pages_until_one_of_them_writes():
    cache = PagedCache(num_pages=11, block_size=4)
    trunk = cache.start()
    trunk.append(*rows(range(10)))
    branch = trunk.fork()
    assert used(cache, [trunk]) == used(cache, [branch]) == [[0, 1, 2]]
    assert cache.free_pages == 8
    branch.append(*rows([77]))
    assert used(cache, [trunk, branch]) == [[0, 1, 2], [0, 1, 3]]
    trunk.append(*rows([10]))  # alone in its last page by now, so nothing is copied
    assert used(cache, [trunk, branch]) == [[0, 1, 2], [0, 1, 3]]
    check(cache, {trunk: [*range(11)], branch: [*range(10), 77]})


@pytest.mark.claim("fork-copies-one-page")
def test_full_pages_are_never_copied():
    cache = PagedCache(num_pages=5, block_size=4)
    trunk = cache.start()
    trunk.append(*rows(range(8)))
    before = cache.keys[:2].clone()
    branches = [trunk.fork() for _ in range(3)]
    for number, branch in enumerate(branches):
        branch.append(*rows([20 + number]))
    assert [pages[:2] for pages in used(cache, branches)] == [[0, 1]] * 3
    assert torch.equal(cache.keys[:2], before)
    assert cache.free_pages == 0


@pytest.mark.claim("pages-are-found-by-their-tokens")
@pytest.mark.parametrize(("common", "expected"), [(0, 0), (3, 0), (4, 4), (7, 4), (9, 8), (11, 8)])
def test_a_prompt_finds_the_full_pages_that_begin_like_it(common, expected):
    text, cache = Text(), PagedCache(num_pages=11, block_size=4)
    first = [*range(11)]
    one = cache.start(first)
    one.append(*rows(text(first)), first)
    second = [*first[:common], *range(50, 50 + 13 - common)]
    other = cache.start(second)
    assert other.length == expected
    other.append(*rows(text(second, expected)), second[expected:])
    shared = used(cache, [one, other])
    assert shared[1][: expected // 4] == shared[0][: expected // 4]
    assert {*shared[1][expected // 4 :]}.isdisjoint(shared[0])
    check(cache, {one: text(first), other: text(second)})


@pytest.mark.parametrize("told", [[1] * 8, torch.tensor([1] * 8), (1,) * 8])
def test_the_last_token_of_a_prompt_is_never_found(told):
    """Its query is still to be computed, from which the next token is read."""
    cache = PagedCache(num_pages=3, block_size=4)
    cache.start(told).append(*rows(range(8)), told)
    assert cache.start(told).length == 4
    assert cache.start([*told, 2]).length == 8


@pytest.mark.claim("ids-are-compared")
def test_equal_hashes_are_not_equal_tokens():
    """-1 and -2 have one hash in CPython, and so have tuples of them."""
    assert hash((0, (-1, 7))) == hash((0, (-2, 7)))
    cache = PagedCache(num_pages=3, block_size=2)
    cache.start().append(*rows(range(2)), [-1, 7])
    assert cache.start([-2, 7, 0]).length == 0
    assert cache.start([-1, 7, 0]).length == 2


@pytest.mark.claim("ids-are-compared")
def test_the_same_tokens_after_others_are_another_page():
    cache = PagedCache(num_pages=4, block_size=2)
    cache.start().append(*rows(range(4)), [1, 2, 3, 4])
    assert cache.start([3, 4, 0]).length == 0
    assert cache.start([1, 2, 3, 4, 0]).length == 4


@pytest.mark.claim("pages-are-found-by-their-tokens")
@pytest.mark.parametrize("pieces", [(1, 1, 1, 1, 1, 1, 1, 1), (3, 5), (5, 3), (2, 4, 2), (8,)])
def test_pages_are_found_however_they_were_filled(pieces):
    text, cache, ids = Text(), PagedCache(num_pages=3, block_size=4), [*range(8)]
    one, begin = cache.start(), 0
    for piece in pieces:
        end = begin + piece
        one.append(*rows(text(ids[:end], begin)), ids[begin:end])
        begin = end
    other = cache.start([*ids, 99])
    check(cache, {one: text(ids), other: text(ids)})


@pytest.mark.claim("ids-are-compared")
def test_what_followed_a_page_does_not_follow_what_is_in_it_later():
    """The second of two equal pages goes on while the first, which is known, gets other tokens."""
    cache = PagedCache(num_pages=3, block_size=1)
    one, other = cache.start(), cache.start()
    one.append(*rows([0]), [1])
    other.append(*rows([0]), [1])
    other.append(*rows([1]), [2])
    one.free()
    cache.start().append(*rows([8]), [9])  # in the page of the first
    assert cache.start([9, 0]).length == 1
    assert cache.start([9, 2, 0]).length == 1  # and not the 2 that came after 1


@pytest.mark.claim("idle-pages-can-be-found")
def test_what_was_used_last_is_given_away_last():
    """Pages of finished prompts stay until they are needed, a prompt's end before its beginning."""
    cache = PagedCache(num_pages=4, block_size=2)
    prompts = [1, 2, 3, 4], [5, 6, 7, 8]
    for prompt in prompts:
        sequence = cache.start(prompt)
        sequence.append(*rows(range(4)), prompt)
        sequence.free()
    assert cache.free_pages == 4
    again = cache.start([*prompts[0], 0])  # used later than the second, now
    assert again.length == 4
    again.free()
    new = cache.start()
    new.append(*rows([0]))
    # One page was taken, the end of the second prompt.
    assert [cache.start([*prompt, 0]).length for prompt in prompts] == [4, 2]


def test_empty_pages_are_given_away_before_known_ones():
    cache = PagedCache(num_pages=3, block_size=2)
    known = cache.start([1, 2])
    known.append(*rows([0, 1]), [1, 2])
    known.free()
    for _ in range(2):
        cache.start().append(*rows([5]))
    assert cache.start([1, 2, 0]).length == 2


@pytest.mark.claim("paged-cache-loses-nothing")
def test_where_no_page_is_left_nothing_is_lost():
    cache = PagedCache(num_pages=3, block_size=4)
    one, other = cache.start(), cache.start()
    one.append(*rows(range(5)))
    other.append(*rows(range(20, 22)))
    with pytest.raises(
        ValueError,
        match=re.escape(
            "key: expected 1 free pages for 4 more tokens, got 0 of 3. Free a "
            "sequence that is finished, append fewer tokens, or make the PagedCache with more "
            "pages."
        ),
    ):
        one.append(*rows(range(5, 9)))
    check(cache, {one: [*range(5)], other: [20, 21]})
    one.append(*rows(range(5, 8)))  # for so many there is room
    check(cache, {one: [*range(8)], other: [20, 21]})


@pytest.mark.claim("paged-cache-loses-nothing")
def test_an_error_while_it_writes_loses_nothing(monkeypatch):
    cache = PagedCache(num_pages=4, block_size=2)
    one = cache.start([1, 2])
    one.append(*rows([0, 1, 2]), [1, 2, 3])
    other = one.fork()

    def fails(*_):
        raise RuntimeError("no")

    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "transpose", fails)
        with pytest.raises(RuntimeError, match="no"):
            other.append(*rows([7, 8, 9]), [7, 8, 9])
    check(cache, {one: [0, 1, 2], other: [0, 1, 2]})
    assert cache.start([1, 2, 3, 7]).length == 2


def test_pages_that_others_know_by_the_same_tokens_stay_their_own():
    """Two sequences that compute the same at the same time keep a page each."""
    text, cache = Text(), PagedCache(num_pages=5, block_size=2)
    one, other = cache.start([1, 2]), cache.start([1, 2])
    for sequence in (one, other):
        sequence.append(*rows(text([1, 2])), [1, 2])
    assert used(cache, [one, other]) == [[0], [1]]
    one.free()
    found = cache.start([1, 2, 3])
    assert used(cache, [found]) == [[0]]
    other.append(*rows(text([1, 2, 3, 4], 2)), [3, 4])
    assert cache.start([1, 2, 3, 4, 5]).length == 4


def test_it_keeps_its_own_numbers():
    cache, (key, value) = PagedCache(2, 3), rows([1, 2])
    one = cache.start()
    one.append(key, value)
    key.zero_()
    value.zero_()
    check(cache, {one: [1, 2]})


def test_how_much_it_holds():
    cache = PagedCache(num_pages=5, block_size=3)
    assert cache.nbytes == 0
    cache.start().append(*rows([1]))
    assert cache.nbytes == 8 * 5 * 3 * HEADS * (D_K + D_V)
    assert cache.keys.shape == (5, 3, HEADS, D_K)
    assert cache.values.shape == (5, 3, HEADS, D_V)


def test_of_no_sequence_there_is_an_empty_table():
    cache = PagedCache(2, 3)
    table, lengths = cache.block_table([])
    assert table.shape == (0, 0)
    assert lengths.shape == (0,)
    table, lengths = cache.block_table([cache.start()])
    assert table.shape == (1, 0)
    assert lengths.tolist() == [0]


def test_it_goes_on_after_inference_mode():
    cache = PagedCache(3, 2)
    one = cache.start()
    with torch.inference_mode():
        one.append(*rows([0]))
    one.append(*rows([1, 2]))
    check(cache, {one: [0, 1, 2]})


GONE = "sequence: expected one that is in use, got one of 2 tokens that was freed."
WHOLE = "key: expected a torch.Tensor (h_kv, n, d), the "
IDS = "tokens: expected integers, the ids of one sequence"
KEY, VALUE = rows([1, 2])


@pytest.fixture
def held():
    """A cache with one sequence of two tokens, and that sequence."""
    cache = PagedCache(3, 2)
    sequence = cache.start()
    sequence.append(KEY, VALUE)
    return cache, sequence


@pytest.mark.parametrize(
    ("use", "kind", "message"),
    [
        (lambda c, s: s.append(KEY[0], VALUE[0]), TypeError, WHOLE),
        (lambda c, s: s.append(KEY[None], VALUE[None]), TypeError, WHOLE),
        (lambda c, s: s.append(KEY.tolist(), VALUE), TypeError, WHOLE),
        (
            lambda c, s: s.append(KEY[:1], VALUE[:1]),
            ValueError,
            "key: expected (2, n, 3) torch.float64 on cpu, as the cache holds, got (1, n, 3)",
        ),
        (lambda c, s: s.append(KEY, VALUE.float()), ValueError, "value: expected (2, n, 5) torch."),
        (
            lambda c, s: s.append(KEY, VALUE[:, :1]),
            ValueError,
            "value: expected shape (2, 2, 'd_v'",
        ),
        (
            lambda c, s: s.append(KEY, VALUE.clone().requires_grad_()),
            ValueError,
            "value: expected a tensor without gradient, because",
        ),
        (
            lambda c, s: s.append(KEY, VALUE, [1, 2, 3]),
            ValueError,
            "tokens: expected 2 ids, one for each key, got 3.",
        ),
        (lambda c, s: s.append(KEY, VALUE, [1.0, 2.0]), TypeError, IDS),
        (lambda c, s: s.append(KEY, VALUE, torch.ones(2)), TypeError, IDS),
        (lambda c, s: c.start("ab"), TypeError, IDS),
        (lambda c, s: c.start(7), TypeError, IDS),
        (lambda c, s: c.start([[1], [2]]), TypeError, IDS),
        (
            lambda c, s: c.block_table(s),
            TypeError,
            "sequences: expected several, in a list, got PagedSequence. They are",
        ),
        (
            lambda c, s: c.block_table([0]),
            TypeError,
            "sequences: expected what start() or fork() returned, got int.",
        ),
        (
            lambda c, s: c.block_table([PagedCache(3, 2).start()]),
            ValueError,
            "sequences: expected those of this cache, got one of another.",
        ),
    ],
)
def test_what_it_refuses(use, kind, message, held):
    """And holds what it held."""
    with pytest.raises(kind, match=f"^{re.escape(message)}"):
        use(*held)
    check(held[0], {held[1]: [1, 2]})


def test_a_freed_sequence_is_used_no_more(held):
    cache, sequence = held
    sequence.free()
    for use in (
        lambda: sequence.append(KEY, VALUE),
        sequence.fork,
        sequence.free,
        sequence.gather,
        lambda: cache.block_table([sequence]),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(GONE)}"):
            use()


def test_what_an_empty_one_refuses():
    cache = PagedCache(3, 2)
    one = cache.start()
    for use in (lambda: cache.keys, lambda: one.gather()):
        with pytest.raises(
            ValueError, match=r"^cache: expected tokens in it, got none yet\. The pool"
        ):
            use()
    with pytest.raises(TypeError, match=r"^key: expected a floating dtype, or int8 of .* got .*64"):
        one.append(KEY.long(), VALUE)
    with pytest.raises(TypeError, match=r"^value: expected torch.float64, the dtype of key, got "):
        one.append(KEY, VALUE.float())
    for pages, size in ((0, 2), (2, 0), (2.5, 2), (True, 2)):
        kind = ValueError if 0 in (pages, size) else TypeError
        with pytest.raises(kind, match=r"^(num_pages|block_size): expected an integer of"):
            PagedCache(pages, size)
