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


def call_masked(mask, attend=sdpa):
    return lambda: attend(X, KEYS, KEYS, attn_mask=mask)


def call_grouped(attend, key_heads, **options):
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


def append_call(key, room=5):
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


def write_in_place():
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


# anchor below pitfalls/: calls that are refused with a message quoted there
CALLS = {
    "masks/#half-precision": [lambda: X.half().masked_fill(torch.ones(5, 8, dtype=BOOL), -1e9)],
    "masks/#zero-one": [
        call_masked(torch.ones(5, 7, dtype=torch.long)),
        call_masked(torch.ones(5, 7, dtype=torch.long), ours),
        layer(key_padding_mask=torch.ones(2, 5, dtype=torch.long)),
        lambda: X.masked_fill(torch.ones(5, 8), 0),
        lambda: 1 - torch.ones(5, dtype=BOOL),
    ],
    "masks/#shape": [
        call_masked(torch.ones(2, 7, dtype=BOOL)),
        call_masked(torch.ones(2, 7, dtype=BOOL), ours),
    ],
    "masks/#layer": [
        layer(attn_mask=torch.zeros(2, 5, 5, dtype=BOOL)),
        layer(attn_mask=torch.zeros(5, 7, dtype=BOOL)),
        layer(is_causal=True),
    ],
    "masks/#causal-flag": [
        lambda: sdpa(
            X, KEYS, KEYS[..., :4], attn_mask=torch.ones(5, 7, dtype=BOOL), is_causal=True
        ),
        lambda: causal(5) & torch.ones(5, 5, dtype=BOOL),
        lambda: causal(5) and padding([1, 3], 5),
        lambda: sdpa(X, X, X, causal(5)),
    ],
    "masks/#window": [lambda: sliding_window(6, window=4)],
    "numerics/#nan": [softmax_of_nothing("query"), softmax_of_nothing("value")],
    "numerics/#axis": [implicit_dimension],
    "numerics/#scale": [
        lambda: sdpa(X, X, X, scale=torch.ones(3, 1, 1)),
        lambda: ours(X, X, X, scale=torch.ones(3, 1, 1)),
    ],
    "numerics/#dropout": [lambda: sdpa(X, X, X, dropout_p=10), lambda: ours(X, X, X, dropout_p=10)],
    "shapes/#grouped": [
        call_grouped(sdpa, 2),
        call_grouped(sdpa, 4, enable_gqa=True),
        call_grouped(ours, 2),
        call_grouped(ours, 4, enable_gqa=True),
    ],
    "shapes/#padding": [lambda: torch.stack([torch.zeros(3, 8), torch.zeros(5, 8)])],
    "shapes/#heads": [
        lambda: X.transpose(1, 2).view(2, 5, 24),
        lambda: torch.zeros(1, 5, 24).view(1, 5, 5, 8),
        lambda: nn.MultiheadAttention(10, 3),
        lambda: attnref.MultiHeadAttention(10, 3),
    ],
    "shapes/#transpose": [lambda: torch.zeros(6, 7, 8) @ torch.zeros(6, 7, 8)],
    "shapes/#batch-first": [layer(WORDS.mT), lambda: attnref.MultiHeadAttention(24, 3)(WORDS.mT)],
    "shapes/#width": [lambda: nn.Linear(24, 24)(X)],
    "shapes/#not-fused": [demanded_kernel],
    "positions-and-cache/#bf16": [
        lambda: sdpa(X, X, X.bfloat16()),
        lambda: ours(X, X, X.bfloat16()),
    ],
    "positions-and-cache/#table": [
        lambda: nn.Embedding(512, 8)(torch.arange(600)),
        lambda: LearnedPositions(512, 8)(600),
    ],
    "positions-and-cache/#alignment": [
        lambda: causal(1, 7),
        lambda: kv_cache_attention(X, X[:, :, :1], X[:, :, :1]),
    ],
    "positions-and-cache/#append": [
        lambda: torch.cat([torch.zeros(1, 3, 6, 8), torch.zeros(1, 3, 1, 8)], dim=1),
        append_call(X[:, :, :1]),
        append_call(X[:1, :, :1], room=6),
        lambda: ours(X, KEYS, KEYS[:, :, :6]),
    ],
    "positions-and-cache/#gradients": [
        kept_graph,
        write_in_place,
        lambda: attnref.KVCache(max_length=5).append(X.clone().requires_grad_(), X),
    ],
}


def message(place, provoke):
    """The message of a call, on one line."""
    try:
        provoke()
    except Exception as error:
        return " ".join(str(error).split())
    return f"(no message at {place})"


QUOTED = [
    (place, message(place, provoke), provoke) for place, calls in CALLS.items() for provoke in calls
]
