"""What the page on long sequences claims: gradients over a distance, paths, lengths."""

import math

import pytest
import torch

import attnref
from attnref.masks import causal, sliding_window


@pytest.mark.claim("recurrent-gradient-bound")
@pytest.mark.parametrize("stretch", [0.8, 1.0, 1.7])
def test_the_influence_over_k_steps_is_stretched_by_at_most_the_kth_power(stretch, device, randn):
    """And the bound is reached, by states near 0 and a matrix that only turns."""
    W = randn(7, 7)
    W = stretch * W / torch.linalg.matrix_norm(W, ord=2)
    turn = stretch * torch.linalg.qr(randn(7, 7))[0]
    words = randn(11, 7)
    for matrix, size in [(W, 1.0), (W, 0.1), (turn, 1e-9)]:
        for k in (1, 2, 5, 11):

            def read(state, matrix=matrix, part=size * words[:k]):
                for word in part:
                    state = torch.tanh(matrix @ state + word)
                return state

            start = torch.zeros(7, dtype=torch.float64, device=device)
            jacobian = torch.autograd.functional.jacobian(read, start)
            norm = torch.linalg.matrix_norm(jacobian, ord=2).item()
            assert norm <= stretch**k * (1 + 1e-12)
            if matrix is turn:
                assert norm == pytest.approx(stretch**k, rel=1e-12)


@pytest.mark.claim("typical-stretch-decides")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.audit) for n in (1, 2, 3, 4))]
)
def test_a_gradient_vanishes_though_its_bound_grows(seed, device):
    """Over five seeds the norm of W was 1.86 to 1.99, and the gradient 9e-12 to 7e-7."""
    width, distance, gain = 64, 100, 0.8
    generator = torch.Generator(device).manual_seed(seed)
    numbers = {"generator": generator, "dtype": torch.float64, "device": device}
    W = torch.randn(width, width, **numbers) / math.sqrt(width)
    vectors = torch.randn(width, 1000, **numbers)
    stretched = (W @ vectors).norm(dim=0) / vectors.norm(dim=0)
    assert stretched.square().mean().item() == pytest.approx(1, abs=0.1)
    norm = torch.linalg.matrix_norm(W, ord=2).item()
    assert 1.8 < norm < 2.05
    x = (0.1 * torch.randn(distance + 1, width, **numbers)).requires_grad_()
    for factor, vanishes in ((gain, True), (3.0, False)):
        state = torch.zeros(width, dtype=x.dtype, device=device)
        for word in x:
            state = torch.tanh(factor * W @ state + word)
        (gradient,) = torch.autograd.grad(state.sum() / math.sqrt(width), x)
        far, near = gradient[0].norm(), gradient[-2].norm()
        assert (factor * norm) ** distance > 1e15
        assert far < 1e-5 * near if vanishes else far > 1e5 * near


@pytest.mark.claim("gradient-ignores-distance")
def test_a_word_that_is_moved_takes_its_gradient_along(device, randn):
    words = randn(23, 5)
    query = words[-1:].clone()
    order = torch.randperm(23, generator=torch.Generator().manual_seed(3)).to(device)

    def gradient(x):
        x = x.clone().requires_grad_()
        output = attnref.scaled_dot_product_attention(query, x, x)
        return torch.autograd.grad(output.sin().sum(), x)[0]

    torch.testing.assert_close(gradient(words[order]), gradient(words)[order], rtol=0, atol=1e-15)


@pytest.mark.claim("path-length")
@pytest.mark.parametrize("n", [2, 13, 31])
def test_steps_from_the_first_word_to_the_last(n):
    def steps(mask):
        sees = mask.dense().double()
        heard, count = sees, 1
        while heard[-1, 0] == 0:
            heard, count = heard @ sees, count + 1
        return count

    assert steps(causal(n)) == 1
    assert steps(sliding_window(n, window=2, is_causal=True)) == n - 1
    for window in (3, 5, 11):
        assert steps(sliding_window(n, window=window, is_causal=True)) == math.ceil(
            (n - 1) / (window - 1)
        )


@pytest.mark.claim("weights-fit-every-length")
@pytest.mark.claim("weights-know-no-length")
def test_one_layer_serves_every_length(device, generator):
    layer = attnref.MultiHeadAttention(12, 3, device=device, generator=generator)
    for n in (1, 7, 401):
        x = torch.randn(2, n, 12, device=device, generator=generator)
        output = layer(x, is_causal=True)
        assert output.shape == (2, n, 12)
        for t in {1, n}:  # what the first tokens get, whatever comes after them
            torch.testing.assert_close(output[:, :t], written_out(layer, x[:, :t]))


def written_out(layer, x):
    """Causal attention in three heads, from the weights of the layer."""
    weights = layer.query_proj, layer.key_proj, layer.value_proj
    q, k, v = (w(x).unflatten(-1, (3, 4)).transpose(1, 2) for w in weights)  # (2, 3, n, 4)
    later = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool()
    scores = (q @ k.mT / 2).masked_fill(later, -math.inf)
    return layer.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(-2))
