"""What the pages on heads claim: what cutting into heads is, and what its nine programs cost."""

import runpy
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnref import attention_weights, cost, scaled_dot_product_attention

WAYS = Path(__file__).parents[2] / "snippets" / "foundations" / "multi-head-ways"


@pytest.mark.claim("heads-do-not-change-the-products")
@pytest.mark.claim("parameters-do-not-depend-on-heads")
def test_more_heads_no_more_parameters_or_products_but_more_weights():
    d_model, n = 60, 13
    made = []
    for h in (1, 2, 3, 5, 12):
        d_k = d_model // h
        sizes = cost.Sizes(n=n, m=n, d_k=d_k, d_v=d_k, num_heads=h)
        layer = torch.nn.MultiheadAttention(d_model, h, bias=False, device="meta")
        assert sum(x.numel() for x in layer.parameters()) == 4 * d_model**2
        assert cost.parameters(sizes, d_model, bias=False) == 4 * d_model**2
        x = torch.empty(n, d_model, device="meta")
        with FlopCounterMode(display=False) as counted:
            layer(x, x, x)
        work = cost.multihead(sizes, d_model, cost.of("plain", sizes), bias=False).operations
        assert counted.get_total_flops() == work.matmul == 8 * n * d_model**2 + 4 * n**2 * d_model
        assert work.exponentials == h * n**2
        made.append(sizes.score_bytes)
    assert made == [4 * h * n**2 for h in (1, 2, 3, 5, 12)]
    wide = cost.Sizes(n=n, m=n, d_k=d_model, d_v=d_model, num_heads=5)
    assert cost.parameters(wide, d_model, bias=False) == 5 * 4 * d_model**2


@pytest.mark.claim("view-alone-mixes-words")
def test_a_view_without_transpose_mixes_words(device, randn):
    """Each word attends to itself alone; cut rightly, its output depends on it alone."""
    n, h, d = 6, 3, 5
    alone = torch.eye(n, dtype=torch.bool, device=device)

    def moved(cut, join, changed_word):
        x = randn(n, h * d)
        before = join(scaled_dot_product_attention(*[cut(x)] * 3, alone))
        x[changed_word] += 1.0
        after = join(scaled_dot_product_attention(*[cut(x)] * 3, alone))
        assert before.shape == after.shape == (n, h * d)
        return (before != after).any(-1).nonzero().flatten().tolist()

    def right(x):
        return x.view(n, h, d).transpose(0, 1)

    def right_join(x):
        return x.transpose(0, 1).reshape(n, h * d)

    for word in range(n):
        assert moved(right, right_join, word) == [word]
        # Either half of the way forgotten: other words move, none with another shape.
        assert moved(lambda x: x.view(h, n, d), right_join, word) != [word]
        assert moved(right, lambda x: x.reshape(n, h * d), word) != [word]


@pytest.mark.claim("value-and-output-are-one-matrix")
def test_a_head_is_two_matrices(randn):
    """P depends on W_Q W_K^T alone, and what is carried on W_V W_O alone."""
    n, d_model, d_k, d_v = 7, 13, 5, 3

    x, w_q, w_k = randn(n, d_model), randn(d_model, d_k), randn(d_model, d_k)
    w_v, w_o = randn(d_model, d_v), randn(d_v, d_model)
    head = scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v) @ w_o
    weights = attention_weights(x @ (w_q @ w_k.mT), x, scale=d_k**-0.5)
    carried = weights @ x @ (w_v @ w_o)
    # Scores of some hundred, sums of 13 products of 13: 1e3 eps of their size.
    torch.testing.assert_close(carried, head, rtol=1e-10, atol=1e-10)
    assert torch.linalg.matrix_rank(w_q @ w_k.mT) == d_k
    assert torch.linalg.matrix_rank(w_v @ w_o) == d_v


@pytest.mark.claim("five-ways-same-products")
def test_ways_without_a_fused_kernel_do_the_same_products(device, generator):
    """8 n D^2 + 4 n^2 D a sequence: the programs differ in launches and memory, not in products."""
    for way in ("loop", "stacked", "fused", "einsum", "module_weights"):
        attention = runpy.run_path(str(WAYS / f"{way}.py"))["attention"]
        b, n, h, d = 2, 11, 3, 5
        width = h * d
        x, w_qkv, w_o = (
            torch.randn(*shape, device=device, generator=generator)
            for shape in ((b, n, width), (width, 3 * width), (width, width))
        )
        with FlopCounterMode(display=False) as counted:
            attention(x, w_qkv, w_o, h)
        sizes = cost.Sizes(n=n, m=n, d_k=d, d_v=d, batch=b, num_heads=h)
        expected = cost.multihead(sizes, width, cost.of("plain", sizes, masked=True), bias=False)
        assert counted.get_total_flops() == expected.operations.matmul
        assert expected.operations.matmul == b * (8 * n * width**2 + 4 * n**2 * width)
