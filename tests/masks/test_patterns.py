"""The patterns: each is what defines it, what is known of single ones, and what they are for."""

import math
import re

import pytest
import torch

from attnref import masks
from attnref.masks import EMPTY, FULL
from attnref.reference import attention_weights, scaled_dot_product_attention
from tests.masks.definitions import MASKS, defined_mask
from tests.variants.every import every


def random(*shape, device, generator):
    return torch.randn(shape, device=device, generator=generator, dtype=torch.float64)


@every("name", MASKS)
def test_each_mask_equals_its_definition(name, device):
    mask, _ = MASKS[name]
    dense = mask.dense(device)
    assert dense.dtype == torch.bool
    assert dense.device == torch.zeros(0, device=device).device
    assert torch.equal(dense, defined_mask(name, device))


@every(("n", "pairs"), [(64, 385), (256, 2049), (1024, 10241), (4096, 49153)])
def test_pairs_of_the_dyadic_mask(n, pairs):
    assert masks.dyadic(n).count() == pairs
    assert pairs == n + sum(n - 2**k for k in range(int(math.log2(n))))  # a diagonal a distance
    assert pairs <= n * (int(math.log2(n)) + 2)


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


def test_padding_between_documents_sees_nothing_and_is_seen_by_nothing(device):
    dense = masks.documents([0, -1, 0, -2, -1]).dense(device)
    padded = [1, 3, 4]
    assert not dense[padded].any()
    assert not dense[:, padded].any()
    assert dense[0].tolist() == [True, False, True, False, False]


@every(("n", "random_blocks", "global_blocks"), [(41, 2, 1), (35, 3, 0), (7, 2, 2)])
def test_the_blocks_of_bigbird(n, random_blocks, global_blocks, device, generator):
    chosen = {"random_blocks": random_blocks, "global_blocks": global_blocks}
    mask = bigbird(n, block_size=5, window_blocks=3, generator=generator, **chosen)
    assert mask.shape == (n, n)
    blocks = math.ceil(n / 5)
    summary = mask.block_summary(5, device)
    assert ((summary == EMPTY) | (summary == FULL)).all()
    for i in range(blocks):
        fixed = {j for j in range(blocks) if abs(i - j) <= 1 or min(i, j) < global_blocks}
        seen = set(summary[i].nonzero().flatten().tolist())
        assert fixed <= seen
        assert len(seen - fixed) == min(random_blocks, blocks - len(fixed))


def test_bigbird_draws_from_its_generator_alone(device):
    def draw(seed):
        generator = torch.Generator(device).manual_seed(seed)
        return bigbird(95, block_size=5, random_blocks=2, generator=generator).dense(device)

    before = torch.get_rng_state()
    assert torch.equal(draw(0), draw(0))
    assert not torch.equal(draw(0), draw(1))
    assert torch.equal(torch.get_rng_state(), before)


def test_bigbird_draws_uniformly(device, generator):
    """Row 0 of 8 blocks has 7 to draw from, once each: seven equal shares."""
    rounds = 700
    drawn = torch.zeros(8, device=device)
    for _ in range(rounds):
        mask = bigbird(8, global_blocks=0, generator=generator)
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


def test_a_mask_keeps_what_it_was_made_of(device):
    """A cache's lengths are counted up in place; a mask made before must not follow."""
    lengths, parents = (torch.tensor(x, device=device) for x in ([1, 2], [-1, 0, 1]))
    layout = torch.eye(2, device=device).bool()
    mask, blocks = masks.padding(lengths, 5), masks.block_layout(4, layout=layout, block_size=2)
    tree = masks.tree(parents)
    lengths += 1
    layout.zero_()
    parents.fill_(-1)
    assert [mask.count(), blocks.count(), tree.count()] == [3, 8, 6]


INTEGERS = ["uint8", "int8", "int32", "int64", "uint16", "uint32", "uint64"]


@every("dtype", INTEGERS)
def test_integers_of_any_width(dtype, device):
    numbers = torch.tensor([1, 3], dtype=getattr(torch, dtype), device=device)
    assert masks.padding(numbers, 5).count() == 4
    assert masks.packed(numbers).count() == 10
    assert masks.documents(numbers).count() == 2
    assert masks.global_tokens(4, positions=numbers).count() == 12


def test_no_position_at_all():
    assert masks.global_tokens(4, positions=[]).count() == 0
    assert masks.packed([]).shape == (0, 0)


def bigbird(n=6, **changes):
    options = {"block_size": 1, "window_blocks": 1, "random_blocks": 1, "global_blocks": 1}
    return masks.bigbird(n, **({"generator": torch.Generator()} | options | changes))


def layout(*sizes, block_size=2):
    return masks.block_layout(5, layout=torch.ones(*sizes).bool(), block_size=block_size)


WINDOW = masks.sliding_window
META, COMPLEX = torch.ones(2, device="meta"), torch.ones(2, dtype=torch.complex64)


ONE_OR_MORE, LAYOUT = "expected an integer of 1 or more, got", "layout: expected shape (..., 3, 3),"


COUNTS = "lengths: expected integers of shape (b,), got"


BETWEEN = "expected an integer between 0 and"


@every(
    ("make", "text"),
    [
        (lambda: masks.causal(-1), "n: expected an integer of 0 or more, got -1. Take it from the"),
        (lambda: masks.causal(2.0), "n: expected an integer of 0 or more, got 2.0."),
        (lambda: masks.causal(2, True), "m: expected an integer of 0 or more, got True."),
        (
            lambda: masks.causal(3, 5),
            "alignment: expected 'top-left' or 'bottom-right' because n=3",
        ),
        (
            lambda: masks.dyadic(5, 3, alignment="left"),
            "alignment: expected 'top-left' or 'bottom-right'",
        ),
        (
            lambda: WINDOW(5, 7, window=3, is_causal=True),
            "alignment: expected 'top-left' or 'bottom-right'",
        ),
        (lambda: WINDOW(5, window=0, is_causal=True), f"window: {ONE_OR_MORE} 0. It counts what"),
        (
            lambda: WINDOW(5, window=4),
            "window: expected an odd number for a two-sided window, got 4",
        ),
        (lambda: masks.dilated(5, window=-1, dilation=2), f"window: {ONE_OR_MORE} -1. It counts"),
        (lambda: masks.dilated(5, window=3, dilation=0), f"dilation: {ONE_OR_MORE} 0. It is the"),
        (lambda: masks.strided(5, stride=0), f"stride: {ONE_OR_MORE} 0. The usual choice is near"),
        (lambda: masks.padding([1, 6], 5), f"lengths: {BETWEEN} 5, got 6. Count the real tokens"),
        (lambda: masks.padding([-1, 3], 5), f"lengths: {BETWEEN} 5, got -1. Count the real tokens"),
        (lambda: masks.padding([[1, 3]], 5), f"{COUNTS} shape (1, 2) of torch.int64. Count the"),
        (lambda: masks.padding([1.0, 3.0], 5), f"{COUNTS} shape (2,) of torch.float32."),
        (lambda: masks.padding(META.bool(), 5), f"{COUNTS} a tensor on the meta device, which"),
        (lambda: masks.padding(COMPLEX.real > 0, 5), f"{COUNTS} shape (2,) of torch.bool."),
        (lambda: masks.padding(COMPLEX, 5), f"{COUNTS} shape (2,) of torch.complex64."),
        (lambda: masks.prefix_lm(5, prefix=6), f"prefix: {BETWEEN} 5, got 6. It is the number of"),
        (
            lambda: masks.documents(torch.ones(2, 3, 5).int()),
            "ids: expected integers of shape (n,)",
        ),
        (lambda: masks.packed([3, -2]), "lengths: expected an integer of 0 or more, got -2. They"),
        (
            lambda: masks.global_tokens(5, positions=[0, -1]),
            f"positions: {BETWEEN} 4, got -1. Count",
        ),
        (lambda: masks.global_tokens(5, positions=[5]), f"positions: {BETWEEN} 4, got 5. Count"),
        (
            lambda: masks.Mask((4, 3), lambda i, j: (i < j).all(0)[:2]).dense(),
            "rule: expected a tensor that broadcasts to (4, 3), (..., rows, columns), got shape",
        ),
        (
            lambda: masks.Mask((5,), lambda i, j: j <= i),
            "shape: expected (..., n, m), got (5,). For",
        ),
        (
            lambda: layout(2, 3),
            f"{LAYOUT} one entry for each block of 2 × 2 in n=5 and m=5, got (2",
        ),
        (
            lambda: layout(3),
            f"{LAYOUT} one entry for each block of 2 × 2 in n=5 and m=5, got (3,).",
        ),
        (lambda: layout(3, 3, block_size=0), f"block_size: {ONE_OR_MORE} 0. It is the side of"),
        (lambda: masks.causal(5).block_summary(0), f"block_size: {ONE_OR_MORE} 0. It is the side"),
        (lambda: bigbird(block_size=0), f"block_size: {ONE_OR_MORE} 0. It is the side of a block"),
        (
            lambda: bigbird(block_size=2, window_blocks=2),
            "window_blocks: expected an odd number for a two-sided",
        ),
        (
            lambda: bigbird(block_size=2, random_blocks=4),
            f"random_blocks: {BETWEEN} 3, got 4. A row of blocks",
        ),
        (
            lambda: bigbird(block_size=2, global_blocks=-1),
            f"global_blocks: {BETWEEN} 3, got -1. A row of blocks",
        ),
    ],
)
def test_a_wrong_argument_is_named(make, text):
    other = re.search(r"got 2\.0|got True|float|bool|complex|meta|no tensor", text)
    with pytest.raises(TypeError if other else ValueError, match=f"^{re.escape(text)}"):
        make()


@every(
    ("make", "text"),
    [
        (lambda: bigbird(generator=None), "generator: expected a torch.Generator, got NoneType."),
        (lambda: bigbird(generator=0), "generator: expected a torch.Generator, got int. Make one"),
        (
            lambda: masks.block_layout(4, layout=torch.ones(2, 2), block_size=2),
            "layout: expected a bool tensor, got torch.float32. If 1 means may attend, pass torch.",
        ),
        (
            lambda: masks.block_layout(4, layout=[[True]], block_size=4),
            "layout: expected a bool tensor, got list.",
        ),
        (
            lambda: WINDOW(4, window=3, is_causal="no"),
            "is_causal: expected True or False, got str.",
        ),
        (lambda: masks.Mask("nm", torch.lt), "shape: expected a tuple (..., n, m), got str. Take"),
        (
            lambda: masks.Mask((2.0, 2), torch.lt),
            "shape: expected integers (..., n, m), got (2.0, ",
        ),
        (lambda: masks.Mask((2, 2), None), "rule: expected a function of positions, got NoneType."),
        (
            lambda: masks.Mask((2, 2), lambda i, j: True).dense(),
            "rule: expected a bool tensor, got bool. Return a comparison of positions, such "
            "as j <= i.",
        ),
        (
            lambda: masks.Mask((5, 5), torch.sub).dense(),
            "rule: expected a bool tensor, got torch.int64. Return a comparison of positions, "
            "such as j <= i.",
        ),
        (lambda: masks.causal(5).block(3, slice(None)), "rows: expected a slice, got int. For one"),
        (lambda: masks.causal(5).block(slice(None), 3), "columns: expected a slice, got int. For"),
    ],
)
def test_a_wrong_type_is_named(make, text):
    with pytest.raises(TypeError, match=f"^{re.escape(text)}"):
        make()
