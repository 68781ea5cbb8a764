import math
import re

import pytest
import torch

from attnref import positions
from tests.variants.every import every

EPS32 = torch.finfo(torch.float32).eps


def distinct_rows(table):
    return len(torch.unique(table.float(), dim=0))


def frequencies(dim, device):
    return 10_000 ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=device) / dim)


def turned_by_complex_numbers(x, base=10_000.0, offset=0):
    """Rotary's oracle: neighbouring components as complex numbers times e^{i angle}."""
    *lead, n, d = x.shape
    angles = torch.tensor(
        [[(offset + t) * base ** (-2 * i / d) for i in range(d // 2)] for t in range(n)],
        dtype=torch.float64,
        device=x.device,
    ).reshape(n, d // 2)
    turns = torch.polar(torch.ones_like(angles), angles)
    numbers = torch.view_as_complex(x.reshape(*lead, n, d // 2, 2))
    return torch.view_as_real(numbers * turns).flatten(-2)


@every(("length", "dim"), [(7, 10), (11, 6), (1, 2), (0, 4)])
def test_sinusoidal_is_its_formula(length, dim, device):
    table = positions.sinusoidal(length, dim, offset=3, dtype=torch.float64, device=device)
    assert table.shape == (length, dim)
    for row in range(length):
        for column in range(dim):
            angle = (row + 3) / 10_000 ** ((column - column % 2) / dim)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert table[row, column].item() == pytest.approx(expected, abs=1e-14)


def test_sinusoidal_base_offset_and_dtype(device):
    table = positions.sinusoidal(13, 6, base=97.0, dtype=torch.float64, device=device)
    later = positions.sinusoidal(5, 6, base=97.0, offset=8, dtype=torch.float64, device=device)
    assert torch.equal(table[8:], later)
    assert positions.sinusoidal(13, 6).dtype == torch.float32
    # Rounded last: a table in another dtype is the float64 table, rounded once.
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        rounded = positions.sinusoidal(13, 6, base=97.0, dtype=dtype, device=device)
        assert torch.equal(rounded, table.to(dtype))


@pytest.mark.claim("longest-period")
def test_longest_wavelength_and_distance_of_neighbours(device):
    """The slowest pair turns once in 2π·10^{4(d-2)/d} positions, not in 2π·10^4."""
    slowest = frequencies(512, device)[-1].item()
    assert 2 * math.pi / slowest == pytest.approx(60_611, abs=0.5)
    for dim, neighbour in ((512, 3.714), (64, 1.47)):
        first, second = positions.sinusoidal(2, dim, dtype=torch.float64, device=device)
        assert (first - second).norm().item() == pytest.approx(neighbour, abs=2e-3)


@pytest.mark.claim("no-far-position-is-confused")
def test_no_far_position_is_confused_with_a_near_one(device):
    """Wrap-around is no failure at a usual width: no distance from 2 on is below that of 1."""
    steps = torch.arange(1, 100_001, dtype=torch.float64, device=device)
    omegas = frequencies(512, device)
    distance = sum(2 * (1 - (omega * steps).cos()) for omega in omegas).sqrt()  # (steps,)
    table = positions.sinusoidal(18, 512, offset=5, dtype=torch.float64, device=device)
    torch.testing.assert_close(distance[:17], (table[1:] - table[0]).norm(dim=-1))
    assert distance.argmin() == 0
    assert distance[1:].argmin() == 0  # the next nearest is at 2,
    assert distance[1].item() == pytest.approx(6.967, abs=1e-3)
    assert distance[99:].min().item() == pytest.approx(16.97, abs=1e-2)
    # It is real for a table of one pair: 710 is nearly a multiple of 2π.
    assert 2 * abs(math.sin(710 / 2)) == pytest.approx(6e-5, rel=0.01)


@pytest.mark.claim("positions-collide-in-bfloat16")
def test_positions_in_bfloat16_collide_but_a_rounded_table_does_not(device):
    """Angles formed in bfloat16 leave 897 distinct rows of 8192; rounding last keeps all."""
    length, dim = 8192, 512
    place = torch.arange(length, device=device, dtype=torch.bfloat16)
    assert len(torch.unique(place[:4096])) == 769
    angles = place[:, None] * frequencies(dim, device).bfloat16()
    wrong = torch.cat([angles.sin(), angles.cos()], dim=-1)
    assert distinct_rows(wrong) == 897
    right = positions.sinusoidal(length, dim, dtype=torch.bfloat16, device=device)
    assert distinct_rows(right) == length


def test_learned_positions_are_rows_of_a_table(device, generator):
    layer = positions.LearnedPositions(
        11, 5, generator=generator, device=device, dtype=torch.float64
    )
    rows = layer(3, offset=4)
    assert torch.equal(rows, layer.table[4:7])
    rows.sum().backward()
    used = torch.zeros(11, 5, device=device, dtype=torch.float64)
    used[4:7] = 1.0
    assert torch.equal(layer.table.grad, used)
    assert layer(11).shape == (11, 5)
    assert layer(0, offset=11).shape == (0, 5)


def test_learned_positions_start_with_the_given_deviation(device, generator):
    rows, dim, std = 997, 13, 0.3
    state = generator.get_state()
    layer = positions.LearnedPositions(rows, dim, std=std, generator=generator, device=device)
    # Relative s.d. of a standard deviation is 1/sqrt(2 N); five of them.
    assert layer.table.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * rows * dim))
    generator.set_state(state)
    again = positions.LearnedPositions(rows, dim, std=std, generator=generator, device=device)
    assert torch.equal(layer.table, again.table)


@pytest.mark.claim("learned-table-ends")
@every(("length", "offset"), [(12, 0), (1, 11), (5, 7)])
def test_the_end_of_the_learned_table_is_named(length, offset):
    layer = positions.LearnedPositions(11, 5)
    with pytest.raises(ValueError, match=r"^length: expected at most 11 positions") as error:
        layer(length, offset=offset)
    assert f"got positions {offset} to {offset + length - 1}" in str(error.value)
    assert "larger max_length" in str(error.value)


@every("shape", [(7, 6), (3, 5, 7, 10), (2, 3, 11, 2), (3, 0, 4)])
def test_rotary_turns_complex_numbers(shape, randn):
    x = randn(*shape)
    for options in ({}, {"base": 500.0}, {"offset": 13}):
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        turned = positions.rotary(ours, **options)
        expected = turned_by_complex_numbers(theirs, **options)
        torch.testing.assert_close(turned, expected, rtol=0, atol=1e-14)
        weight = randn(*shape)
        turned.backward(weight)
        expected.backward(weight)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-14)
        torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))


@pytest.mark.claim("rotary-knows-the-distance-only")
@pytest.mark.parametrize("rotate", [positions.rotary, positions.rotary_half_split])
def test_rotary_scores_know_the_distance_only(rotate, randn):
    """(R_m q)·(R_n k) is the same for every pair of positions with the same m - n."""
    q, k = randn(2, 1, 14)
    n = 11
    scores = rotate(q.expand(n, -1)) @ rotate(k.expand(n, -1)).mT  # (n, n)
    moved = rotate(q.expand(n, -1), offset=997) @ rotate(k.expand(n, -1), offset=997).mT
    # Angles near 1000 are off by 1000 eps; a score sums 14 products of that error.
    bound = 1008 * torch.finfo(torch.float64).eps * (q.norm() * k.norm()).item() * 14
    assert (scores - moved).abs().max().item() < bound
    for distance in range(-n + 1, n):
        diagonal = scores.diagonal(distance)
        assert (diagonal - diagonal[0]).abs().max().item() < bound
    assert scores[0].std().item() > 0.1  # and they do know it


def test_both_pairings_are_one_function_after_a_permutation(randn):
    x = randn(3, 7, 10)
    half = positions.rotary_half_split(positions.to_half_split(x), offset=5)
    assert torch.equal(half, positions.to_half_split(positions.rotary(x, offset=5)))
    assert torch.equal(positions.from_half_split(positions.to_half_split(x)), x)
    assert torch.equal(positions.to_half_split(positions.from_half_split(x)), x)


@pytest.mark.claim("rotary-pairings-differ")
def test_converted_weights_give_the_same_scores_and_unconverted_ones_do_not(randn):
    """The wrong version: weights of one pairing used with the other, which nothing reports."""
    heads, kv_heads, d, width, n = 3, 1, 10, 7, 5
    x = randn(n, width)
    w_q = randn(heads * d, width)
    w_k = randn(kv_heads * d, width)
    b_q = randn(heads * d)

    def scores(w_q, b_q, w_k, rotate):
        q = (x @ w_q.mT + b_q).view(n, heads, d).transpose(0, 1)
        k = (x @ w_k.mT).view(n, kv_heads, d).transpose(0, 1)
        return rotate(q) @ rotate(k).mT

    expected = scores(w_q, b_q, w_k, positions.rotary)
    converted = (
        positions.to_half_split(w_q, num_heads=heads, dim=0),
        positions.to_half_split(b_q, num_heads=heads),
        positions.to_half_split(w_k, num_heads=kv_heads, dim=0),
    )
    torch.testing.assert_close(scores(*converted, positions.rotary_half_split), expected)
    wrong = scores(w_q, b_q, w_k, positions.rotary_half_split)
    assert (wrong - expected).abs().max() > 0.1 * expected.abs().max()
    back = positions.from_half_split(converted[0], num_heads=heads, dim=0)
    assert torch.equal(back, w_q)


@every("dtype", [torch.float32, torch.bfloat16, torch.float16])
@every("rotate", [positions.rotary, positions.rotary_half_split])
def test_rotary_angles_keep_their_precision_in_every_dtype(dtype, rotate, device, randn):
    """At position 100 000 the result is one rounding from exact; angles in ``dtype`` are not."""
    x = randn(3, 7, 10).to(dtype)
    before = x.clone()
    turned = rotate(x, offset=100_000)
    assert turned.dtype == dtype
    assert torch.equal(x, before)
    exact = rotate(x.double(), offset=100_000)
    norm = x.double().norm(dim=-1, keepdim=True)
    # Cosine, sine, two products and a sum in float32, then one rounding to dtype; float16 is
    # subnormal below 6e-5.
    bound = 3 * EPS32 * norm + torch.finfo(dtype).eps / 2 * exact.abs() + 3e-8
    assert ((turned.double() - exact).abs() <= bound).all()

    place = torch.arange(100_000, 100_007, device=device).to(torch.float32).to(torch.bfloat16)
    angles = place[:, None] * frequencies(10, device).bfloat16()
    cos, sin = angles.cos().double(), angles.sin().double()
    even, odd = x.double()[..., 0::2], x.double()[..., 1::2]
    wrong = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
    right = positions.rotary(x.double(), offset=100_000)
    assert (wrong - right).abs().max() > 0.5


def test_rotary_under_vmap(randn):
    x = randn(3, 5, 7, 6)
    for rotate in (positions.rotary, positions.rotary_half_split):
        assert torch.equal(torch.vmap(rotate)(x), rotate(x))


@pytest.mark.claim("alibi-slopes")
@every(
    ("num_heads", "exponents"),
    [
        (1, [8]),
        (2, [4, 8]),
        (3, [4, 8, 2]),
        (7, [2, 4, 6, 8, 1, 3, 5]),  # those of four, then every second one of eight
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_alibi_slopes(num_heads, exponents, device):
    slopes = positions.alibi_slopes(num_heads, dtype=torch.float64, device=device)
    assert slopes.tolist() == pytest.approx([2.0**-exponent for exponent in exponents])
    assert positions.alibi_slopes(num_heads).dtype == torch.float32


@pytest.mark.claim("alibi-is-its-formula")
@every(
    ("n", "m", "alignment", "offset"),
    [
        (5, None, None, 0),
        (5, 5, "bottom-right", 0),
        (3, 7, "top-left", 0),
        (3, 7, "bottom-right", 4),
        (7, 3, "bottom-right", -4),
        (0, 3, "bottom-right", 3),
        (1, 997, "bottom-right", 996),
    ],
)
def test_alibi_is_its_formula(n, m, alignment, offset, device):
    heads = 12  # whose slopes are not all powers of 2
    bias = positions.alibi(heads, n, m, alignment=alignment, dtype=torch.float64, device=device)
    m = n if m is None else m
    assert bias.shape == (heads, n, m)
    slopes = positions.alibi_slopes(heads, dtype=torch.float64).tolist()
    for h in range(heads):
        for i in range(n):
            for j in range(m):
                assert bias[h, i, j].item() == -slopes[h] * abs(i + offset - j)
    for dtype in (torch.float32, torch.bfloat16):
        rounded = positions.alibi(heads, n, m, alignment=alignment, dtype=dtype, device=device)
        assert torch.equal(rounded, bias.to(dtype))


@pytest.mark.claim("alibi-up-to-a-constant")
def test_alibi_is_the_authors_bias_up_to_a_constant_a_row(device, randn):
    """Their code adds slope times j: a row's constant, which the softmax does not see."""
    heads, n = 5, 7
    scores = randn(heads, n, n)
    future = torch.ones(n, n, dtype=torch.bool, device=device).triu(1)
    slopes = positions.alibi_slopes(heads, dtype=torch.float64, device=device)[:, None, None]
    theirs = slopes * torch.arange(n, device=device)
    ours = positions.alibi(heads, n, dtype=torch.float64, device=device)
    one, other = (
        torch.softmax((scores + bias).masked_fill(future, -torch.inf), dim=-1)
        for bias in (ours, theirs)
    )
    torch.testing.assert_close(one, other)


@pytest.mark.claim("one-distance-per-diagonal")
@every(
    ("n", "m", "alignment", "offset"),
    [
        (5, None, None, 0),
        (5, 5, "bottom-right", 0),
        (3, 7, "top-left", 0),
        (3, 7, "bottom-right", 4),
        (7, 3, "bottom-right", -4),
        (1, 7, "bottom-right", 6),
    ],
)
def test_distances_are_those_of_the_diagonals(n, m, alignment, offset, device):
    found = positions.distances(n, m, alignment=alignment, device=device)
    m = n if m is None else m
    assert found.shape == (n + m - 1,)
    assert found.dtype == torch.int64
    for i in range(n):
        for j in range(m):
            assert found[j - i + n - 1].item() == j - (i + offset)
    bias = -positions.alibi_slopes(3, dtype=torch.float64, device=device)[:, None] * found.abs()
    expected = positions.alibi(3, n, m, alignment=alignment, dtype=torch.float64, device=device)
    i, j = torch.arange(n)[:, None], torch.arange(m)
    assert torch.equal(bias[:, j - i + n - 1], expected)


@every(("n", "m"), [(0, 0), (0, 3), (3, 0)])
def test_without_pairs_there_are_no_distances(n, m):
    assert positions.distances(n, m, alignment="top-left").shape == (0,)


@pytest.mark.claim("buckets-grow-with-distance")
@every(("B", "D"), [(32, 128), (10, 6), (36, 50)])
@every("bidirectional", [True, False])
def test_buckets_by_their_formula(bidirectional, B, D, device):
    """In exact logarithms, where no value is near a whole number; and what the rest must obey."""
    side = B // 2 if bidirectional else B
    exact = side // 2
    distance = torch.arange(-1000, 1001, device=device)
    found = positions.relative_buckets(
        distance, num_buckets=B, max_distance=D, bidirectional=bidirectional
    )
    for t, bucket in zip(distance.tolist(), found.tolist(), strict=True):
        u = abs(t) if bidirectional else max(-t, 0)
        expected = float(u)
        if u >= exact:
            expected = exact + math.log(u / exact) / math.log(D / exact) * (side - exact)
        within = bucket - side * (bidirectional and t > 0)
        if abs(expected - round(expected)) > 1e-4 or u < exact:
            assert within == min(math.floor(expected), side - 1)
        else:  # in float32 a whole number may come out a little less
            assert within in (min(round(expected), side - 1), min(round(expected) - 1, side - 1))
    past = found[distance <= 0].flip(0)  # from near to far
    assert (past[1:] >= past[:-1]).all()
    assert (past[:exact].diff() == 1).all()
    assert (past[D:] == side - 1).all()
    future = found[distance > 0]
    assert (future == (past[1:] + side if bidirectional else 0)).all()


@pytest.mark.claim("float32-decides-buckets")
@every(
    ("num_buckets", "max_distance", "bidirectional", "moved"),
    [(32, 128, False, []), (32, 128, True, []), (36, 50, False, [(30, 26, 27)])],
)
def test_the_logarithm_is_rounded_in_float32(num_buckets, max_distance, bidirectional, moved):
    """The distances back whose bucket is another one by the formula in float64, and both."""
    side = num_buckets // 2 if bidirectional else num_buckets
    exact = side // 2
    u = torch.arange(exact, 100_001)
    share = torch.log(u.double() / exact) / math.log(max_distance / exact) * (side - exact)
    wide = (exact + share.long()).clamp(max=side - 1)
    ours = positions.relative_buckets(
        -u, num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional
    )
    other = ours != wide
    found = zip(u[other].tolist(), ours[other].tolist(), wide[other].tolist(), strict=True)
    # Which of those that stand at a border is moved, a processor's logarithm decides.
    assert {*found} <= {*moved}
    for distance, _, _ in moved:
        beside = share[distance - exact]
        assert abs(beside - beside.round()) < 2.0**-20


def test_buckets_keep_the_shape(device):
    distance = torch.arange(-3, 3, device=device).reshape(2, 1, 3).short()
    found = positions.relative_buckets(distance)
    assert found.shape == (2, 1, 3)
    assert found.dtype == torch.int64


def bucketed(**options):
    return positions.relative_buckets(torch.arange(3), **options)


NATURAL, SIDES = "expected an integer of 0 or more, got", "expected 'top-left' or 'bottom-right'"


@every(
    ("call", "message"),
    [
        (lambda: positions.sinusoidal(3, 5), "dim: expected an even number, got 5"),
        (lambda: positions.sinusoidal(3, 0), "dim: expected an integer of 2 or more, got 0"),
        (lambda: positions.sinusoidal(3, True), "dim: expected an integer of 2 or more, got True"),
        (lambda: positions.sinusoidal(3, 4, base=0.0), r"base: .* positive number, got 0\.0"),
        (lambda: positions.sinusoidal(-1, 4), f"length: {NATURAL} -1"),
        (lambda: positions.sinusoidal(2, 4, offset=-3), f"offset: {NATURAL} -3"),
        (lambda: positions.LearnedPositions(0, 4), "max_length: expected .* 1 or more, got 0"),
        (lambda: positions.LearnedPositions(4, 0), "dim: expected .* 1 or more, got 0"),
        (lambda: positions.LearnedPositions(4, 2)(-1), "length: expected .* got -1"),
        (lambda: positions.alibi_slopes(0), "num_heads: expected .* 1 or more, got 0"),
        (lambda: positions.alibi(2, -1), f"n: {NATURAL} -1"),
        (lambda: positions.alibi(2, 3, 5), f"alignment: {SIDES} because n=3 differs from m=5"),
        (lambda: positions.alibi(2, 3, alignment="left"), f"alignment: {SIDES}, got 'left'"),
        (lambda: positions.distances(-1), f"n: {NATURAL} -1"),
        (lambda: positions.distances(2, 3), f"alignment: {SIDES}"),
        (lambda: bucketed(num_buckets=2), "num_buckets: .* 4 or more, got 2. T5 has 32; each side"),
        (lambda: bucketed(num_buckets=1, bidirectional=False), "num_buckets: .* 2 or more"),
        (lambda: bucketed(num_buckets=7), "num_buckets: expected an even number .*, got 7"),
        (lambda: bucketed(max_distance=8), "max_distance: .* 9 or more, got 8. Distances"),
        (lambda: positions.rotary(torch.ones(3, 5)), r"x: .* with an even d, got \(3, 5\)"),
        (lambda: positions.rotary(torch.ones(4)), r"x: expected shape .* got \(4,\)"),
        (lambda: positions.rotary_half_split(torch.ones(3, 0)), r"x: expected .* got \(3, 0\)"),
        (lambda: positions.to_half_split(torch.ones(6), num_heads=2), "tensor: .*=2 .* got size 6"),
        (lambda: positions.from_half_split(torch.ones(3, 0)), "tensor: .* got size 0"),
        (lambda: positions.to_half_split(torch.ones(6), num_heads=0), "num_heads: .* got 0"),
        (
            lambda: positions.rotary(torch.ones(1, 6), offset=-1, positions=[0]),
            f"offset: {NATURAL}",
        ),
    ],
)
def test_errors_name_the_argument_and_what_came(call, message):
    with pytest.raises(TypeError if message.endswith("True") else ValueError, match=f"^{message}"):
        call()


@pytest.mark.parametrize("rotate", [positions.rotary, positions.rotary_half_split])
def test_rows_can_be_turned_by_positions_of_their_own(rotate, device, randn):
    """Each row is the one that a whole text has at its position; samples may differ."""
    n, dim, offset = 7, 6, 5
    x = randn(2, 3, n, dim).requires_grad_()
    own = torch.tensor([[0, 1, 1, 2, 0, 11, 3], [4, 4, 4, 2, 1, 0, 0]], device=device)
    turned = rotate(x, offset=offset, base=97.0, positions=own[:, None])
    for sample in range(2):
        for row in range(n):
            alone = x[sample, :, row : row + 1]
            place = offset + int(own[sample, row])
            expected = rotate(alone, offset=place, base=97.0)
            torch.testing.assert_close(
                turned[sample, :, row : row + 1], expected, rtol=0, atol=1e-14
            )
    weight = randn(*x.shape)
    # Its transpose turns back: the gradient is the weight, turned by the negative positions.
    (gradient,) = torch.autograd.grad(turned, x, weight)
    back = rotate(weight, base=97.0, positions=-own[:, None] - offset)
    torch.testing.assert_close(gradient, back, rtol=0, atol=1e-14)


@pytest.mark.parametrize("rotate", [positions.rotary, positions.rotary_half_split])
def test_positions_in_a_row_are_those_of_the_offset(rotate, device, randn):
    x = randn(3, 7, 6)
    for own in (range(7), list(range(7)), torch.arange(7, dtype=torch.uint8, device=device)):
        assert torch.equal(rotate(x, offset=13, positions=own), rotate(x, offset=13))
    assert rotate(x[:, :0], positions=[]).shape == (3, 0, 6)
    wide = rotate(x.bfloat16(), positions=torch.full((7,), 257, device=device))
    assert torch.equal(wide[:, :1], rotate(x.bfloat16()[:, :1], offset=257))


@every(
    ("own", "came"),
    [
        (torch.zeros(2, 7, dtype=torch.long), "shape (2, 7) of torch.int64"),
        (torch.zeros(5, 2, 3, 7, dtype=torch.long), "shape (5, 2, 3, 7) of torch.int64"),
        ([0, 1, 2], "shape (3,) of torch.int64"),
        (torch.zeros(7), "shape (7,) of torch.float32"),
        (torch.zeros(7, dtype=torch.bool), "shape (7,) of torch.bool"),
    ],
)
def test_positions_that_do_not_fit_are_refused(own, came):
    message = rf"positions: .* \(2, 3, 7\), or .* got {re.escape(came)}\. .* \(b, 1, n\)"
    kind = ValueError if "int64" in came else TypeError
    with pytest.raises(kind, match=f"^{message}"):
        positions.rotary(torch.zeros(2, 3, 7, 6), positions=own)


@every(
    ("call", "message"),
    [
        (lambda: positions.rotary(torch.ones(3, 4).int()), r"x: .* got torch\.int32.* x\.float"),
        (lambda: positions.relative_buckets(torch.ones(3)), r"distance: .* got .*\(n, m\)"),
        (lambda: positions.relative_buckets([1, 2]), "distance: expected a tensor of integers"),
        (lambda: bucketed(bidirectional="both"), "bidirectional: expected True or False, got str"),
    ],
)
def test_errors_of_another_type_name_it(call, message):
    with pytest.raises(TypeError, match=f"^{message}"):
        call()
