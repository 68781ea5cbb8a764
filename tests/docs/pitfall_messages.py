"""The messages that the pages on pitfalls quote: where each stands, and a call that provokes it."""

import warnings

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attnref
from attnref.masks import causal, padding, sliding_window
from attnref.positions import LearnedPositions
from attnref.variants.kv_cache import kv_cache_attention

sdpa, ours = F.scaled_dot_product_attention, attnref.scaled_dot_product_attention
X = torch.zeros(2, 3, 5, 8)  # (b, h, n, d)
KEYS = torch.zeros(2, 3, 7, 8)
LAYER = nn.MultiheadAttention(24, 3, batch_first=True)
WORDS = torch.zeros(2, 5, 24)
BOOL = torch.bool


def layer(words=WORDS, **options):
    return lambda: LAYER(words, words, words, **options)


def masked(mask, attend=sdpa):
    return lambda: attend(X, KEYS, KEYS, attn_mask=mask)


def grouped(attend, key_heads, **options):
    query, key = torch.zeros(1, 6, 5, 8), torch.zeros(1, key_heads, 7, 8)
    return lambda: attend(query, key, key, **options)


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


def appended(key, room=5):
    """Appends to a cache that holds X already."""

    def call():
        cache = attnref.KVCache(max_length=room)
        cache.append(X, X)
        cache.append(key, key)

    return call


def kept_graph():
    weight, cache = torch.ones(4, 4, requires_grad=True), torch.zeros(0, 4)
    for _ in range(2):
        cache = torch.cat([cache, torch.ones(3, 4) @ weight])
        cache.square().sum().backward()


def written_in_place():
    weight, cache, loss = torch.ones(4, 4, requires_grad=True), torch.zeros(6, 4), 0.0
    for i in range(2):
        made = torch.ones(3, 4) @ weight
        cache[3 * i : 3 * i + 3] = made
        loss = loss + (made @ cache.mT).square().sum()
    loss.backward()


def demanded_kernel():
    """With three dimensions the fused kernel is not available; warnings say so beforehand."""
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        warnings.simplefilter("ignore")
        sdpa(X[0], X[0], X[0])


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
            "attn_mask: expected bool (True = may attend) or a floating dtype (added to the "
            "scores), got torch.int64. If 1 means may attend, pass attn_mask.bool().",
            masked(torch.ones(5, 7, dtype=torch.long), ours),
        ),
        (
            "only bool and floating types of key_padding_mask are supported",
            layer(key_padding_mask=torch.ones(2, 5, dtype=torch.long)),
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
        ),
        (
            "attn_mask: expected a shape that broadcasts to the scores (2, 3, 5, 7), "
            "(..., queries, keys), got (2, 7). For one row of keys a sample write "
            "attn_mask[:, None, None, :].",
            masked(torch.ones(2, 7, dtype=BOOL), ours),
        ),
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
        ),
        (
            "mask: expected another Mask to combine with, got Tensor. Combine masks first and "
            "call .dense() last.",
            lambda: causal(5) & torch.ones(5, 5, dtype=BOOL),
        ),
        (
            "mask: expected & between masks, | or ~, got and, or, not or if. A mask is no truth "
            "of its own: write causal(n) & padding(lengths, n).",
            lambda: causal(5) and padding([1, 3], 5),
        ),
        (
            "scaled_dot_product_attention(): argument 'attn_mask' (position 4) must be Tensor, "
            "not Mask",
            lambda: sdpa(X, X, X, causal(5)),
        ),
    ],
    "masks/#window": [
        (
            "window: expected an odd number for a two-sided window, got 4. The query's "
            "own position is in the middle: 2 on either side make 5.",
            lambda: sliding_window(6, window=4),
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
    "numerics/#scale": [
        (
            "scaled_dot_product_attention(): argument 'scale' must be float, not Tensor",
            lambda: sdpa(X, X, X, scale=torch.ones(3, 1, 1)),
        ),
        (
            "scale: expected a number or None, got Tensor. None means 1/sqrt(d_k); for a factor "
            "per head multiply query by it and pass scale=1.0.",
            lambda: ours(X, X, X, scale=torch.ones(3, 1, 1)),
        ),
    ],
    "numerics/#dropout": [
        (
            "dropout probability has to be between 0 and 1, but got 10",
            lambda: sdpa(X, X, X, dropout_p=10),
        ),
        (
            "dropout_p: expected a probability in [0, 1), got 10. It is the share of weights to "
            "drop, not to keep; in evaluation pass 0.0.",
            lambda: ours(X, X, X, dropout_p=10),
        ),
    ],
    "shapes/#grouped": [
        (
            "The size of tensor a (6) must match the size of tensor b (2) at non-singleton "
            "dimension 1",
            grouped(sdpa, 2),
        ),
        (
            "Number of heads in key and value must divide the number of heads in",
            grouped(sdpa, 4, enable_gqa=True),
        ),
        (
            "key: expected leading dimensions that broadcast with query's (1, 6), got (1, 2) in "
            "shape (1, 2, 7, 8). If they are fewer heads meant to be shared, pass "
            "enable_gqa=True.",
            grouped(ours, 2),
        ),
        (
            "key: expected a number of heads (dimension -3) that divides query's 6, got 4 in "
            "shape (1, 4, 7, 8). With enable_gqa each key head serves an equal group of query "
            "heads.",
            grouped(ours, 4, enable_gqa=True),
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
        (
            "head_dim: expected a number because num_heads=3 does not divide embed_dim=10, got "
            "None. Name the width of a head, which is free.",
            lambda: attnref.MultiHeadAttention(10, 3),
        ),
    ],
    "shapes/#transpose": [
        (
            "Expected size for first two dimensions of batch2 tensor to be: [6, 8] but got: "
            "[6, 7].",
            lambda: torch.zeros(6, 7, 8) @ torch.zeros(6, 7, 8),
        )
    ],
    "shapes/#batch-first": [
        ("was expecting embedding dimension of 24, but got 5", layer(WORDS.mT)),
        (
            "query: expected shape (..., length, embed_dim=24), got (2, 24, 5). Batches come "
            "first: a sequence-first tensor needs query.transpose(0, 1).",
            lambda: attnref.MultiHeadAttention(24, 3)(WORDS.mT),
        ),
    ],
    "shapes/#width": [
        (
            "mat1 and mat2 shapes cannot be multiplied (30x8 and 24x24)",
            lambda: nn.Linear(24, 24)(X),
        )
    ],
    "shapes/#not-fused": [("No available kernel. Aborting execution.", demanded_kernel)],
    "positions-and-cache/#bf16": [
        (
            "Expected query, key, and value to have the same dtype, but got query.dtype: float "
            "key.dtype: float and value.dtype: c10::BFloat16 instead.",
            lambda: sdpa(X, X, X.bfloat16()),
        ),
        (
            "value: expected torch.float32, the dtype of query, got torch.bfloat16. Convert one "
            "of them, for example value.to(query.dtype).",
            lambda: ours(X, X, X.bfloat16()),
        ),
    ],
    "positions-and-cache/#table": [
        ("index out of range in self", lambda: nn.Embedding(512, 8)(torch.arange(600))),
        (
            "length: expected at most 512 positions, the size of the learned table, got "
            "positions 0 to 599. Shorten the sequence, or train with a larger max_length; rotary "
            "and alibi have no such limit.",
            lambda: LearnedPositions(512, 8)(600),
        ),
    ],
    "positions-and-cache/#alignment": [
        (
            "alignment: expected 'top-left' or 'bottom-right' because n=1 differs from m=7, got "
            "None. For decoding with a cache choose 'bottom-right'; PyTorch's is_causal is "
            "'top-left'.",
            lambda: causal(1, 7),
        ),
        (
            "key: expected at least as many keys as queries, 5, got 1. The newest tokens are in "
            "the cache too: append their keys and values first.",
            lambda: kv_cache_attention(X, X[:, :, :1], X[:, :, :1]),
        ),
    ],
    "positions-and-cache/#append": [
        (
            "Sizes of tensors must match except in dimension 1. Expected size 6 but got size 1 "
            "for tensor number 1 in the list.",
            lambda: torch.cat([torch.zeros(1, 3, 6, 8), torch.zeros(1, 3, 1, 8)], dim=1),
        ),
        (
            "key: expected room for 1 more tokens after 5, got a cache of max_length=5. Make it "
            "larger, or let it grow: KVCache().",
            appended(X[:, :, :1]),
        ),
        (
            "key: expected (2, 3, n, 8) torch.float32 on cpu, as the cache holds, got "
            "(1, 3, n, 8) torch.float32 on cpu. One cache serves one layer and one batch: make "
            "a new KVCache for another.",
            appended(X[:1, :, :1], room=6),
        ),
        (
            "value: expected shape (2, 3, 7, 'd_v'), one row for each key, got (2, 3, 6, 8). "
            "Keys and values come in pairs: build both from the same sequence; only the last "
            "dimension may differ.",
            lambda: ours(X, KEYS, KEYS[:, :, :6]),
        ),
    ],
    "positions-and-cache/#gradients": [
        (
            "Trying to backward through the graph a second time (or directly access saved "
            "tensors after they have already been freed). Saved intermediate values of the graph "
            "are freed when you call .backward() or autograd.grad(). Specify retain_graph=True "
            "if you need to backward through the graph a second time or if you need to access "
            "saved tensors after calling backward.",
            kept_graph,
        ),
        (
            "one of the variables needed for gradient computation has been modified by an "
            "inplace operation: [torch.FloatTensor [4, 6]], which is output 0 of AsStrided, is "
            "at version 2; expected version 1 instead. Hint: enable anomaly detection to find "
            "the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False).",
            written_in_place,
        ),
        (
            "key: expected keys and values without gradients, because a preallocated cache is "
            "written in place, got requires_grad=True. Decode under torch.no_grad(), or let the "
            "cache grow: KVCache().",
            lambda: attnref.KVCache(max_length=5).append(X.clone().requires_grad_(), X),
        ),
    ],
}
QUOTED = [(place, *entry) for place, entries in MESSAGES.items() for entry in entries]
