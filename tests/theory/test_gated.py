"""What the page on gates claims: silence, sinks, and the matrix of a head."""

import pytest
import torch

import attnref
from attnref import MultiHeadAttention, attend, scaled_dot_product_attention

N, D, D_K, D_V = 7, 13, 5, 3


@pytest.fixture
def head(randn):
    """The matrices of one head: query, key, value, gate (elementwise) and output."""
    return randn(D, D_K), randn(D, D_K), randn(D, D_V), randn(D, D_V), randn(D_V, D)


@pytest.mark.claim("a-softmax-has-to-answer")
@pytest.mark.parametrize("gate", ["headwise", "elementwise"])
def test_a_head_cannot_be_silent_without_a_gate(gate, generator, randn):
    """Its answer is at least the least value, whatever it asks; a gate takes it near zero."""
    value = randn(N, D_V)
    least = value.amin(0)  # of each component
    for size in (0.0, 1.0, 30.0):
        answer = scaled_dot_product_attention(size * randn(N, D_K), randn(N, D_K), value)
        assert (answer >= least - 1e-12).all()
    layer = MultiHeadAttention(
        D, 2, head_dim=D_K, value_head_dim=D_V, bias=False, gate=gate, generator=generator,
        dtype=torch.float64, device=generator.device,
    )  # fmt: skip
    with torch.no_grad():
        layer.gate_proj.weight.zero_()
        layer.gate_proj.weight[:, 0] = -20.0  # closed for a token whose first number is large
        x = randn(N, D)
        x[:, 0] = 0.0
        x[2, 0] = 1.0
        said = layer(x).norm(dim=-1)
    assert said[2] < 1e-6 < 0.1 < said[[0, 1, 3, 4, 5, 6]].min()


@pytest.mark.claim("a-sink-is-a-gate")
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_sink_multiplies_the_output_by_a_sigmoid(is_causal, randn):
    """One more key of score s, with value zero, is the gate sigma(lse - s) of each row."""
    query, key, value = randn(N, D_K), randn(N, D_K), randn(N, D_V)
    for sink in (-3.0, 0.0, 2.5):
        plain = attend(query, key, value, is_causal=is_causal)
        scores = query @ key.mT / D_K**0.5
        if is_causal:
            scores = scores.masked_fill(~torch.ones_like(scores).bool().tril(), -torch.inf)
        extended = torch.cat([scores, torch.full_like(scores[:, :1], sink)], dim=-1)
        with_sink = torch.softmax(extended, -1)[:, :-1] @ value
        gate = torch.sigmoid(plain.lse - sink)[:, None]
        torch.testing.assert_close(gate * plain.output, with_sink, rtol=1e-12, atol=1e-13)
        assert gate.min() < 0.999


@pytest.mark.claim("a-gated-head-has-a-matrix-per-token")
def test_an_elementwise_gate_gives_each_token_a_matrix_of_its_own(head, randn):
    """Between the average of the tokens and what the head adds: W_V diag(gate) W_O."""
    w_q, w_k, w_v, w_g, w_o = head
    x = randn(N, D)
    averages = attnref.attention_weights(x @ w_q, x @ w_k) @ x  # (n, D)
    answer = scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)
    gates = torch.sigmoid(x @ w_g)  # (n, d_v)
    added = (gates * answer) @ w_o
    matrices = w_v @ torch.diag_embed(gates) @ w_o  # (n, D, D)
    expected = (averages[:, None] @ matrices)[:, 0]
    torch.testing.assert_close(added, expected, rtol=1e-11, atol=1e-12)
    for i in range(1, N):  # no two are one matrix times a number
        both = torch.stack([matrices[0].flatten(), matrices[i].flatten()])
        assert torch.linalg.matrix_rank(both, rtol=1e-3) == 2
    assert (torch.linalg.matrix_rank(matrices) == D_V).all()
    # All write to the same d_v dimensions, those of the rows of W_O.
    assert torch.linalg.matrix_rank(added) == D_V


@pytest.mark.claim("a-gate-is-not-linear")
def test_a_gate_between_the_matrices_is_not_linear(head, randn):
    """Of a token that attends to itself: doubling and adding, without a gate and with each kind."""
    _, _, w_v, w_g, w_o = head
    x, y = randn(2, 1, D)

    def plain(x):
        return x @ w_v @ w_o

    def headwise(x):
        return torch.sigmoid(x @ w_g[:, :1]) * (x @ w_v) @ w_o

    def elementwise(x):
        return (torch.sigmoid(x @ w_g) * (x @ w_v)) @ w_o

    def off(f):
        doubled = (f(2 * x) - 2 * f(x)).norm() / f(x).norm()
        added = (f(x + y) - f(x) - f(y)).norm() / f(x + y).norm()
        return min(doubled.item(), added.item())

    def turned(f):
        return 1 - torch.cosine_similarity(f(x), plain(x)).item()

    assert off(plain) < 1e-12
    assert off(headwise) > 0.01
    assert off(elementwise) > 0.01
    assert turned(headwise) < 1e-12  # longer or shorter, in the same direction
    assert turned(elementwise) > 1e-3
