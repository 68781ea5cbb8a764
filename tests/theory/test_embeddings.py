"""What the page on embeddings claims: tokens, the table, contexts, turns of the space."""

import pytest
import torch

import attnref
from attnref import positions


def attend(x, **options):
    return attnref.scaled_dot_product_attention(x, x, x, **options)


@pytest.mark.claim("two-tokens-two-shares")
def test_two_pieces_with_the_score_of_the_whole_get_2p_over_1_plus_p(randn):
    scores = 3 * randn(101, 7)
    p = torch.softmax(scores, dim=-1)[:, 2]
    cut = torch.softmax(torch.cat([scores, scores[:, 2:3]], dim=-1), dim=-1)
    pieces = cut[:, 2] + cut[:, 7]
    torch.testing.assert_close(pieces, 2 * p / (1 + p), rtol=1e-14, atol=0)
    assert (pieces > p).all()


@pytest.mark.claim("lookup-is-a-product")
def test_a_lookup_is_a_product_and_teaches_the_rows_that_occur(randn, device):
    table = randn(11, 5).requires_grad_()
    ids = torch.tensor([3, 7, 3, 0], device=device)
    one_hot = torch.nn.functional.one_hot(ids, 11).to(table.dtype)
    assert torch.equal(one_hot @ table, table[ids])
    (gradient,) = torch.autograd.grad(attend(table[ids]).square().sum(), table)
    occurs = torch.zeros(11, dtype=torch.bool, device=device)
    occurs[ids] = True
    assert torch.equal(gradient.abs().sum(-1) > 0, occurs)


@pytest.mark.claim("rows-without-gradient")
def test_rows_of_other_tokens_get_a_gradient_only_from_a_table_shared_with_the_output(
    randn, device
):
    ids, target = torch.tensor([[3, 7, 3, 0], [7, 3, 0, 3]], device=device)
    occurs = torch.zeros(11, dtype=torch.bool, device=device)
    occurs[ids] = True
    for shared in (False, True):
        table = randn(11, 5).requires_grad_()
        output = table if shared else randn(11, 5)
        logits = attend(table[ids]) @ output.mT
        loss = torch.nn.functional.cross_entropy(logits, target)
        (gradient,) = torch.autograd.grad(loss, table)
        expected = torch.ones_like(occurs) if shared else occurs
        assert torch.equal(gradient.abs().sum(-1) > 0, expected)


@pytest.mark.claim("same-token-before-and-after")
def test_one_token_in_two_sentences(randn, device):
    table = randn(11, 5)
    one, other = table[[3, 7, 1, 0]], table[[3, 2, 9]]
    assert torch.equal(one[0], other[0])
    assert (attend(one)[0] - attend(other)[0]).norm() > 0.01


@pytest.mark.claim("twins-without-positions")
def test_what_tells_two_occurrences_apart(randn, device):
    """Neither attention nor a second layer of it does; a causal mask and positions do."""
    x = randn(11, 6)[[3, 7, 3, 0, 7]]
    y = attend(x)
    torch.testing.assert_close(y[0], y[2], rtol=0, atol=1e-15)
    y = attend(y)
    torch.testing.assert_close(y[0], y[2], rtol=0, atol=1e-15)
    table = positions.sinusoidal(5, 6, dtype=x.dtype, device=device)
    for y in (attend(x, is_causal=True), attend(x + table)):
        assert (y[0] - y[2]).norm() > 0.01


@pytest.mark.claim("turning-the-space-changes-nothing")
def test_the_space_of_the_embeddings_can_be_turned(randn):
    x, turn = randn(13, 7), torch.linalg.qr(randn(7, 7))[0]
    weights = [randn(7, width) for width in (5, 5, 3)]

    def layer(x, weights):
        return attnref.scaled_dot_product_attention(*(x @ w for w in weights))

    turned = [turn.mT @ w for w in weights]
    assert (x @ turn - x).abs().max() > 0.1
    torch.testing.assert_close(layer(x @ turn, turned), layer(x, weights), rtol=0, atol=1e-13)
    assert (layer(x @ turn, weights) - layer(x, weights)).abs().max() > 0.01
    # What acts on each number by itself does not turn along.
    into, back = randn(7, 7), randn(7, 3)
    straight = torch.relu(x @ into) @ back
    across = torch.relu(x @ into @ turn) @ turn.mT @ back
    assert (straight - across).abs().max() > 0.1
