"""Which query head reads which key head: multi-head, grouped and multi-query attention."""

import torch

import attnref
from attnref import KVCache, MultiHeadAttention
from docs.figures.drawing import GROUND, INK, SHADE, SMALL, box, canvas, new_figure

TEXT = {
    "pt": {
        "titles": "multicabeça|agrupada|multiconsulta",
        "queries": "consultas",
        "keys": "chaves e valores",
        "cache": "cache: {numbers} números por token",
    },
    "en": {
        "titles": "multi-head|grouped|multi-query",
        "queries": "queries",
        "keys": "keys and values",
        "cache": "cache: {numbers} numbers per token",
    },
}

HEADS, D_K, STEP = 6, 4, 44


def key_head_indices(kv_heads):
    """Which key head each query head reads: the values say their own head's number."""
    query, key = torch.zeros(HEADS, 1, 1), torch.zeros(kv_heads, 1, 1)
    value = torch.arange(kv_heads, dtype=query.dtype)[:, None, None]  # (kv_heads, 1, 1)
    read = attnref.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    return read.flatten().long().tolist()


def cached_numbers(kv_heads):
    generator = torch.Generator().manual_seed(0)
    layer = MultiHeadAttention(HEADS * D_K, HEADS, num_kv_heads=kv_heads, generator=generator)
    cache = KVCache()
    word = torch.zeros(1, HEADS * D_K)
    layer(word, is_causal=True, cache=cache)
    return cache.nbytes // word.itemsize


def draw(text):
    figure = new_figure(390)
    plane = canvas(figure)
    centred = {"ha": "center", "va": "center", "fontsize": SMALL}
    for index, (kv_heads, title) in enumerate(
        zip((HEADS, 2, 1), text["titles"].split("|"), strict=True)
    ):
        top = 14 + 132 * index
        plane.text(8, top, title, va="center", fontweight="semibold")
        plane.text(
            412,
            top,
            text["cache"].format(numbers=cached_numbers(kv_heads)),
            ha="right",
            va="center",
            fontsize=SMALL,
        )
        plane.text(8, top + 30, text["queries"], va="center", fontsize=SMALL)
        plane.text(8, top + 88, text["keys"], va="center", fontsize=SMALL)
        left = 126 + STEP / 2
        for head, key in enumerate(key_head_indices(kv_heads)):
            group = HEADS // kv_heads
            across = left + STEP * (key * group + (group - 1) / 2)
            place = left + STEP * head
            plane.plot([place, across], [top + 40, top + 77], color=INK, linewidth=1)
        for head in range(HEADS):
            place = left + STEP * head
            plane.plot([place], [top + 30], "o", color=INK, markerfacecolor=GROUND, markersize=20)
            plane.text(place, top + 30, str(head), **centred)
        for key in range(kv_heads):
            group = HEADS // kv_heads
            across = left + STEP * (key * group + (group - 1) / 2)
            box(plane, across - 14, top + 77, 28, 22, fill=SHADE, alpha=0.35)
            plane.text(across, top + 88, str(key), **centred)
    return figure
