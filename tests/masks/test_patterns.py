"""The patterns: each is what defines it, what is known of single ones, and what they are for."""

import math
import re
from functools import partial

import pytest
import torch
from definitions import MASKS, by_definition
from every import every

from attnref import masks
from attnref.masks import EMPTY, FULL
from attnref.reference import attention_weights, scaled_dot_product_attention


def random(*shape, device, generator):
    return torch.randn(shape, device=device, generator=generator, dtype=torch.float64)


@every("name", MASKS)
def test_each_mask_equals_its_definition(name, device):
    mask, _ = MASKS[name]
    dense = mask.dense(device)
    assert dense.dtype == torch.bool
    assert dense.device == torch.zeros(0, device=device).device
    assert torch.equal(dense, by_definition(name, device))


@every(("n", "pairs"), [(64, 385), (256, 2049), (1024, 10241), (4096, 49153)])
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
@every(("n", "layers"), [(64, 6), (256, 8), (1024, 10)])
def test_reach_of_the_dyadic_mask(n, layers, device):
    assert layers_to_reach_the_past(masks.dyadic(n), device) == layers
    # Its own place is a distance of 0, which has no ones and takes a layer all the same.
    expected = [max(1, distance.bit_count()) for distance in range(n)]
    assert layers_by_distance(masks.dyadic(n), device).tolist() == expected


@pytest.mark.claim("strides-reach-in-two-layers")
@every(("n", "stride"), [(64, 8), (256, 16), (1000, 31), (101, 7), (101, 60)])
def test_reach_of_the_strided_mask(n, stride, device):
    assert layers_to_reach_the_past(masks.strided(n, stride=stride), device) == 2


@pytest.mark.claim("window-reach")
@pytest.mark.claim("window-path-length")
@every(("n", "window"), [(257, 17), (256, 17), (258, 17), (101, 2), (100, 8)])
def test_reach_of_a_window(n, window, device):
    """W - 1 positions a layer: the distance over that, rounded up."""
    expected = [max(1, math.ceil(distance / (window - 1))) for distance in range(n)]
    assert (
        layers_by_distance(masks.sliding_window(n, window=window, is_causal=True), device).tolist()
        == expected
    )


@pytest.mark.claim("window-off-by-one")
@every(("window", "causal"), [(4, True), (7, True), (5, False)])
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


@every(("n", "random_blocks", "global_blocks"), [(41, 2, 1), (35, 3, 0), (7, 2, 2)])
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


@every(("generator", "kind"), [(None, "NoneType"), (0, "int")])
def test_bigbird_without_a_generator_is_refused(generator, kind):
    sizes = {"block_size": 2, "window_blocks": 1, "random_blocks": 1, "global_blocks": 0}
    message = (
        f"generator: expected a torch.Generator, got {kind}. Make one with "
        "torch.Generator().manual_seed(0)."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
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


@every("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_integers_of_any_width(dtype, device):
    numbers = torch.tensor([1, 3], dtype=dtype, device=device)
    assert masks.padding(numbers, 5).count() == 4
    assert masks.packed(numbers).count() == 10
    assert masks.documents(numbers).count() == 2
    assert masks.global_tokens(4, positions=numbers).count() == 12


def test_no_position_at_all():
    assert masks.global_tokens(4, positions=[]).count() == 0
    assert masks.packed([]).shape == (0, 0)


A_WINDOW = "It counts what one query sees, its own place included."
A_LENGTH = "Count the real tokens of each sequence; m is the length of the longest or more."
A_COUNT = "Take it from the tensors: query.shape[-2], key.shape[-2]."
A_BLOCK = "It is the side of a block, often 64 or 128."


def bigbird(**changes):
    options = {"block_size": 2, "window_blocks": 1, "random_blocks": 1, "global_blocks": 1}
    return masks.bigbird(6, **(options | changes), generator=torch.Generator())


@every(
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
            "window: expected an odd number for a two-sided window, got 4. The query's "
            "own position is in the middle: 2 on either side make 5.",
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
        *(
            (
                lambda wrong=wrong: masks.padding(wrong, 5),
                f"lengths: expected integers of shape (b,), got {got}. {A_LENGTH}",
            )
            for wrong, got in (
                (torch.ones(2, dtype=torch.complex64), "shape (2,) of torch.complex64"),
                (torch.ones(2, device="meta"), "a tensor on the meta device, which holds none"),
            )
        ),
        (
            lambda: masks.Mask((4, 3), lambda i, j: (i < j).all(0)[:2]).dense(),
            "rule: expected a tensor that broadcasts to (4, 3), (..., rows, columns), got shape "
            "(2,). Its arguments are positions of shape (4, 1) and (1, 3): compare them without "
            "summing.",
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
            lambda: bigbird(block_size=0),
            f"block_size: expected an integer of 1 or more, got 0. {A_BLOCK}",
        ),
        (
            lambda: bigbird(window_blocks=2),
            "window_blocks: expected an odd number for a two-sided window, got 2. The query's "
            "own position is in the middle: 1 on either side make 3.",
        ),
        (
            lambda: bigbird(random_blocks=4),
            "random_blocks: expected an integer between 0 and 3, got 4. A row of blocks has 3.",
        ),
        (
            lambda: bigbird(global_blocks=-1),
            "global_blocks: expected an integer between 0 and 3, got -1. A row of blocks has 3.",
        ),
    ],
)
def test_a_wrong_argument_is_named(make, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        make()


@every(
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
            lambda: masks.sliding_window(4, window=3, is_causal="no"),
            "is_causal: expected True or False, got str. False puts the query's own key in the "
            "middle.",
        ),
        (
            lambda: masks.Mask("nm", lambda i, j: j <= i),
            "shape: expected a tuple (..., n, m), got str. Take it from the tensors, such as "
            "(query.shape[-2], key.shape[-2]).",
        ),
        (
            lambda: masks.Mask((2.0, 2), lambda i, j: j <= i),
            "shape: expected integers (..., n, m), got (2.0, 2). Numbers of queries and keys are "
            "whole: divide with //.",
        ),
        (
            lambda: masks.Mask((2, 2), None),
            "rule: expected a function of positions, got NoneType. Write for example lambda i, j: "
            "j <= i; a mask of all pairs is lambda i, j: j >= 0.",
        ),
        (
            lambda: masks.Mask((2, 2), lambda i, j: True).dense(),
            "rule: expected a bool tensor, got bool. Return a comparison of positions, such as "
            "j <= i.",
        ),
    ],
)
def test_a_wrong_type_is_named(make, text):
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        make()


@every("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_integers_without_a_sign_count_too(dtype):
    numbers = torch.tensor([0, 3, 1])
    for make in (partial(masks.padding, m=4), masks.documents):
        assert torch.equal(make(numbers.to(dtype)).dense(), make(numbers).dense())
