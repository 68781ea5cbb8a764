"""What the page on lower bounds proves, run: constructions, a rank, and data without structure."""

import math

import pytest
import torch

import attnref
from attnref import masks
from attnref.variants.hierarchical import hierarchical_attention
from attnref.variants.linear import linear_attention
from attnref.variants.linformer import linformer_attention, mean_projection
from attnref.variants.lsh import lsh_attention, random_rotations
from attnref.variants.nystrom import nystrom_attention
from attnref.variants.performer import performer_attention, random_projection
from attnref.variants.quantized import quantized_attention
from attnref.variants.sliding_window import sliding_window_attention
from attnref.variants.topk import topk_attention


def decided_by_attention(a, b):
    """The outputs of the construction for two sets of n vectors of zeros and ones."""
    n, d = a.shape
    query = torch.cat([-a, a.new_full((n, 1), -0.5)], -1)
    guard = torch.eye(d + 1, dtype=a.dtype, device=a.device)[-1:]
    key = torch.cat([torch.cat([b, b.new_zeros(n, 1)], -1), guard])
    value = torch.cat([a.new_ones(n, 1), a.new_zeros(1, 1)])
    return attnref.scaled_dot_product_attention(query, key, value, scale=4 * math.log(n))[:, 0]


@pytest.mark.claim("attention-decides-orthogonal-vectors")
def test_outputs_tell_which_vectors_have_an_orthogonal_partner(generator, device):
    for n, d in ((3, 5), (17, 7), (64, 11), (128, 13)):
        both = set()
        for share in (0.3, 0.5, 0.7, 0.9):  # of ones
            a, b = (
                (torch.rand(n, d, generator=generator, device=device) < share).double()
                for _ in range(2)
            )
            has_partner = (a @ b.T == 0).any(-1)
            outputs = decided_by_attention(a, b)
            eps = 32 * torch.finfo(a.dtype).eps
            assert (outputs[has_partner] >= 1 / (1 + n**-2) - eps).all()
            assert (outputs[~has_partner] <= 1 / n + eps).all()
            both |= set(has_partner.tolist())
        assert both == {False, True}


@pytest.mark.claim("ignored-key-costs-half-the-diameter")
@pytest.mark.parametrize(
    "method",
    [
        lambda q, k, v: sliding_window_attention(
            q[None], k[None], v[None], window=4, is_causal=True
        )[0],
        lambda q, k, v: attnref.scaled_dot_product_attention(q, k, v, masks.dyadic(13).dense()),
        lambda q, k, v: attnref.scaled_dot_product_attention(
            q, k, v, masks.strided(13, stride=5).dense()
        ),
        # Buckets by the number of a place: no key of an even one is met.
        lambda q, k, v: attnref.scaled_dot_product_attention(q, k[1::2], v[1::2]),
        lambda q, k, v: v[1:].mean(0, keepdim=True).expand_as(q),
    ],
    ids=["window", "dyadic", "strided", "odd places", "mean of the others"],
)
def test_a_method_errs_by_half_the_diameter_for_a_key_that_it_ignores(method, randn):
    n, d = 13, 5
    query, key, value = (randn(n, d) for _ in range(3))
    key[0] = 100 * query[-1]  # the match of the last query, which none of them looks at
    diameter, errors, given = 10.0, [], []
    for end in (-diameter / 2, diameter / 2):
        value[0] = 0
        value[0, 0] = end
        exact = attnref.scaled_dot_product_attention(query, key, value, is_causal=True)[-1]
        ours = method(query, key, value)[-1]
        torch.testing.assert_close(exact, value[0])  # all the weight is there
        given.append(ours)
        errors.append((ours - exact).norm().item())
    assert torch.equal(*given)
    assert max(errors) >= diameter / 2 * (1 - 1e-9)


@pytest.mark.claim("polynomial-of-scores-has-low-rank")
def test_a_polynomial_of_scores_has_the_rank_of_its_features(randn):
    for d, degree in ((1, 3), (2, 3), (3, 2), (2, 5)):
        query, key = (randn(67, d) for _ in range(2))
        scores = query @ key.T
        approximate = sum(scores**power / math.factorial(power) for power in range(degree + 1))
        features = math.comb(d + degree, degree)
        # Generic tokens reach the bound, and do not exceed it; the powers themselves go beyond.
        assert torch.linalg.matrix_rank(approximate, rtol=1e-12) == features
        assert torch.linalg.matrix_rank(scores.exp(), rtol=1e-12) > features


@pytest.mark.claim("nothing-to-gain-without-structure")
def test_no_method_comes_below_nine_tenths_of_the_mean_on_random_tokens(generator, device):
    """Each reads 64 keys, means, landmarks or buckets' worth of 1024; see the page's table.

    The one that reads every key, with coarser numbers, is right all the same.
    """
    n, d = 1024, 64
    query, key, value = (torch.randn(4, n, d, generator=generator, device=device) for _ in range(3))
    exact = attnref.scaled_dot_product_attention(query, key, value)

    def error(output):
        return ((output - exact).norm() / exact.norm()).item()

    projection = random_projection(256, d, generator=generator)
    rotations = random_rotations(4, d, num_buckets=16, generator=generator)
    means = mean_projection(64, n, device=device)
    outputs = {
        "linear": linear_attention(query, key, value),
        "performer": performer_attention(query, key, value, projection=projection),
        "linformer": linformer_attention(
            query, key, value, key_projection=means, value_projection=means
        ),
        "nystrom": nystrom_attention(query, key, value),
        "hierarchical": hierarchical_attention(query, key, value, block_size=16),
        "lsh": lsh_attention(query, key, value, rotations=rotations, block_size=16),
        "topk": topk_attention(query, key, value, num_keys=64),
    }
    mean = error(value.mean(-2, keepdim=True).expand_as(value))
    for name, output in outputs.items():
        assert error(output) > 0.9 * mean, name
    # With more to read there is something to gain: a quarter of the keys, or most of them.
    wide = random_rotations(8, d, num_buckets=16, generator=generator)
    for output in (
        nystrom_attention(query, key, value, num_landmarks=256),
        topk_attention(query, key, value, num_keys=256),
        lsh_attention(query, key, value, rotations=wide, block_size=64),
    ):
        assert error(output) < 0.9 * mean
    assert error(quantized_attention(query, key, value)) < 0.01
