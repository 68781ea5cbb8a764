"""Chosen keys are the definition under the mask that was chosen."""

# --8<-- [start:example]
import attnref
import torch
from attnref import indexer_choice, moba_choice, native_sparse_choice
from attnref.minimal.indexer import causal_indexer_attention
from attnref.minimal.moba import causal_moba_attention
from attnref.minimal.native_sparse import causal_native_sparse_attention

n, d, h, B = 96, 16, 4, 8
generator = torch.Generator().manual_seed(0)


def drawn(*shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


qkv = query, key, value = [drawn(h, n, d) for _ in range(3)]
index = drawn(2, n, d), drawn(n, d), drawn(2, n)
second = torch.tensor([0.0, 1.0, 0.0]).expand(n, 3).double()  # gates


def by_all_three(blocks, tokens):
    causal = {"is_causal": True}
    chosen = {"block_size": B, "num_blocks": blocks}
    yield (
        "moba",
        causal_moba_attention(*qkv, **chosen),
        moba_choice(query, key, **chosen, **causal),
    )
    yield (
        "indexer",
        causal_indexer_attention(*qkv, *index, num_keys=tokens),
        indexer_choice(*index, num_keys=tokens, **causal),
    )
    yield (
        "native_sparse",
        causal_native_sparse_attention(*qkv, second, window=1, **chosen),
        native_sparse_choice(query, key, **chosen),
    )


exact = attnref.scaled_dot_product_attention(*qkv, is_causal=True)
print("               from the mask's   from causal attention")
for blocks, tokens in ((4, 32), (n // B, n)):
    for name, output, mask in by_all_three(blocks, tokens):
        masked = attnref.scaled_dot_product_attention(*qkv, mask)
        same = (output - masked).abs().max() < 1e-12
        off = (output - exact).norm() / exact.norm()
        print(f"{name:14} {'< 1e-12' if same else 'differs':>15}", end="")
        print(f"   {'< 1e-12' if off < 1e-12 else f'{off:.4f}':>21}")
    print()
# --8<-- [end:example]
