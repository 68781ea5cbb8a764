"""Attention from pages: the definition of each sequence, wherever its tokens lie."""

import re

import pytest
import torch

import attnref
from attnref import PagedCache, masks
from attnref.bench.memory import peak_bytes
from attnref.variants import paged
from attnref.variants.paged import paged_attention
from tests.variants.every import every

HEADS, KEY_HEADS, D_K, D_V = 6, 2, 5, 3
CLOSE = {"rtol": 1e-12, "atol": 1e-13}  # a few hundred roundings of float64
LENGTHS = (13, 1, 37, 7, 12, 0)


@pytest.fixture(params=[5, 40, 10**6], ids=lambda numbers: f"{numbers} at a time")
def groups(request, monkeypatch):
    """From one page of each sequence at a time to all of them."""
    monkeypatch.setattr(paged, "_NUMBERS", request.param * KEY_HEADS * (D_K + D_V))


@pytest.fixture
def pool(randn, generator, device):
    """Pages in an order that is drawn, NaN where no token is, and the sequences one by one."""

    def drawn(lengths=LENGTHS, size=4, key_heads=KEY_HEADS, dtype=torch.float64):
        counts = [-(-length // size) for length in lengths]
        order = torch.randperm(sum(counts) + 3, generator=generator, device=device).tolist()
        key, value = (
            torch.full((len(order), size, key_heads, d), torch.nan, dtype=dtype, device=device)
            for d in (D_K, D_V)
        )
        table = torch.full((len(lengths), max(counts) + 1), -7, device=device)
        sequences = []
        for row, length in enumerate(lengths):
            tokens = (
                randn(key_heads, length, D_K).to(dtype),
                randn(key_heads, length, D_V).to(dtype),
            )
            sequences.append(tokens)
            for j in range(length):
                if j % size == 0:
                    table[row, j // size] = order.pop()
                for side, own in zip((key, value), tokens, strict=True):
                    side[table[row, j // size], j % size] = own[:, j]
        return key, value, table, torch.tensor(lengths, device=device), sequences

    return drawn


def by_definition(query, sequences, **options):
    """Each sequence alone, its keys in order."""
    outputs = []
    for own, (key, value) in zip(query, sequences, strict=True):
        n, m = own.shape[-2], key.shape[-2]
        mask = masks.causal(n, m, alignment="bottom-right")
        outputs.append(
            attnref.scaled_dot_product_attention(own, key, value, mask, enable_gqa=True, **options)
        )
    return torch.stack(outputs)


@pytest.mark.claim("paged-is-the-definition")
@every("key_heads", [1, 2, 6])
@every("size", [1, 4, 64])
@every("n", [0, 1, 3, 11])
def test_each_sequence_sees_its_own_tokens(key_heads, size, n, pool, randn, groups):
    """The newest ones from the end, in whatever pages; what else is in the pool is NaN."""
    key, value, table, lengths, sequences = pool(size=size, key_heads=key_heads)
    query = randn(len(LENGTHS), HEADS, n, D_K)
    ours = paged_attention(query, key, value, table, lengths, scale=0.7, enable_gqa=True)
    torch.testing.assert_close(ours, by_definition(query, sequences, scale=0.7), **CLOSE)


@pytest.mark.claim("page-order-changes-nothing")
def test_pages_in_another_order_give_the_same_bits(pool, randn, generator, device, groups):
    key, value, table, lengths, _ = pool()
    query = randn(len(LENGTHS), HEADS, 3, D_K)
    ours = paged_attention(query, key, value, table, lengths, enable_gqa=True)
    order = torch.randperm(len(key), generator=generator, device=device)
    moved = torch.where(table < 0, table, order.argsort()[table])
    again = paged_attention(query, key[order], value[order], moved, lengths, enable_gqa=True)
    assert torch.equal(ours, again)
    assert not torch.equal(moved, table)


@pytest.mark.claim("paged-steps-are-one-pass")
@pytest.mark.parametrize("size", [1, 3, 8])
def test_step_by_step_is_one_causal_pass(size, randn):
    """Two texts at a time, fed token by token and in pieces, each piece's pages between others'."""
    lengths, cache = (17, 11), PagedCache(num_pages=40, block_size=size)
    texts = [(randn(HEADS, m, D_K), randn(2, m, D_K), randn(2, m, D_V)) for m in lengths]
    handles = [cache.start() for _ in texts]
    rows = [[], []]
    for begin, end in ((0, 1), (1, 2), (2, 6), (6, 7), (7, 11)):
        now = slice(begin, end)
        for handle, (_, key, value) in zip(handles, texts, strict=True):
            handle.append(key[:, now], value[:, now])
        query = torch.stack([query[:, now] for query, *_ in texts])
        table, held = cache.block_table(handles)
        output = paged_attention(query, cache.keys, cache.values, table, held, enable_gqa=True)
        for own, row in zip(rows, output, strict=True):
            own.append(row)
    for own, text in zip(rows, texts, strict=True):
        expected = attnref.scaled_dot_product_attention(
            *(x[:, :11] for x in text), is_causal=True, enable_gqa=True
        )
        torch.testing.assert_close(torch.cat(own, -2), expected, **CLOSE)


@pytest.mark.claim("forks-attend-to-their-own")
def test_branches_of_one_text_attend_to_their_own_continuation(randn):
    cache = PagedCache(num_pages=9, block_size=4)
    trunk = cache.start()
    trunk.append(randn(2, 10, D_K), randn(2, 10, D_V))
    branches = [trunk, trunk.fork(), trunk.fork()]
    before = trunk.gather()
    news = [(randn(2, 1, D_K), randn(2, 1, D_V)) for _ in branches]
    for branch, new in zip(branches, news, strict=True):
        branch.append(*new)
    query = randn(3, HEADS, 1, D_K)
    table, lengths = cache.block_table(branches)
    assert (table[:, :2] == table[0, :2]).all()
    ours = paged_attention(query, cache.keys, cache.values, table, lengths, enable_gqa=True)
    whole = [tuple(torch.cat(pair, 1) for pair in zip(before, new, strict=True)) for new in news]
    torch.testing.assert_close(ours, by_definition(query, whole), **CLOSE)


@every("key_heads", [HEADS, 1])
def test_heads_that_share_nothing_need_no_word_and_one_head_serves_all(key_heads, pool, randn):
    key, value, table, lengths, sequences = pool(key_heads=key_heads)
    query = randn(len(LENGTHS), HEADS, 3, D_K)
    ours = paged_attention(query, key, value, table, lengths)
    torch.testing.assert_close(ours, by_definition(query, sequences), **CLOSE)


@pytest.mark.claim("other-sequences-are-not-seen")
def test_a_nan_stays_with_its_sequence(pool, randn, groups):
    """In a page that another sequence does not have, and behind the end of its last page."""
    key, value, table, lengths, _ = pool()
    query = randn(len(LENGTHS), HEADS, 1, D_K)
    clean = paged_attention(query, key, value, table, lengths, enable_gqa=True)
    assert clean.isfinite().all()  # the places without a token hold NaN already
    for side in (key, value):
        side[table[2, 5], 1] = torch.inf
    found = paged_attention(query, key, value, table, lengths, enable_gqa=True)
    assert torch.equal(found[[0, 1, 3, 4, 5]], clean[[0, 1, 3, 4, 5]])
    assert found[2].isnan().any()


@every("n", [1, 3])
def test_gradients_are_those_of_the_definition(n, pool, randn, groups):
    """As long as nobody writes to the pool."""
    key, value, table, lengths, sequences = pool()
    inputs = [randn(len(LENGTHS), HEADS, n, D_K), key, value]
    ours = paged_attention(*(x.requires_grad_() for x in inputs), table, lengths, enable_gqa=True)
    leaves = [x.requires_grad_() for pair in sequences for x in pair]
    expected = by_definition(inputs[0], sequences)
    cotangent = randn(*ours.shape)
    d_query, d_key, d_value = torch.autograd.grad(ours, inputs, cotangent)
    theirs, *others = torch.autograd.grad(expected, [inputs[0], *leaves], cotangent)
    torch.testing.assert_close(d_query, theirs, **CLOSE)
    pairs = zip(others[::2], others[1::2], strict=True)
    for row, (length, pair) in enumerate(zip(LENGTHS, pairs, strict=True)):
        for d_pool, own in zip((d_key, d_value), pair, strict=True):
            found = d_pool[table[row, : -(-length // 4)]].flatten(0, 1)[:length].transpose(0, 1)
            torch.testing.assert_close(found, own, **CLOSE)


@pytest.mark.claim("paged-holds-no-sequence")
def test_what_it_takes_does_not_grow_with_the_text(device, generator, monkeypatch):
    """Of a text 8 times as long, no more than twice; a copy of its keys would take 8 times.

    What grows is made of the table: some 210 bytes a page, whose keys and values take 16384.
    """
    monkeypatch.setattr(paged, "_NUMBERS", 2**16)

    def taken(length):
        key, value = (
            torch.randn(length // 16, 16, 2, 64, device=device, generator=generator)
            for _ in range(2)
        )
        query = torch.randn(2, 8, 1, 64, device=device, generator=generator)
        table = torch.arange(length // 16, device=device).expand(2, -1)
        lengths = torch.tensor([length, length // 2], device=device)
        given = query, key, value, table, lengths
        return peak_bytes(lambda: paged_attention(*given, enable_gqa=True), device)

    short, long = taken(1024), taken(8192)
    assert long < 2 * short
    assert long < 8192 * 2 * 64 * 4  # the keys of the longer sequence
    pages = 2 * (8192 - 1024) // 16
    assert long - short < pages * 16 * (2 * 64 + 2 * 64) * 4 / 64


@pytest.mark.claim("ended-sequences-take-no-part")
def test_ended_sequences_take_no_part(pool, randn, monkeypatch):
    """One page of each at a time: each page is looked up once, for the sequence that has it."""
    seen, original = [], paged._read_pages

    def recorded(side, pages, ends):
        seen.append(pages)
        return original(side, pages, ends)

    monkeypatch.setattr(paged, "_read_pages", recorded)
    monkeypatch.setattr(paged, "_NUMBERS", 0)  # one page of each
    key, value, table, lengths, _ = pool()
    paged_attention(randn(len(LENGTHS), HEADS, 1, D_K), key, value, table, lengths, enable_gqa=True)
    pages = [page for one in seen[::2] for page in one.flatten().tolist()]
    used = [page for row in table.tolist() for page in row if page >= 0]
    assert sorted(pages) == sorted(used)  # each once, and no other


def test_scores_may_be_huge(pool, randn):
    key, value, table, lengths, sequences = pool(dtype=torch.float32)
    query = 1e4 * randn(len(LENGTHS), HEADS, 3, D_K, dtype=torch.float32)
    ours = paged_attention(query, key, value, table, lengths, enable_gqa=True)
    assert ours.isfinite().all()
    wide = [tuple(x.double() for x in pair) for pair in sequences]
    expected = by_definition(query.double(), wide)
    # Of scores about 1e5, float32 rounds differences to 0.01, and so to a hundredth of a weight.
    torch.testing.assert_close(ours.double(), expected, rtol=0, atol=0.1)


def test_no_sequence_and_no_values(pool, randn):
    key, value, table, lengths, _ = pool()
    query = randn(len(LENGTHS), HEADS, 3, D_K)
    empty = paged_attention(query, key, value[..., :0], table, lengths, enable_gqa=True)
    assert empty.shape == (len(LENGTHS), HEADS, 3, 0)
    given = [x.requires_grad_() for x in (query, key, value)]
    for pages in (table, table[:, :0]):
        nothing = paged_attention(*given, pages, 0 * lengths, enable_gqa=True)
        assert torch.equal(nothing, torch.zeros(len(LENGTHS), HEADS, 3, D_V).to(nothing))
    for gradient in torch.autograd.grad(nothing.sum(), given):
        assert (gradient == 0).all()


CALL = {
    "query": torch.zeros(2, HEADS, 1, D_K),
    "key": torch.zeros(9, 4, 2, D_K),
    "value": torch.zeros(9, 4, 2, 3),
    "block_table": torch.tensor([[0, 1, 2], [3, -1, -1]]),
    "lengths": torch.tensor([5, 2]),
    "enable_gqa": True,
}


LENGTHS_ARE = "lengths: expected integers of shape (2,), got "


TABLE_IS = "block_table: expected integers of shape (2, most pages), got "


PAGES = "block_table: expected pages between 0 and 8, of the 9 of the pool, got"


@every(
    ("name", "wrong", "message"),
    [
        ("query", torch.zeros(6, 3, D_K), "query: expected shape (b, heads, n, d_k)"),
        ("key", torch.zeros(9, 2, D_K), "key: expected shape (num_pages, block_size"),
        ("value", torch.zeros(9, 4, 2, 2, 2), "value: expected shape (num_pages, b"),
        ("key", torch.zeros(9, 4, 2, 7), "key: expected last dimension 5, as query"),
        ("value", torch.zeros(9, 3, 2, 7), "value: expected shape (9, 4, 2, 'd_v')"),
        ("value", torch.zeros(9, 4, 2, 3).double(), "value: expected torch.float32, "),
        ("enable_gqa", False, "key: expected leading dimensions that broadcast wit"),
        ("lengths", torch.tensor([1]), LENGTHS_ARE),
        ("lengths", torch.tensor([1.0, 2.0]), LENGTHS_ARE),
        ("block_table", torch.zeros(2).long(), TABLE_IS),
        ("block_table", torch.zeros(2, 3), TABLE_IS),
        (
            "lengths",
            torch.tensor([13, 2]),
            "lengths: expected numbers between 0 and 12, the places of 3 pages of 4, got [13, 2].",
        ),
        ("lengths", torch.tensor([-1, 2]), "lengths: expected numbers between 0 and"),
        ("block_table", torch.tensor([[0, 9, 1], [0, -1, -1]]), f"{PAGES} 0 to 9 among"),
        ("block_table", torch.tensor([[0, -1, 1], [0, -1, -1]]), f"{PAGES} -1 to 0 among"),
        ("key", torch.zeros(0, 4, 2, D_K), "key: expected at least one page with a place in it"),
    ],
)
def test_a_wrong_argument_is_named(name, wrong, message):
    given = CALL | {name: wrong}
    if len(given["key"]) == 0:
        given["value"] = CALL["value"][:0]
    kind = TypeError if wrong is not False and wrong.dtype != CALL[name].dtype else ValueError
    with pytest.raises(kind, match=f"^{re.escape(message)}"):
        paged_attention(**given)


@every(
    "dtype",
    [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.uint64],
)
def test_any_integers_count(dtype, call):
    """Of eight bits too, which would wrap around behind 0."""
    query, key, value, table, lengths = call
    query, value = query.expand(-1, -1, 6, -1), torch.arange(96.0).view(value.shape)
    expected = paged_attention(query, key, value, table, lengths)
    found = paged_attention(query, key, value, table.to(dtype), lengths.to(dtype))
    assert torch.equal(found, expected)
    with pytest.raises(ValueError, match=r"^lengths: expected numbers between 0 and 8"):
        paged_attention(query, key, value, table.to(dtype), (0 * lengths + 9).to(dtype))


@pytest.fixture
def call():
    pool, table = torch.zeros(3, 4, 2, 4), torch.tensor([[0, 1]])
    return torch.zeros(1, 2, 1, 4), pool, pool, table, torch.tensor([5])


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.claim("lengths-are-no-part-of-a-graph")
def test_a_graph_holds_a_table_but_no_loop_up_to_the_longest_text(pool):
    """Attention that looks up the whole table is one graph, for another table too."""
    key, value, table, lengths, _ = pool()
    key, value, table = key.nan_to_num(), value.nan_to_num(), table.clamp(min=0)
    query = torch.ones(len(table), HEADS, 1, D_K, dtype=key.dtype, device=key.device)

    def looked_up(table, lengths):
        k, v = (x[table].flatten(1, 2).movedim(1, 2) for x in (key, value))
        sees = torch.arange(k.shape[-2], device=k.device) < lengths[:, None, None, None]
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(query, k, v, attn_mask=sees, enable_gqa=True)

    def page_by_page(table, lengths):
        page, longest = 0, max(lengths.tolist())
        while 4 * page < longest:
            page += 1
        return looked_up(table[:, :page], lengths)

    def ours(table, lengths):
        return paged_attention(query, key, value, table, lengths, enable_gqa=True)

    torch.compiler.reset()
    one_graph = torch.compile(looked_up, fullgraph=True, backend="eager")
    for other in (table, table.flip(1).contiguous()):
        with torch.compiler.set_stance("default" if other is table else "fail_on_recompile"):
            found = one_graph(other, lengths)
        torch.testing.assert_close(found[:-1], ours(other, lengths)[:-1], **CLOSE)
    refused = ((page_by_page, "data-dependent"), (ours, "leave the call out of it with"))
    for function, message in refused:
        with pytest.raises(RuntimeError, match=message):
            torch.compile(function, fullgraph=True, backend="eager")(table, lengths)
    found = torch.compile(ours, backend="eager")(table, lengths)
    assert torch.equal(found, ours(table, lengths))


def test_lengths_are_refused_before_they_are_read(monkeypatch, call):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with pytest.raises(ValueError, match=r"^lengths: expected a call outside torch\.compile"):
        paged_attention(*call)
