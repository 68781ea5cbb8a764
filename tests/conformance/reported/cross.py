"""Cross-attention, from public reports."""

import torch.nn.functional as F


# huggingface/transformers#46111 (2026): the cache of the encoder's keys is made with the decoder's
# sliding window, and keeps only the last of them; right: all keys of the encoder.
def bad_window(query, key, value, sliding_window=8):
    return F.scaled_dot_product_attention(
        query, key[..., -sliding_window:, :], value[..., -sliding_window:, :]
    )


def good_window(query, key, value, sliding_window=8):
    return F.scaled_dot_product_attention(query, key, value)
