"""The class: what every mask answers, and masks together."""

import itertools
import math
import operator
import pickle
import re

import pytest
import torch
from torch.nn.attention.flex_attention import create_mask, flex_attention

from attnref import masks
from attnref.masks import EMPTY, FULL, MIXED, Mask
from attnref.masks.mask import slice_mask
from attnref.reference import scaled_dot_product_attention
from tests.masks.definitions import MASKS, M, N, defined_mask, every_mask
from tests.variants.every import every


@every_mask
@every("rows", [slice(None), slice(2, 5), slice(-3, None), slice(9, 99, 4)])
@every("columns", [slice(None), slice(3, 4), slice(0, 7, 3), slice(5, 2)])
def test_a_block_is_that_part_of_the_whole(name, rows, columns, device):
    mask, _ = MASKS[name]
    assert torch.equal(
        mask.block(rows, columns, device), defined_mask(name, device)[..., rows, columns]
    )


def test_a_block_can_run_backwards(device):
    part = masks.causal(N).block(slice(None, None, -1), slice(None), device)
    assert torch.equal(part, defined_mask("causal", device).flip(-2))


HUGE = 2**20  # squared it is a million million pairs, a terabyte of bools
HUGE_MASKS = {
    "causal": masks.causal(HUGE),
    "window": masks.sliding_window(HUGE, window=513),
    "dilated": masks.dilated(HUGE, window=64, dilation=4, is_causal=True),
    "strided": masks.strided(HUGE, stride=1024),
    "dyadic": masks.dyadic(HUGE),
    "padding": masks.padding([HUGE, 3], HUGE).expand((2, 1, HUGE, HUGE)),
    "prefix": masks.prefix_lm(HUGE, prefix=1000),
    "packed": masks.packed([HUGE // 2, HUGE // 2]),
    "global": masks.global_tokens(HUGE, positions=[5]),
    "tree": masks.tree([-1, *range(299)], past=HUGE - 300),
    "layout": masks.block_layout(HUGE, layout=torch.eye(64).bool(), block_size=HUGE // 64),
    "combined": ~(masks.causal(HUGE) & masks.padding([HUGE, 3], HUGE)) | masks.dyadic(HUGE),
}


@pytest.mark.claim("block-costs-a-block")
@every("name", HUGE_MASKS)
def test_a_block_costs_the_memory_of_a_block(name, device):
    """The whole could not exist; nothing larger than the block is made on the way."""
    last = slice(-300, None)

    class Largest(torch.overrides.TorchFunctionMode):
        size = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                # Elements held, not those of a broadcast view; the n marks given do not count.
                held = math.prod(
                    size for size, step in zip(result.shape, result.stride(), strict=True) if step
                )
                Largest.size = max(Largest.size, held if result.shape[-1] != HUGE else 0)
            return result

    with Largest():
        block = HUGE_MASKS[name].block(last, last, device)
    assert block.shape[-2:] == (300, 300)
    assert 0 < Largest.size <= 2 * 300 * 300  # two samples
    first = {"padding": [[True], [False]], "global": False}.get(name, True)
    assert (block[..., 0, 0] == torch.tensor(first, device=device)).all()


@every("name", MASKS)
def test_count_is_the_number_of_allowed_pairs(name, device):
    count = MASKS[name][0].count()
    assert type(count) is int
    assert count == int(defined_mask(name, device).sum())


def test_count_takes_a_strip_at_a_time():
    """The whole, with n = 32768, would be a gigabyte, and the distances in it eight."""
    n, asked = 32768, []

    def rule(i, j):
        asked.append(i.numel() * j.numel())
        return j <= i

    assert Mask((n, n), rule).count() == n * (n + 1) // 2
    assert sum(asked) == n * n
    assert max(asked) <= 2**20


def test_count_leaves_broadcast_dimensions_in():
    assert masks.padding([2, 3], 5).count() == 5
    assert masks.padding([2, 3], 5).expand((2, 7, 11, 5)).count() == 7 * 11 * 5
    assert masks.causal(0).count() == masks.padding([], 5).count() == 0


def test_pictures():
    assert masks.causal(2, 3, alignment="bottom-right").picture() == "##.\n###"
    assert masks.padding([1, 2], 3).picture() == "#..\n\n##."
    assert masks.causal(0).picture() == ""
    picture = masks.dyadic(128).picture().split("\n")
    assert [len(line) for line in picture] == [128] * 128


@every_mask
@every("block_size", [1, 3, 4, 19])
def test_the_summary_says_what_each_block_holds(name, block_size, device):
    mask, _ = MASKS[name]
    summary = mask.block_summary(block_size, device)
    dense = defined_mask(name, device)
    rows, columns = (range(0, size, block_size) for size in mask.shape[-2:])
    assert summary.dtype == torch.int8
    assert summary.shape == (*mask.shape[:-2], len(rows), len(columns))
    for (index, top), (column, left) in itertools.product(enumerate(rows), enumerate(columns)):
        block = dense[..., top : top + block_size, left : left + block_size].flatten(-2)
        expected = torch.full(mask.shape[:-2], MIXED, dtype=torch.int8, device=device)
        expected[block.all(-1)] = FULL
        expected[~block.any(-1)] = EMPTY
        assert torch.equal(summary[..., index, column], expected)


def test_the_summary_of_nothing(device):
    assert masks.causal(0).block_summary(2, device).shape == (0, 0)
    assert masks.causal(3, 0, alignment="top-left").block_summary(2, device).shape == (2, 0)


@pytest.mark.claim("causal-leaves-half-its-blocks")
def test_a_causal_mask_leaves_half_its_blocks_and_half_a_row_more(device):
    """Of 32 × 32 blocks 1/2 + 1/64 = 51.6 % are not empty; a mask alone would skip none."""
    summary = masks.causal(32 * 8).block_summary(8, device)
    assert (summary != EMPTY).double().mean().item() == 0.515625
    assert torch.equal(summary == MIXED, torch.eye(32, device=device).bool())
    assert masks.causal(32 * 8).count() == 256 * 257 // 2


@pytest.mark.claim("masks-combine-as-tensors")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("causal", "window"),
        ("causal, top-left", "padding"),
        ("padding", "causal, bottom-right"),
        ("layouts of heads", "causal and padded"),
        ("global", "documents of samples"),
    ],
)
@every("both", [operator.and_, operator.or_])
def test_masks_combine_as_their_tensors_do(both, one, other, device):
    first, second = MASKS[one][0], MASKS[other][0]
    if "heads" in one:
        second = second & masks.padding([M, M, M], M)
    expected = both(first.dense(device), second.dense(device))
    assert both(first, second).shape == expected.shape
    assert torch.equal(both(first, second).dense(device), expected)
    assert torch.equal((~both(first, second)).dense(device), ~expected)


def test_a_mask_of_one_query_counts_for_all_of_them(device):
    """Its rule is asked for its only row: the position of the other mask's query is not its own."""
    one = masks.causal(1, 5, alignment="top-left")  # the first key
    other = masks.causal(3, 5, alignment="top-left")
    for both in (operator.and_, operator.or_):
        expected = both(one.dense(device), other.dense(device))
        assert torch.equal(both(one, other).dense(device), expected)
        assert torch.equal(both(other, one).dense(device), expected)
    assert (one & other).count() == 3
    column = Mask((3, 1), lambda i, j: j < i)
    assert torch.equal(column.expand((3, 5)).dense(device), column.dense(device).expand(3, 5))


def test_expand_reaches_the_rows_that_queries_share(device):
    mask = masks.padding([1, 4], 5)
    assert mask.block(slice(2, 4), slice(None), device).shape == (2, 1, 0, 5)
    wide = mask.expand((2, 3, 7, 5))
    assert torch.equal(wide.dense(device), mask.dense(device).expand(2, 3, 7, 5))
    block = wide.block(slice(2, 4), slice(3, 5), device)
    assert torch.equal(block, mask.dense(device)[..., 3:].expand(2, 3, 2, 2))


@every("both", [operator.and_, operator.or_])
@every(
    ("one", "other"),
    [
        (masks.causal(5), masks.causal(7)),
        (masks.causal(5), masks.padding([1, 2], 7)),
        (masks.causal(5), masks.causal(5, 1, alignment="top-left")),
        (masks.padding([1, 0], 1), masks.causal(5)),
        (masks.padding([1, 2], 5), masks.padding([1, 2, 3], 5)),
    ],
)
def test_masks_of_unlike_shapes_do_not_combine(both, one, other):
    text = "mask: expected shapes that broadcast and agree in the number of keys, got "
    with pytest.raises(ValueError, match=f"^{re.escape(f'{text}{one.shape} and {other.shape}')}"):
        both(one, other)


def test_a_mask_combines_with_masks_only():
    with pytest.raises(
        TypeError,
        match=r"^mask: expected another Mask to combine with, got "
        r"Tensor",
    ):
        masks.causal(2) & torch.ones(2, 2, dtype=torch.bool)


def test_a_mask_has_no_truth():
    """`and` would silently drop one of two masks."""
    for said in (
        lambda: masks.causal(3) and masks.padding([1, 2], 3),
        lambda: masks.causal(3) or masks.causal(3),
        lambda: not masks.causal(3),
    ):
        with pytest.raises(TypeError, match=r"^mask: expected & between masks, \| or ~, got and"):
            said()


def test_repr_and_shape():
    mask = Mask(torch.Size([2, 3]), lambda i, j: j <= i)
    assert mask.shape == (2, 3)
    assert repr(mask) == "Mask(shape=(2, 3))"


# A rule of each kind: arithmetic, a table, a lookup, for each head, for each sample, combined.
TELLING = "causal, bottom-right", "layouts of heads", "trees of samples", "causal and padded"
telling = pytest.mark.parametrize(
    "name", [one if one in TELLING else pytest.param(one, marks=pytest.mark.audit) for one in MASKS]
)


@telling
def test_masks_can_be_compiled_in_one_piece(name, device):
    mask, _ = MASKS[name]
    torch.compiler.reset()
    dense = torch.compile(lambda: mask.dense(device), backend="eager", fullgraph=True)
    assert torch.equal(dense(), defined_mask(name, device))


@every("name", MASKS)
def test_a_mask_can_be_sent_to_another_process(name, device):
    mask, _ = MASKS[name]
    sent = pickle.loads(pickle.dumps(mask))
    assert sent.shape == mask.shape
    assert torch.equal(sent.dense(device), mask.dense(device))


def for_flexattention(name):
    """With all its rows, and four sizes."""
    mask, _ = MASKS[name]
    n = N if mask.shape[-2] == 1 else mask.shape[-2]
    whole = mask.expand((*mask.shape[:-2], n, mask.shape[-1]))
    return whole, (1, 1, *whole.shape[:-2])[-2:], *whole.shape[-2:]


@every("name", MASKS)
def test_flexattention_is_given_the_same_pairs(name, device):
    whole, lead, n, m = for_flexattention(name)
    dense = create_mask(whole.mask_mod, *lead, n, m, device=str(device))
    assert torch.equal(dense, whole.dense(device).expand(*lead, n, m))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@telling
def test_flexattention_is_given_the_same_blocks(name, device):
    """What its kernel makes of those that are left."""
    whole, lead, n, m = for_flexattention(name)
    block_mask = whole.block_mask(block_size=4, device=device)
    assert block_mask.shape == (*lead, n, m)
    assert block_mask.BLOCK_SIZE == (4, 4)
    seeded = torch.Generator(device).manual_seed(0)
    query, key, value = (
        torch.randn(*lead, length, 5, generator=seeded, device=device) for length in (n, m, m)
    )
    found = flex_attention(query, key, value, block_mask=block_mask)
    torch.testing.assert_close(found, scaled_dot_product_attention(query, key, value, whole))


@every("shape", [(7, 11), (2, 1, 7, 11)])
def test_a_part_is_what_is_there_in_the_whole(shape, device):
    mask = Mask(shape, lambda i, j: (i * 3 + j * 5) % 4 == 1)
    rows, columns = range(1, 7, 2), range(2, 11, 3)
    part = slice_mask(mask, rows, columns)
    assert part.shape == (*shape[:-2], 3, 3)
    assert torch.equal(part.dense(device), mask.dense(device)[..., 1:7:2, 2:11:3])
    assert torch.equal(slice_mask(part, range(2), range(1, 3)).dense(), part.dense()[..., :2, 1:])


@every(
    ("call", "text"),
    [
        (masks.causal(129).picture, "picture: expected at most 128 lines and columns, got a mask"),
        (masks.causal(3, 129, alignment="top-left").picture, "picture: expected at most 128 lines"),
        (masks.padding([1] * 129, 2).picture, "picture: expected at most 128 lines and columns, "),
        (
            lambda: masks.padding([1, 4], 5).expand((2, 3, 5, 7)),
            "attn_mask: expected a shape that broadcasts to the scores (2, 3, 5, 7)",
        ),
        (
            masks.block_layout(4, layout=torch.ones(2, 3, 5, 2, 2).bool(), block_size=2).block_mask,
            "mask: expected (batch, heads, n, m) at most, got",
        ),
    ],
)
def test_what_does_not_fit_is_named(call, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        call()
