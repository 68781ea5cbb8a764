"""The messages that the pages on pitfalls quote: where each stands, and a call that provokes it."""

import warnings

import torch
from torch import nn
from torch.nn import functional as F

sdpa = F.scaled_dot_product_attention
X = torch.zeros(2, 3, 5, 8)  # (b, h, n, d)
KEYS = torch.zeros(2, 3, 7, 8)
LAYER = nn.MultiheadAttention(24, 3, batch_first=True)
WORDS = torch.zeros(2, 5, 24)


def layer(**options):
    return lambda: LAYER(WORDS, WORDS, WORDS, **options)


def masked(mask):
    return lambda: sdpa(X, KEYS, KEYS, attn_mask=mask)


def softmax_of_nothing(part):
    """The backward pass, with anomalies detected, of a row without keys."""

    def call():
        query, value = torch.ones(2, 4, requires_grad=True), torch.ones(2, 4)
        scores = query @ torch.ones(4, 2) - torch.tensor([[torch.inf], [0.0]])
        if part == "value":
            query, value = query.detach(), value.requires_grad_()
            scores = scores.detach()
        with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
            warnings.simplefilter("ignore")
            (torch.softmax(scores, -1) @ value).sum().backward()

    return call


def implicit_dimension():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.softmax(X[0])


BOOL = torch.bool
# anchor below pitfalls/: [(message, call)]
MESSAGES = {
    "masks/#half-precision": [
        (
            "value cannot be converted to type c10::Half without overflow",
            lambda: X.half().masked_fill(torch.ones(5, 8, dtype=BOOL), -1e9),
        )
    ],
    "masks/#zero-one": [
        (
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            "attn_mask.dtype: long int and query.dtype: float instead.",
            masked(torch.ones(5, 7, dtype=torch.long)),
        ),
        (
            "masked_fill_ only supports boolean masks, but got mask with dtype float",
            lambda: X.masked_fill(torch.ones(5, 8), 0),
        ),
        (
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
            "trying to invert a mask, use the `~` or `logical_not()` operator instead.",
            lambda: 1 - torch.ones(5, dtype=BOOL),
        ),
    ],
    "masks/#shape": [
        (
            "The size of tensor a (5) must match the size of tensor b (2) at non-singleton "
            "dimension 2",
            masked(torch.ones(2, 7, dtype=BOOL)),
        )
    ],
    "masks/#layer": [
        (
            "The shape of the 3D attn_mask is torch.Size([2, 5, 5]), but should be (6, 5, 5).",
            layer(attn_mask=torch.zeros(2, 5, 5, dtype=BOOL)),
        ),
        (
            "The shape of the 2D attn_mask is torch.Size([5, 7]), but should be (5, 5).",
            layer(attn_mask=torch.zeros(5, 7, dtype=BOOL)),
        ),
        (
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask.",
            layer(is_causal=True),
        ),
    ],
    "masks/#causal-flag": [
        (
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True",
            lambda: sdpa(
                X, KEYS, KEYS[..., :4], attn_mask=torch.ones(5, 7, dtype=BOOL), is_causal=True
            ),
        )
    ],
    "numerics/#nan": [
        (
            "Function 'SoftmaxBackward0' returned nan values in its 0th output.",
            softmax_of_nothing("query"),
        ),
        (
            "Function 'MmBackward0' returned nan values in its 1th output.",
            softmax_of_nothing("value"),
        ),
    ],
    "numerics/#axis": [
        (
            "Implicit dimension choice for softmax has been deprecated. Change the call to "
            "include dim=X as an argument.",
            implicit_dimension,
        )
    ],
    "numerics/#dropout": [
        (
            "dropout probability has to be between 0 and 1, but got 2",
            lambda: sdpa(X, X, X, dropout_p=2.0),
        )
    ],
    "shapes/#grouped": [
        (
            "The size of tensor a (6) must match the size of tensor b (2) at non-singleton "
            "dimension 1",
            lambda: sdpa(torch.zeros(1, 6, 5, 8), *[torch.zeros(1, 2, 7, 8)] * 2),
        ),
        (
            "Number of heads in key and value must divide the number of heads in",
            lambda: sdpa(torch.zeros(1, 6, 5, 8), *[torch.zeros(1, 4, 7, 8)] * 2, enable_gqa=True),
        ),
    ],
    "shapes/#padding": [
        (
            "stack expects each tensor to be equal size, but got [3, 8] at entry 0 and [5, 8] at "
            "entry 1",
            lambda: torch.stack([torch.zeros(3, 8), torch.zeros(5, 8)]),
        )
    ],
    "shapes/#heads": [
        (
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
            lambda: X.transpose(1, 2).view(2, 5, 24),
        ),
        (
            "shape '[1, 5, 5, 8]' is invalid for input of size 120",
            lambda: torch.zeros(1, 5, 24).view(1, 5, 5, 8),
        ),
        ("embed_dim must be divisible by num_heads", lambda: nn.MultiheadAttention(10, 3)),
    ],
    "shapes/#transpose": [
        (
            "Expected size for first two dimensions of batch2 tensor to be: [6, 8] but got: "
            "[6, 7].",
            lambda: torch.zeros(6, 7, 8) @ torch.zeros(6, 7, 8),
        )
    ],
}
QUOTED = [(place, *entry) for place, entries in MESSAGES.items() for entry in entries]
