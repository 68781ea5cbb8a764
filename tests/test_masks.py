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
from attnref.reference import attention_weights, scaled_dot_product_attention

N, M = 11, 17
LENGTHS = [5, 0, 17]
IDS = [3, 3, -1, 0, 0, 0, 3, -1, 7, 7, 3]
LAYOUT = [[True, False, True], [False, False, True]]
HEAD_LAYOUTS = [LAYOUT, [[False, True, True], [True, True, False]]]


def power_of_two(distance: int) -> bool:
    return distance in {2**k for k in range(40)}


# Each mask beside its definition for one pair, in plain Python: (query i, key j) or, with
# leading dimensions, (sample b, head h, query i, key j).
MASKS = {
    "causal": (masks.causal(N), lambda i, j: j <= i),
    "causal, top-left": (masks.causal(N, M, alignment="top-left"), lambda i, j: j <= i),
    "causal, bottom-right": (
        masks.causal(N, M, alignment="bottom-right"),
        lambda i, j: j <= i + 6,
    ),
    "causal, more queries": (
        masks.causal(M, N, alignment="bottom-right"),
        lambda i, j: j <= i - 6,
    ),
    "window": (
        masks.sliding_window(N, window=4, is_causal=True),
        lambda i, j: j in range(i - 3, i + 1),
    ),
    "window of one": (masks.sliding_window(N, window=1, is_causal=True), lambda i, j: j == i),
    "window, two-sided": (
        masks.sliding_window(N, M, window=5, alignment="bottom-right"),
        lambda i, j: j in range(i + 6 - 2, i + 6 + 3),
    ),
    "window, top-left": (
        masks.sliding_window(N, M, window=3, alignment="top-left", is_causal=True),
        lambda i, j: j in {i, i - 1, i - 2},
    ),
    "dilated": (
        masks.dilated(N, M, window=3, dilation=2, alignment="bottom-right", is_causal=True),
        lambda i, j: j in {i + 6, i + 4, i + 2},
    ),
    "dilated, two-sided": (
        masks.dilated(M, window=5, dilation=3),
        lambda i, j: j in {i - 6, i - 3, i, i + 3, i + 6},
    ),
    "strided": (
        masks.strided(M, stride=4),
        lambda i, j: j <= i and (i - j < 4 or (i - j) % 4 == 0),
    ),
    "strided, bottom-right": (
        masks.strided(M, N, stride=3, alignment="bottom-right"),
        lambda i, j: j <= i - 6 and (i - 6 - j < 3 or (i - 6 - j) % 3 == 0),
    ),
    "dyadic": (masks.dyadic(M), lambda i, j: i == j or power_of_two(i - j)),
    "dyadic, bottom-right": (
        masks.dyadic(N, M, alignment="bottom-right"),
        lambda i, j: i + 6 == j or power_of_two(i + 6 - j),
    ),
    "prefix": (masks.prefix_lm(N, prefix=3), lambda i, j: j <= i or j < 3),
    "documents": (masks.documents(IDS), lambda i, j: IDS[i] == IDS[j] and IDS[i] != -1),
    "packed": (
        masks.packed([2, 3, 0, 6]),
        lambda i, j: (i < 2) == (j < 2) and (i < 5) == (j < 5),
    ),
    "global": (
        masks.global_tokens(N, positions=[7, 2]),
        lambda i, j: i in (2, 7) or j in (2, 7),
    ),
    "layout": (
        masks.block_layout(N, M, layout=torch.tensor(LAYOUT), block_size=7),
        lambda i, j: LAYOUT[i // 7][j // 7],
    ),
    "padding": (masks.padding(LENGTHS, M), lambda b, h, i, j: j < LENGTHS[b]),
    "documents of samples": (
        masks.documents([IDS, IDS[::-1]]),
        lambda b, h, i, j: (ids := [IDS, IDS[::-1]][b])[i] == ids[j] and ids[i] != -1,
    ),
    "layouts of heads": (
        masks.block_layout(N, M, layout=torch.tensor(HEAD_LAYOUTS), block_size=7),
        lambda h, i, j: HEAD_LAYOUTS[h][i // 7][j // 7],
    ),
    "causal and padded": (
        masks.causal(N, M, alignment="bottom-right") & masks.padding(LENGTHS, M),
        lambda b, h, i, j: j <= i + 6 and j < LENGTHS[b],
    ),
    "prefixes of samples": (
        masks.causal(M) | masks.padding(LENGTHS, M),
        lambda b, h, i, j: j <= i or j < LENGTHS[b],
    ),
    "Longformer": (
        masks.sliding_window(N, window=3) | masks.global_tokens(N, positions=[0]),
        lambda i, j: abs(i - j) <= 1 or i == 0 or j == 0,
    ),
    "not causal": (~masks.causal(N), lambda i, j: j > i),
}
every_mask = pytest.mark.parametrize("name", MASKS)


def by_definition(name, device):
    mask, allowed = MASKS[name]
    answers = [allowed(*place) for place in itertools.product(*map(range, mask.shape))]
    return torch.tensor(answers, device=device).reshape(mask.shape)


def exactly(text):
    return f"^{re.escape(text)}$"


def random(*shape, device, generator):
    return torch.randn(shape, device=device, generator=generator, dtype=torch.float64)


# What a mask answers


@every_mask
def test_each_mask_equals_its_definition(name, device):
    mask, _ = MASKS[name]
    dense = mask.dense(device)
    assert dense.dtype == torch.bool
    assert dense.device == torch.zeros(0, device=device).device
    assert torch.equal(dense, by_definition(name, device))


@every_mask
@pytest.mark.parametrize("rows", [slice(None), slice(2, 5), slice(-3, None), slice(9, 99, 4)])
@pytest.mark.parametrize("columns", [slice(None), slice(3, 4), slice(0, 7, 3), slice(5, 2)])
def test_a_block_is_that_part_of_the_whole(name, rows, columns, device):
    mask, _ = MASKS[name]
    assert torch.equal(
        mask.block(rows, columns, device), by_definition(name, device)[..., rows, columns]
    )


def test_a_block_can_run_backwards(device):
    part = masks.causal(N).block(slice(None, None, -1), slice(None), device)
    assert torch.equal(part, by_definition("causal", device).flip(-2))


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
    "layout": masks.block_layout(HUGE, layout=torch.eye(64).bool(), block_size=HUGE // 64),
    "combined": ~(masks.causal(HUGE) & masks.padding([HUGE, 3], HUGE)) | masks.dyadic(HUGE),
}


@pytest.mark.claim("block-costs-a-block")
@pytest.mark.parametrize("name", HUGE_MASKS)
def test_a_block_costs_the_memory_of_a_block(name, device):
    """The whole could not exist; nothing larger than the block is made on the way."""
    start = HUGE - 300

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
        block = HUGE_MASKS[name].block(slice(start, HUGE), slice(start, HUGE), device)
    assert block.shape[-2:] == (300, 300)
    assert 0 < Largest.size <= 2 * 300 * 300  # two samples
    first = {"padding": [[True], [False]], "global": False}.get(name, True)
    assert (block[..., 0, 0] == torch.tensor(first, device=device)).all()


@every_mask
def test_count_is_the_number_of_allowed_pairs(name, device):
    count = MASKS[name][0].count()
    assert type(count) is int
    assert count == int(by_definition(name, device).sum())


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


@pytest.mark.parametrize(
    "mask",
    [masks.causal(129), masks.causal(3, 129, alignment="top-left"), masks.padding([1] * 129, 2)],
)
def test_a_picture_too_large_is_refused(mask):
    text = (
        f"picture: expected at most 128 lines and columns, got a mask of shape {mask.shape}. "
        "Draw a smaller mask made with the same options."
    )
    with pytest.raises(ValueError, match=exactly(text)):
        mask.picture()


@every_mask
@pytest.mark.parametrize("block_size", [1, 3, 4, 19])
def test_the_summary_says_what_each_block_holds(name, block_size, device):
    mask, _ = MASKS[name]
    summary = mask.block_summary(block_size, device)
    dense = by_definition(name, device)
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


# Masks together


@pytest.mark.claim("masks-combine-as-tensors")
@pytest.mark.parametrize("both", [operator.and_, operator.or_])
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


def test_expand_names_shapes_that_do_not_fit():
    with pytest.raises(
        ValueError,
        match=r"^attn_mask: expected a shape that broadcasts to the scores \(2, 3, 5, 7\)",
    ):
        masks.padding([1, 4], 5).expand((2, 3, 5, 7))


@pytest.mark.parametrize("both", [operator.and_, operator.or_])
@pytest.mark.parametrize(
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
    text = (
        "mask: expected shapes that broadcast and agree in the number of keys, got "
        f"{one.shape} and {other.shape}. Build both for the same (n, m)."
    )
    with pytest.raises(ValueError, match=exactly(text)):
        both(one, other)


def test_a_mask_combines_with_masks_only():
    text = (
        "mask: expected another Mask to combine with, got Tensor. "
        "Combine masks first and call .dense() last."
    )
    with pytest.raises(TypeError, match=exactly(text)):
        masks.causal(2) & torch.ones(2, 2, dtype=torch.bool)


def test_repr_and_shape():
    mask = Mask(torch.Size([2, 3]), lambda i, j: j <= i)
    assert mask.shape == (2, 3)
    assert repr(mask) == "Mask(shape=(2, 3))"


# What is known of single masks


@pytest.mark.parametrize(("n", "pairs"), [(64, 385), (256, 2049), (1024, 10241), (4096, 49153)])
def test_pairs_of_the_dyadic_mask(n, pairs):
    assert masks.dyadic(n).count() == pairs
    assert pairs == n + sum(n - 2**k for k in range(int(math.log2(n))))  # a diagonal a distance
    assert pairs <= n * (int(math.log2(n)) + 2)


def test_pairs_of_the_strided_mask():
    assert masks.strided(4096, stride=64).count() == 389152
    assert masks.causal(4096).count() == 8390656


def test_pairs_of_longformer():
    """Its two-sided w = 512 leaves the own key out, so 513 keys are seen."""
    n, w = 4096, 512
    window = masks.sliding_window(n, window=w + 1)
    assert window.count() == n * (w + 1) - (w // 2) * (w // 2 + 1)
    assert (window | masks.global_tokens(n, positions=[0])).count() == 2_043_134


def layers_to_reach_the_past(mask, device):
    """Layers until every query has received from every key at or before it."""
    return int(layers_by_distance(mask, device).max())


def layers_by_distance(mask, device):
    """Layers until the last query has received from the key at each distance, the nearest first."""
    step = mask.dense(device).float()  # (n, n)
    reached, layers = step[-1:], torch.zeros(len(step), dtype=torch.long, device=device)
    while not reached.all():
        layers += reached[0] == 0
        reached = ((reached @ step) > 0).float()
    return (layers + 1).flip(0)


@pytest.mark.claim("dyadic-reach")
@pytest.mark.parametrize(("n", "layers"), [(64, 6), (256, 8), (1024, 10)])
def test_reach_of_the_dyadic_mask(n, layers, device):
    assert layers_to_reach_the_past(masks.dyadic(n), device) == layers
    # Its own place is a distance of 0, which has no ones and takes a layer all the same.
    expected = [max(1, distance.bit_count()) for distance in range(n)]
    assert layers_by_distance(masks.dyadic(n), device).tolist() == expected


@pytest.mark.claim("strides-reach-in-two-layers")
@pytest.mark.parametrize("n", [64, 256, 1024])
def test_reach_of_the_strided_mask(n, device):
    assert layers_to_reach_the_past(masks.strided(n, stride=math.isqrt(n)), device) == 2


@pytest.mark.claim("window-reach")
@pytest.mark.claim("window-path-length")
@pytest.mark.parametrize(("n", "window"), [(257, 17), (256, 17), (258, 17), (101, 2), (100, 8)])
def test_reach_of_a_window(n, window, device):
    """W - 1 positions a layer: the distance over that, rounded up."""
    expected = [max(1, math.ceil(distance / (window - 1))) for distance in range(n)]
    assert (
        layers_by_distance(masks.sliding_window(n, window=window, is_causal=True), device).tolist()
        == expected
    )


@pytest.mark.claim("window-off-by-one")
@pytest.mark.parametrize(("window", "causal"), [(4, True), (7, True), (5, False)])
def test_a_window_counts_the_keys_seen(window, causal, device):
    """Wrong elsewhere: ``i - j <= window`` sees one key more, for it leaves the own one out."""
    n = 23
    inner = slice(window, n - window)
    dense = masks.sliding_window(n, window=window, is_causal=causal).dense(device)
    assert (dense[inner].sum(-1) == window).all()
    dilated = masks.dilated(89, window=window, dilation=3, is_causal=causal).dense(device)
    assert (dilated[3 * window : -3 * window].sum(-1) == window).all()

    position = torch.arange(n, device=device)
    distance = position[:, None] - position
    off_by_one = (distance >= 0) & (distance <= window)
    assert (off_by_one[inner].sum(-1) == window + 1).all()


def test_what_leaves_a_window_is_without_influence(device, generator):
    n, d_k, d_v, window = 13, 3, 5, 4
    query, key = random(2, n, d_k, device=device, generator=generator)
    value = random(n, d_v, device=device, generator=generator).requires_grad_()
    position = torch.arange(n, device=device)
    distance = position[:, None] - position
    wrong = (distance >= 0) & (distance <= window)
    last = n - 1
    for mask, seen in (
        (masks.sliding_window(n, window=window, is_causal=True).dense(device), 4),
        (wrong, 5),
    ):
        output = scaled_dot_product_attention(query, key, value, attn_mask=mask)
        (gradient,) = torch.autograd.grad(output[last].sum(), value)
        moved = gradient.any(-1).nonzero().flatten().tolist()
        assert moved == list(range(last - seen + 1, n))


def test_dilated_without_gaps_is_a_window(device):
    for causal in (True, False):
        assert torch.equal(
            masks.dilated(13, window=5, dilation=1, is_causal=causal).dense(device),
            masks.sliding_window(13, window=5, is_causal=causal).dense(device),
        )


@pytest.mark.claim("bottom-right-is-the-last-rows")
def test_the_last_rows_are_what_a_decoder_with_a_cache_asks_for(device):
    """With "bottom-right" n queries on m keys are the last n rows of the mask of m on m."""
    for make in (
        masks.causal,
        masks.dyadic,
        lambda *sizes, **options: masks.sliding_window(*sizes, window=5, **options),
        lambda *sizes, **options: masks.dilated(*sizes, window=3, dilation=2, **options),
        lambda *sizes, **options: masks.strided(*sizes, stride=4, **options),
    ):
        last = make(3, 17, alignment="bottom-right").dense(device)
        assert torch.equal(last, make(17).dense(device)[-3:])


def test_prefixes_from_none_to_all(device):
    assert torch.equal(masks.prefix_lm(7, prefix=0).dense(device), masks.causal(7).dense(device))
    assert masks.prefix_lm(7, prefix=7).count() == 49


@pytest.mark.claim("packed-as-if-alone")
def test_packed_documents_are_as_if_alone(device, generator):
    """Values and gradients; without the mask the documents contaminate each other."""
    lengths, d_k, d_v, heads = [3, 5, 2], 7, 11, 2
    n = sum(lengths)
    sizes = (d_k, d_k, d_v)
    query, key, value = (
        random(heads, n, size, device=device, generator=generator).requires_grad_()
        for size in sizes
    )
    weight = random(heads, n, d_v, device=device, generator=generator)
    mask = masks.packed(torch.tensor(lengths, device=device))
    assert mask.count() == 3**2 + 5**2 + 2**2
    together = scaled_dot_product_attention(query, key, value, attn_mask=mask.dense(device))
    parts = zip(*(tensor.split(lengths, dim=-2) for tensor in (query, key, value)), strict=True)
    alone = torch.cat([scaled_dot_product_attention(*part) for part in parts], dim=-2)
    # Some hundred roundings of numbers near 1, each of at most half of float64's 2.2e-16.
    close = {"rtol": 0, "atol": 1e-13}
    torch.testing.assert_close(together, alone, **close)
    for ours, theirs in zip(
        torch.autograd.grad((together * weight).sum(), (query, key, value)),
        torch.autograd.grad((alone * weight).sum(), (query, key, value)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, **close)
    assert (scaled_dot_product_attention(query, key, value) - alone).abs().max() > 0.1


def test_packed_takes_the_borders_of_kernels(device):
    borders = torch.tensor([0, 3, 8, 10], dtype=torch.int32, device=device)
    assert torch.equal(
        masks.packed(borders.diff()).dense(device), masks.packed([3, 5, 2]).dense(device)
    )


def test_padding_between_documents_sees_nothing_and_is_seen_by_nothing(device):
    dense = masks.documents([0, -1, 0, -2, -1]).dense(device)
    padded = [1, 3, 4]
    assert not dense[padded].any()
    assert not dense[:, padded].any()
    assert dense[0].tolist() == [True, False, True, False, False]


@pytest.mark.parametrize(
    ("n", "random_blocks", "global_blocks"), [(41, 2, 1), (35, 3, 0), (7, 2, 2)]
)
def test_the_blocks_of_bigbird(n, random_blocks, global_blocks, device, generator):
    block_size, window_blocks = 5, 3
    blocks = math.ceil(n / block_size)
    options = {
        "block_size": block_size,
        "window_blocks": window_blocks,
        "random_blocks": random_blocks,
        "global_blocks": global_blocks,
    }
    mask = masks.bigbird(n, **options, generator=generator)
    assert mask.shape == (n, n)
    summary = mask.block_summary(block_size, device)
    assert ((summary == EMPTY) | (summary == FULL)).all()
    for i in range(blocks):
        fixed = {j for j in range(blocks) if abs(i - j) <= 1 or min(i, j) < global_blocks}
        seen = set(summary[i].nonzero().flatten().tolist())
        assert fixed <= seen
        assert len(seen - fixed) == min(random_blocks, blocks - len(fixed))


def test_bigbird_draws_from_its_generator_alone(device):
    def draw(seed):
        generator = torch.Generator(device).manual_seed(seed)
        return masks.bigbird(
            95,
            block_size=5,
            window_blocks=1,
            random_blocks=2,
            global_blocks=1,
            generator=generator,
        ).dense(device)

    before = torch.get_rng_state()
    assert torch.equal(draw(0), draw(0))
    assert not torch.equal(draw(0), draw(1))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("generator", "kind"), [(None, "NoneType"), (0, "int")])
def test_bigbird_without_a_generator_is_refused(generator, kind):
    sizes = {"block_size": 2, "window_blocks": 1, "random_blocks": 1, "global_blocks": 0}
    message = (
        f"generator: expected a torch.Generator, got {kind}. Make one with "
        "torch.Generator().manual_seed(0)."
    )
    with pytest.raises(TypeError, match=exactly(message)):
        masks.bigbird(6, **sizes, generator=generator)


def test_bigbird_draws_uniformly(device, generator):
    """Row 0 of 8 blocks has 7 to draw from, once each: seven equal shares."""
    rounds = 700
    drawn = torch.zeros(8, device=device)
    for _ in range(rounds):
        mask = masks.bigbird(
            8,
            block_size=1,
            window_blocks=1,
            random_blocks=1,
            global_blocks=0,
            generator=generator,
        )
        drawn += mask.block(slice(0, 1), slice(None), device)[0]
    assert drawn[0] == rounds
    # Each count is binomial; beyond 5.5 deviations for one of seven is rarer than 1e-6.
    bound = 5.5 * math.sqrt(rounds * (1 / 7) * (6 / 7))
    assert ((drawn[1:] - rounds / 7).abs() < bound).all()


# What a mask is used for, and the wrong versions


@pytest.mark.claim("padding-mask-broadcast")
def test_padding_belongs_to_samples_not_to_queries(device, generator):
    """Wrong elsewhere: keys ``(b, m)`` with b = n broadcast as ``(n, m)``, without an error."""
    b, heads, n, m, d_k, d_v = 3, 2, 3, 5, 7, 11
    lengths = torch.tensor([1, 3, 5], device=device)
    query = torch.zeros(b, heads, n, d_k, device=device, dtype=torch.float64)  # equal weights
    key = random(b, heads, m, d_k, device=device, generator=generator)
    value = random(b, heads, m, d_v, device=device, generator=generator).requires_grad_()
    right = masks.padding(lengths, m).dense(device)  # (b, 1, 1, m)
    wrong = right[:, 0, 0]  # (b, m)
    behind = ~right.expand(b, heads, n, m)

    def on_padding(mask):
        weights = attention_weights(query, key, attn_mask=mask)
        return (weights * behind).sum(-1).mean().item()

    def reaches_padding(mask):
        output = scaled_dot_product_attention(query, key, value, attn_mask=mask)
        (gradient,) = torch.autograd.grad(output.sum(), value)
        return bool(gradient[behind[:, :, 0]].any())

    assert on_padding(right) == 0.0
    assert not reaches_padding(right)
    # Sample 0 of one token: query 1 is given 3 keys and query 2 is given 5; sample 1 of
    # three tokens: query 2 is given 5.
    assert on_padding(wrong) == pytest.approx((0 + 2 / 3 + 4 / 5 + 0 + 0 + 2 / 5) / 9, rel=1e-12)
    assert reaches_padding(wrong)


@pytest.mark.claim("sample-masks-given-to-heads")
def test_masks_of_samples_are_not_given_to_heads(device, generator):
    """Wrong elsewhere: ``(b, n, n)`` against ``(b, h, n, n)`` with b = h is one mask a head."""
    b = heads = 2
    ids = [[0, 0, 1, 1, 1], [0, 0, 0, 0, 1]]
    n, d_k = len(ids[0]), 3
    query, key = random(2, b, heads, n, d_k, device=device, generator=generator)
    mask = masks.documents(ids)
    assert mask.shape == (b, 1, n, n)
    right = mask.dense(device)
    foreign = ~right.expand(b, heads, n, n)
    assert attention_weights(query, key, attn_mask=right)[foreign].sum() == 0
    wrong = attention_weights(query, key, attn_mask=right[:, 0])
    assert (wrong * foreign)[0, 0].sum() == (wrong * foreign)[1, 1].sum() == 0  # by luck
    assert (wrong * foreign)[0, 1].sum() > 0
    assert (wrong * foreign)[1, 0].sum() > 0


def test_more_padding_changes_nothing(device, generator):
    b, heads, n, d_k, d_v = 2, 3, 5, 7, 11
    lengths = [2, 5]
    query = random(b, heads, n, d_k, device=device, generator=generator)
    key = random(b, heads, 13, d_k, device=device, generator=generator)
    value = random(b, heads, 13, d_v, device=device, generator=generator)
    short, long = (
        scaled_dot_product_attention(
            query,
            key[..., :m, :],
            value[..., :m, :],
            attn_mask=masks.padding(lengths, m).dense(device),
        )
        for m in (5, 13)
    )
    # Sums of at most five numbers near 1, whose order may differ with the length.
    torch.testing.assert_close(long, short, rtol=0, atol=1e-14)


def test_a_mask_keeps_what_it_was_made_of(device):
    """A cache's lengths are counted up in place; a mask made before must not follow."""
    lengths = torch.tensor([1, 2], device=device)
    layout = torch.eye(2, device=device).bool()
    mask, blocks = masks.padding(lengths, 5), masks.block_layout(4, layout=layout, block_size=2)
    lengths += 1
    layout.zero_()
    assert mask.count() == 3
    assert blocks.count() == 8


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_integers_of_any_width(dtype, device):
    numbers = torch.tensor([1, 3], dtype=dtype, device=device)
    assert masks.padding(numbers, 5).count() == 4
    assert masks.packed(numbers).count() == 10
    assert masks.documents(numbers).count() == 2
    assert masks.global_tokens(4, positions=numbers).count() == 12


def test_no_position_at_all():
    assert masks.global_tokens(4, positions=[]).count() == 0
    assert masks.packed([]).shape == (0, 0)


@every_mask
def test_masks_can_be_compiled_in_one_piece(name, device):
    mask, _ = MASKS[name]
    torch.compiler.reset()
    dense = torch.compile(lambda: mask.dense(device), backend="eager", fullgraph=True)
    assert torch.equal(dense(), by_definition(name, device))


# What is refused

A_WINDOW = "It counts what one query sees, its own place included."
A_LENGTH = "Count the real tokens of each sequence; m is the length of the longest or more."
A_COUNT = "Take it from the tensors: query.shape[-2], key.shape[-2]."
A_BLOCK = "It is the side of a block, often 64 or 128."


def bigbird(**changes):
    options = {"block_size": 2, "window_blocks": 1, "random_blocks": 1, "global_blocks": 1}
    return masks.bigbird(6, **(options | changes), generator=torch.Generator())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: masks.causal(-1), f"n: expected an integer of 0 or more, got -1. {A_COUNT}"),
        (lambda: masks.causal(2.0), f"n: expected an integer of 0 or more, got 2.0. {A_COUNT}"),
        (
            lambda: masks.causal(2, True),
            f"m: expected an integer of 0 or more, got True. {A_COUNT}",
        ),
        (
            lambda: masks.causal(3, 5),
            "alignment: expected 'top-left' or 'bottom-right' because n=3 differs from m=5, got "
            "None. For decoding with a cache choose 'bottom-right'; PyTorch's is_causal is "
            "'top-left'.",
        ),
        (
            lambda: masks.dyadic(5, 3, alignment="left"),
            "alignment: expected 'top-left' or 'bottom-right', got 'left'. top-left lets both "
            "sequences begin together, bottom-right lets them end together.",
        ),
        (
            lambda: masks.sliding_window(5, window=0, is_causal=True),
            f"window: expected an integer of 1 or more, got 0. {A_WINDOW}",
        ),
        (
            lambda: masks.sliding_window(5, 7, window=3, is_causal=True),
            "alignment: expected 'top-left' or 'bottom-right' because n=5 differs from m=7, got "
            "None. For decoding with a cache choose 'bottom-right'; PyTorch's is_causal is "
            "'top-left'.",
        ),
        (
            lambda: masks.sliding_window(5, window=4),
            "window: expected an odd number for a two-sided window, got 4. The own place is in "
            "the middle: 2 on either side make 5.",
        ),
        (
            lambda: masks.dilated(5, window=-1, dilation=2, is_causal=True),
            f"window: expected an integer of 1 or more, got -1. {A_WINDOW}",
        ),
        (
            lambda: masks.dilated(5, window=3, dilation=0, is_causal=True),
            "dilation: expected an integer of 1 or more, got 0. It is the distance between keys; "
            "1 leaves no gap.",
        ),
        (
            lambda: masks.strided(5, stride=0),
            "stride: expected an integer of 1 or more, got 0. The usual choice is near the "
            "square root of n.",
        ),
        (
            lambda: masks.padding([1, 6], 5),
            f"lengths: expected an integer between 0 and 5, got 6. {A_LENGTH}",
        ),
        (
            lambda: masks.padding([-1, 3], 5),
            f"lengths: expected an integer between 0 and 5, got -1. {A_LENGTH}",
        ),
        (
            lambda: masks.padding([[1, 3]], 5),
            "lengths: expected integers of shape (b,), got shape (1, 2) of torch.int64. "
            + A_LENGTH,
        ),
        (
            lambda: masks.padding([1.0, 3.0], 5),
            "lengths: expected integers of shape (b,), got shape (2,) of torch.float32. "
            + A_LENGTH,
        ),
        (
            lambda: masks.padding(torch.ones(2, dtype=torch.bool), 5),
            "lengths: expected integers of shape (b,), got shape (2,) of torch.bool. " + A_LENGTH,
        ),
        (
            lambda: masks.prefix_lm(5, prefix=6),
            "prefix: expected an integer between 0 and 5, got 6. It is the number of tokens that "
            "are given, before the first to be predicted.",
        ),
        (
            lambda: masks.documents(torch.zeros(2, 3, 5, dtype=torch.long)),
            "ids: expected integers of shape (n,) or (b, n), got shape (2, 3, 5) of torch.int64. "
            "Number the documents of a row 0, 1, …; give padding -1.",
        ),
        (
            lambda: masks.packed([3, -2]),
            "lengths: expected an integer of 0 or more, got -2. They are the tokens of each "
            "document; from cu_seqlens take cu_seqlens.diff().",
        ),
        (
            lambda: masks.global_tokens(5, positions=[0, -1]),
            "positions: expected an integer between 0 and 4, got -1. Count from the start: 0 is "
            "the first token, n - 1 the last.",
        ),
        (
            lambda: masks.global_tokens(5, positions=[5]),
            "positions: expected an integer between 0 and 4, got 5. Count from the start: 0 is "
            "the first token, n - 1 the last.",
        ),
        (
            lambda: masks.block_layout(5, 7, layout=torch.ones(2, 3).bool(), block_size=2),
            "layout: expected shape (..., 3, 4), one entry for each block of 2 × 2 in n=5 and "
            "m=7, got (2, 3). Build it for this n, m and block_size.",
        ),
        (
            lambda: masks.block_layout(5, layout=torch.ones(3).bool(), block_size=2),
            "layout: expected shape (..., 3, 3), one entry for each block of 2 × 2 in n=5 and "
            "m=5, got (3,). Build it for this n, m and block_size.",
        ),
        (
            lambda: masks.block_layout(5, layout=torch.ones(3, 3).bool(), block_size=0),
            f"block_size: expected an integer of 1 or more, got 0. {A_BLOCK}",
        ),
        (
            lambda: masks.causal(5).block_summary(0),
            f"block_size: expected an integer of 1 or more, got 0. {A_BLOCK}",
        ),
        (
            lambda: bigbird(block_size=0),
            f"block_size: expected an integer of 1 or more, got 0. {A_BLOCK}",
        ),
        (
            lambda: bigbird(window_blocks=2),
            "window_blocks: expected an odd number for a two-sided window, got 2. The own place "
            "is in the middle: 1 on either side make 3.",
        ),
        (
            lambda: bigbird(random_blocks=4),
            "random_blocks: expected an integer between 0 and 3, got 4. A row of blocks has 3.",
        ),
        (
            lambda: bigbird(global_blocks=-1),
            "global_blocks: expected an integer between 0 and 3, got -1. A row of blocks has 3.",
        ),
        (
            lambda: Mask((5,), lambda i, j: j <= i),
            "shape: expected (..., n, m), got (5,). For a mask over keys alone write (1, m).",
        ),
    ],
)
def test_a_wrong_argument_is_named(make, text):
    with pytest.raises(ValueError, match=exactly(text)):
        make()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: masks.block_layout(4, layout=torch.ones(2, 2), block_size=2),
            "layout: expected a bool tensor, got torch.float32. If 1 means may attend, pass "
            "torch.as_tensor(layout).bool().",
        ),
        (
            lambda: masks.block_layout(4, layout=[[True]], block_size=4),
            "layout: expected a bool tensor, got list. If 1 means may attend, pass "
            "torch.as_tensor(layout).bool().",
        ),
        (
            lambda: masks.causal(5).block(3, slice(None)),
            "rows: expected a slice, got int. For one position write slice(i, i + 1), for all of "
            "them slice(None).",
        ),
        (
            lambda: masks.causal(5).block(slice(None), 3),
            "columns: expected a slice, got int. For one position write slice(i, i + 1), for all "
            "of them slice(None).",
        ),
        (
            lambda: Mask((5, 5), lambda i, j: j - i).dense(),
            "rule: expected a bool tensor, got torch.int64. Return a comparison of positions, "
            "such as j <= i.",
        ),
    ],
)
def test_a_wrong_type_is_named(make, text):
    with pytest.raises(TypeError, match=exactly(text)):
        make()


def test_a_mask_has_no_truth():
    """`and` would silently drop one of two masks."""
    for said in (
        lambda: masks.causal(3) and masks.padding([1, 2], 3),
        lambda: masks.causal(3) or masks.causal(3),
        lambda: not masks.causal(3),
    ):
        with pytest.raises(TypeError, match=r"^mask: expected & between masks, \| or ~, got and"):
            said()


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", MASKS)
def test_flexattention_is_given_the_same_mask(name, device):
    """Every pair of its dense form, and what its kernel makes of the blocks that are left."""
    mask, _ = MASKS[name]
    n = N if mask.shape[-2] == 1 else mask.shape[-2]
    whole = mask.expand((*mask.shape[:-2], n, mask.shape[-1]))
    lead, (n, m) = (1, 1, *whole.shape[:-2])[-2:], whole.shape[-2:]
    dense = create_mask(whole.mask_mod, *lead, n, m, device=str(device))
    assert torch.equal(dense, whole.dense(device).expand(*lead, n, m))
    block_mask = whole.block_mask(block_size=4, device=device)
    assert block_mask.shape == (*lead, n, m)
    assert block_mask.BLOCK_SIZE == (4, 4)
    seeded = torch.Generator(device).manual_seed(0)
    query, key, value = (
        torch.randn(*lead, length, 5, generator=seeded, device=device) for length in (n, m, m)
    )
    found = flex_attention(query, key, value, block_mask=block_mask)
    torch.testing.assert_close(found, scaled_dot_product_attention(query, key, value, whole))


def test_flexattention_has_two_leading_dimensions():
    mask = masks.block_layout(4, layout=torch.ones(2, 3, 5, 2, 2).bool(), block_size=2)
    with pytest.raises(ValueError, match=r"^mask: expected \(batch, heads, n, m\) at most, got"):
        mask.block_mask()


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_can_be_sent_to_another_process(name, device):
    mask, _ = MASKS[name]
    sent = pickle.loads(pickle.dumps(mask))
    assert sent.shape == mask.shape
    assert torch.equal(sent.dense(device), mask.dense(device))
