"""Attention by hashing: which keys a query meets, and how little is left out with more rounds."""

import itertools
import re

import pytest
import torch

import attnref
from attnref.variants.lsh import lsh_attention, random_rotations
from tests.variants.every import every

CLOSE = {"rtol": 1e-11, "atol": 1e-12}


@pytest.fixture
def rotate(generator):
    def draw(num_rounds, head_dim, num_buckets):
        return random_rotations(
            num_rounds, head_dim, num_buckets=num_buckets, generator=generator, dtype=torch.float64
        )

    return draw


def met(query, key, rotations, block_size):
    """The pairs that meet in some round, one matrix at a time, in plain Python."""
    lead, n = query.shape[:-2], query.shape[-2]
    allowed = torch.zeros(*lead, n, n, dtype=torch.bool)
    flat = allowed.view(-1, n, n)
    for matrix, (q, k) in enumerate(
        zip(query.reshape(-1, n, query.shape[-1]), key.reshape(-1, n, key.shape[-1]), strict=True)
    ):
        for rotation in rotations:
            blocks = []
            for tokens in (q, k):
                products = (tokens @ rotation).tolist()
                hashes = [
                    max(range(2 * len(p)), key=(p + [-x for x in p]).__getitem__) for p in products
                ]
                order = sorted(range(n), key=lambda i: (hashes[i], i))
                blocks.append({token: place // block_size for place, token in enumerate(order)})
            for i in range(n):
                for j in range(n):
                    if abs(blocks[0][i] - blocks[1][j]) <= 1:
                        flat[matrix, i, j] = True
    return allowed.to(query.device)


@pytest.mark.claim("lsh-is-a-mask-of-the-met")
@pytest.mark.parametrize("num_rounds", [1, 2, 5])
@every(("n", "block_size"), [(23, 3), (24, 4), (1, 5), (13, 64)])
@every("is_causal", [False, True])
def test_values_and_gradients_are_those_of_a_mask_of_the_met(
    n, block_size, num_rounds, is_causal, randn, rotate, assert_same
):
    """However many rounds a pair meets in, it counts once."""
    inputs = [randn(2, 3, n, 5), randn(2, 3, n, 5), randn(2, 3, n, 7)]
    rotations = rotate(num_rounds, 5, 4)
    mask = met(inputs[0], inputs[1], rotations, block_size)
    inputs = [tokens.requires_grad_() for tokens in inputs]
    ours = lsh_attention(
        *inputs, rotations=rotations, is_causal=is_causal, scale=0.7, block_size=block_size
    )
    expected = attnref.scaled_dot_product_attention(*inputs, mask, is_causal=is_causal, scale=0.7)
    with torch.no_grad():  # block by block
        alone = lsh_attention(
            *inputs, rotations=rotations, is_causal=is_causal, scale=0.7, block_size=block_size
        )
    torch.testing.assert_close(alone, expected, **CLOSE)
    assert_same(ours, expected, inputs, 1e-11)


@pytest.mark.claim("rounds-drop-less")
def test_each_round_drops_less(randn, rotate):
    """With tied tokens of a few directions, as hashing is made for."""
    n, rounds = 128, 8
    centres = 3 * randn(8, 16)
    query = centres[torch.arange(n, device=centres.device) % 8] + 0.5 * randn(n, 16)
    key, value = query / query.norm(dim=-1, keepdim=True), randn(n, 5)
    rotations = rotate(rounds, 16, 8)
    p = attnref.attention_weights(query, key, scale=2.0)
    exact = p @ value
    eye = torch.eye(n, device=query.device, dtype=query.dtype)
    dropped = []
    for count in range(1, rounds + 1):
        options = {"rotations": rotations[:count], "scale": 2.0, "block_size": 8}
        kept = lsh_attention(query, key, eye, **options)
        mass = p.masked_fill(kept > 0, 0.0).sum(-1)  # (n,)
        torch.testing.assert_close((p - kept).abs().sum(-1), 2 * mass, rtol=0, atol=1e-13)
        moved = (lsh_attention(query, key, value, **options) - exact).norm(dim=-1)
        assert (moved <= mass * torch.cdist(value, value).max() + 1e-13).all()
        dropped.append(mass)
    for fewer, more in itertools.pairwise(dropped):
        assert (more <= fewer + 1e-15).all()
    assert dropped[-1].mean() < 0.3 * dropped[0].mean()
    # As many keys as the first round met, picked without looking, would leave out 13 of 16.
    assert dropped[0].mean() < 0.6 * (1 - 24 / n)


@pytest.mark.claim("tied-tokens-meet-themselves")
def test_a_tied_token_always_meets_itself(randn, rotate):
    tokens = randn(3, 37, 5)
    eye = torch.eye(37, device=tokens.device, dtype=tokens.dtype).expand(3, 37, 37)
    weights = lsh_attention(
        tokens, tokens, eye, rotations=rotate(1, 5, 6), is_causal=True, block_size=2
    )
    assert (weights.diagonal(dim1=-2, dim2=-1) > 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@pytest.mark.claim("tied-tokens-meet-themselves")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_key_that_is_divided_by_its_length_is_hashed_like_its_query(dtype, randn, rotate):
    """Rounded to float32 all the same, and not quite in bfloat16: the two may part at a border."""
    query = randn(16, 512, 16).to(dtype)
    key = (query.double() / query.double().norm(dim=-1, keepdim=True)).to(dtype)
    eye = torch.eye(512, device=query.device, dtype=dtype).expand(16, 512, 512)
    rotations = rotate(1, 16, 64).to(dtype)
    weights = lsh_attention(query, key, eye, rotations=rotations, block_size=8)
    missed = (weights.diagonal(dim1=-2, dim2=-1) == 0).sum().item()
    assert (missed > 0) == (dtype == torch.bfloat16)
    assert missed < 0.01 * 16 * 512


@pytest.mark.claim("lsh-values-do-not-leak")
def test_the_causal_form_does_not_read_later_values(randn, rotate):
    """Nor later keys, once the places are given; those a later key does move."""
    query, key, value = randn(41, 5), randn(41, 5), randn(41, 3)
    other = value.clone()
    other[-1] += 1e3
    before, after = (
        lsh_attention(query, key, v, rotations=rotate_, is_causal=True, block_size=64)
        for rotate_ in [rotate(2, 5, 4)]
        for v in (value, other)
    )
    assert torch.equal(before[:-1], after[:-1])
    assert (before[-1] != after[-1]).all()


def test_a_query_that_meets_no_key_is_zero(device):
    """Queries to one side, keys to the other: causal blocks may hold only the future."""
    n = 8
    query = torch.ones(n, 1, device=device, dtype=torch.float64)
    key = query.clone()
    key[: n // 2] = -1.0  # sorted behind the later half, out of the first queries' reach
    query, key = query.requires_grad_(), key.requires_grad_()
    rotations = torch.ones(1, 1, 1, device=device, dtype=torch.float64)
    output = lsh_attention(
        query, key, torch.ones_like(key), rotations=rotations, is_causal=True, block_size=2
    )
    assert (output[:2] == 0).all()
    for gradient in torch.autograd.grad(output.sum(), (query, key)):
        assert gradient.isfinite().all()


def test_rotations_are_gaussian_and_repeatable(device):
    one, other = (
        random_rotations(3, 50, num_buckets=200, generator=torch.Generator(device).manual_seed(5))
        for _ in range(2)
    )
    assert torch.equal(one, other)
    assert one.shape == (3, 50, 100)
    assert one.dtype == torch.float32
    # Mean 0 and variance 1 of 15 000 numbers, within five standard errors.
    assert one.mean().abs() < 5 / 15_000**0.5
    assert (one.var() - 1).abs() < 5 * (2 / 15_000) ** 0.5


@every(
    ("change", "message"),
    [
        ({"key": (7, 3), "value": (7, 3)}, "key: expected 5 tokens, as query has, got 7. Chunks"),
        ({"rotations": (2, 7, 2)}, "rotations: expected shape (rounds, 3, buckets"),
        ({"rotations": (3, 2)}, "rotations: expected shape (rounds, 3, buckets"),
        ({"rotations": (0, 3, 2)}, "rotations: expected shape (rounds, 3, buckets"),
        ({"block_size": 0}, "block_size: expected an integer of 1 or more, got 0"),
    ],
)
def test_what_does_not_fit_is_named(change, message, randn):
    given = {"query": (5, 3), "key": (5, 3), "value": (5, 3), "rotations": (2, 3, 2)} | change
    given = {name: randn(*x) if isinstance(x, tuple) else x for name, x in given.items()}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        lsh_attention(**given)


def test_rounds_and_buckets_are_numbers(generator):
    with pytest.raises(ValueError, match=r"^num_rounds: expected an integer of 1 or more, got 0"):
        random_rotations(0, 3, num_buckets=4, generator=generator)
    for wrong, kind in ((0, ValueError), (3, ValueError), (True, TypeError)):
        with pytest.raises(kind, match=r"^num_buckets: expected an (even|integer)"):
            random_rotations(2, 3, num_buckets=wrong, generator=generator)
