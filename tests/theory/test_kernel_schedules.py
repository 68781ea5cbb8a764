"""What the page on the roofline claims of newer kernels: order, rescaling, powers in software."""

import functools
import itertools
import runpy
from math import ceil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from attnref import cost, scaled_dot_product_attention
from attnref.roofline import Machine

SNIPPETS = Path(__file__).parents[2] / "snippets" / "complexity" / "roofline"
HALF = torch.bfloat16
EPSILON = torch.finfo(torch.float32).eps


@functools.cache
def snippet(name):
    return SimpleNamespace(**runpy.run_path(str(SNIPPETS / f"{name}.py")))


# The limit of exponentials -----------------------------------------------------------------------


@pytest.mark.claim("exponential-ceiling")
def test_the_width_at_which_exponentials_are_the_limit_is_a_quarter_of_the_ratio():
    """Neither the length nor the clock plays a part, but the three other operations per score."""
    for length in (1024, 8192):
        for d in (16, 64, 128, 256):
            for ratio in (256, 512):
                sizes = cost.Sizes(n=length, m=length, d_k=d, d_v=d, dtype=HALF)
                machine = Machine("example", {HALF: ratio * 1e9}, 1e30, exponentials_per_second=1e9)
                parts = machine.roofline(cost.of("fused", sizes), dtype=HALF).parts
                quotient = parts["exponential"] / parts["compute"]
                # 4 d operations per score in products, 3 elsewhere, and 2 d per query.
                assert quotient == pytest.approx(ratio / (4 * d + 3 + 2 * d / length), rel=1e-12)
                if 4 * d != ratio:  # there, the three operations decide
                    assert (quotient > 1) == (d < ratio / 4)


# The order of tiles ------------------------------------------------------------------------------


@pytest.mark.claim("long-tiles-first")
def test_long_tiles_first_end_no_later():
    for heads, rows in ((1, 64), (8, 64), (3, 101), (11, 37), (40, 16)):
        module = snippet("tiles")
        lengths = [row for _ in range(heads) for row in range(1, rows + 1)]
        first, last = (sorted(lengths, reverse=order) for order in (True, False))
        least = max(rows, ceil(sum(lengths) / module.PROCESSORS))
        found = module.finished(first)
        assert least <= found <= module.finished(lengths)
        assert found <= module.finished(last)
        assert (
            found <= 4 / 3 * least
        )  # Graham 1969: of the best order, which takes at least so long


# Rescaling ---------------------------------------------------------------------------------------


def expected(scores, values):
    """The definition: scores to the base 2 as a mask on products that are 0."""
    query, key = scores.new_zeros(len(scores), 1), scores.new_zeros(len(values), 1)
    bias = scores.double() * torch.log(torch.tensor(2.0, dtype=torch.float64))
    return scaled_dot_product_attention(
        query[None, None].double(),
        key[None, None].double(),
        values[None, None].double(),
        attn_mask=bias[None, None],
    )[0, 0]


def scores_of(kind, rows=13, keys=331):
    generator = torch.Generator().manual_seed(4)
    noise = 3 * torch.randn(rows, keys, generator=generator)
    slope = {"noise": 0, "rising": 600, "falling": -600, "slowly rising": 15}[kind]
    values = torch.randn(keys, 7, generator=generator)
    return noise + torch.linspace(0, slope, keys), values


KINDS = ["noise", "rising", "falling", "slowly rising"]


@pytest.mark.claim("conditional-rescaling")
def test_an_old_maximum_changes_rounding_alone():
    """Relative errors of a term, in units of ε / 2, in each of the two sums.

    At most one for each addition and one for each factor, so 2 m. A power whose argument x was
    rounded errs by |x| log 2 and its own rounding: 150 in all, since float32 has no power below
    2**-149; the factors divide such a distance among themselves and err as much together.
    """
    for kind in KINDS:
        for block in (1, 19, 331):
            scores, values = scores_of(kind)
            right = expected(scores, values)
            most = 2 * EPSILON / 2 * (2 * len(values) + 300) * values.abs().max()  # two sums
            counts = {}
            for threshold in (0, 8):
                output, counts[threshold], largest = snippet("rescale").attend(
                    scores, values, block=block, threshold=threshold
                )
                assert (output.double() - right).abs().max() <= most
                assert largest <= 2**threshold
            assert len(scores) <= counts[8] <= counts[0]


@pytest.mark.claim("conditional-rescaling")
def test_no_row_is_rescaled_more_often():
    for kind in KINDS:
        scores, values = scores_of(kind)
        for row in scores.split(1):
            lazy, eager = (
                snippet("rescale").attend(row, values, block=19, threshold=threshold)[1]
                for threshold in (8, 0)
            )
            assert 1 <= lazy <= eager


@pytest.mark.claim("conditional-rescaling")
def test_the_threshold_is_needed_and_is_reached():
    """Scores that climb by steps of 7: the maximum is renewed at each second step."""
    scores = torch.arange(64.0).mul(7).expand(3, 64)
    values = torch.eye(64)
    attend = functools.partial(snippet("rescale").attend, scores, values, block=1)
    output, rescaled, largest = attend(threshold=8)
    assert (rescaled, largest) == (3 * 32, 2**7)
    torch.testing.assert_close(output.double(), expected(scores, values), rtol=1e-5, atol=1e-30)
    assert attend(threshold=0)[1] == 3 * 64
    overflown, rescaled, largest = attend(threshold=1000)
    assert rescaled == 3
    assert largest == float("inf")
    assert not overflown.isfinite().all()


# Powers of two in software -----------------------------------------------------------------------


@pytest.mark.claim("software-exponential")
def test_a_polynomial_of_degree_three_is_finer_than_bfloat16():
    exp2 = snippet("exp2").exp2
    x = torch.cat([torch.linspace(-126, 8, 400_009), torch.arange(-126.0, 9)])
    right, found = torch.exp2(x.double()), exp2(x).double()
    error = ((found - right) / right).abs().max()
    half_step = 2.0**-8  # of a bfloat16: 7 bits behind the first
    assert 1e-4 < error < half_step / 30
    # Rounded, a power errs by half a step more at most, and is the same number or its neighbour.
    rounded = found.bfloat16()
    assert ((rounded.double() - right) / right).abs().max() <= half_step + (1 + half_step) * error
    apart = rounded.view(torch.int16).int() - right.bfloat16().view(torch.int16).int()
    assert set(apart.unique().tolist()) <= {-1, 0, 1}
    assert (apart == 0).double().mean() > 0.98


def test_whole_powers_are_exact_and_each_degree_is_finer():
    exp2 = snippet("exp2").exp2
    whole, f = torch.arange(-126.0, 128), torch.linspace(0, 1, 1009)[:-1]
    errors = []
    for degree in range(1, 5):
        # Up to the rounding of the first coefficient, which is 1.
        torch.testing.assert_close(exp2(whole, degree), torch.exp2(whole), rtol=2 * EPSILON, atol=0)
        errors.append(((exp2(f, degree).double() / torch.exp2(f.double())) - 1).abs().max())
    assert all(finer < coarser / 10 for coarser, finer in itertools.pairwise(errors))
