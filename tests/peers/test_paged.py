"""Caches in pages of others, which run on a processor, as judges of ours.

PyTorch's own ``varlen_attn(block_table=…)`` has no kernel for a processor and is not asked.
"""

import math
from types import SimpleNamespace

import pytest
import torch
from torch.nn.attention.experimental._paged_attention import PagedAttention
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from attnref import PagedCache, paged_attention

HEADS, KEY_HEADS, D, PAGES, SIZE = 6, 2, 10, 23, 16
# Both are float32 attention over at most 70 keys: as many roundings of outputs about 1.
CLOSE = {"rtol": 0, "atol": 70 * 2**-24}


def normal(*shape, generator):
    return torch.randn(*shape, generator=generator, dtype=torch.float32, device="cpu")


@pytest.fixture
def generator():
    return torch.Generator("cpu").manual_seed(0)


def ours(query, sequences):
    """Written token by token in turn, so that the pages of all lie between each other."""
    cache = PagedCache(PAGES, SIZE)
    handles = [cache.start() for _ in sequences]
    for j in range(max(key.shape[1] for key, _ in sequences)):
        for handle, (key, value) in zip(handles, sequences, strict=True):
            handle.append(key[:, j : j + 1], value[:, j : j + 1])
    table, lengths = cache.block_table(handles)
    return paged_attention(query, cache.keys, cache.values, table, lengths, enable_gqa=True)


@pytest.mark.claim("paged-judged-by-others")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("n", [1, 3])
def test_the_pages_of_flex_attention(n, generator):
    sizes = torch.tensor([37, 5, 64])
    sequences = [
        tuple(normal(KEY_HEADS, m, D, generator=generator) for _ in range(2)) for m in sizes
    ]
    query = normal(3, HEADS, n, D, generator=generator)
    pages = PagedAttention(PAGES, SIZE, 3, device="cpu")
    keys, values = (torch.zeros(1, KEY_HEADS, PAGES * SIZE, D) for _ in range(2))
    for number, (m, (key, value)) in enumerate(zip(sizes, sequences, strict=True)):
        pages.reserve(torch.tensor(number), m)
        place = torch.arange(int(m))[None]
        pages.assign(torch.tensor([number]), place, key[None], value[None], keys, values)

    def causal(b, h, i, j):
        return j <= sizes[b] - n + i

    mask = create_block_mask(causal, 3, None, n, 64, device="cpu", BLOCK_SIZE=(n, SIZE))
    mask = pages.convert_logical_block_mask(mask, kv_len=sizes)
    theirs = flex_attention(query, keys, values, block_mask=mask, enable_gqa=True)
    torch.testing.assert_close(ours(query, sequences), theirs, **CLOSE)


@pytest.mark.claim("paged-judged-by-others")
def test_the_continuous_batching_of_transformers(generator):
    """Its own cache and its eager attention, over two prompts and two steps."""
    transformers = pytest.importorskip("transformers")
    from transformers.generation.continuous_batching.cache import PagedAttentionCache
    from transformers.generation.continuous_batching.distributed import DistributedHelper
    from transformers.integrations.eager_paged import eager_paged_attention_forward

    config = transformers.LlamaConfig(
        hidden_size=HEADS * D,
        head_dim=D,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        num_hidden_layers=1,
    )
    batching = transformers.ContinuousBatchingConfig(
        page_size=SIZE, num_blocks=PAGES, max_batch_tokens=128, max_memory_percent=0.5
    )
    helper = DistributedHelper(None, None)
    pool = PagedAttentionCache(config, batching, "cpu", helper, dtype=torch.float32)
    allocator = pool.layer_to_allocator[0]
    module = SimpleNamespace(layer_idx=0, num_key_value_groups=HEADS // KEY_HEADS)
    texts = {"a": (), "b": ()}

    def step(names, n):
        """The n next tokens of each text; what is compared is the outputs of all of them."""
        query, key, value = (
            normal(len(names), heads, n, D, generator=generator)
            for heads in (HEADS, KEY_HEADS, KEY_HEADS)
        )
        writes, reads, ends, masks = [[]], [[]], [0], []
        for row, name in enumerate(names):
            past = texts[name][0].shape[1] if texts[name] else 0
            for _ in range(allocator.needs_new_sectors(name, past, n)):
                pool.pool.allocate_sector(allocator.index)
            allocator.allocate_cache_to_request(name, past, n)
            pool.extend_read_and_write_indices(name, past, n, reads, writes)
            ends.append(ends[-1] + past + n)
            masks.append(torch.ones(n, past + n).tril(past).bool())
            new = key[row], value[row]
            old = texts[name] or (new[0][:, :0], new[1][:, :0])
            texts[name] = tuple(torch.cat(pair, 1) for pair in zip(old, new, strict=True))
        allowed = torch.block_diag(*masks).bool()
        theirs, _ = eager_paged_attention_forward(
            module,
            *(x.transpose(0, 1).flatten(1, 2)[None] for x in (query, key, value)),
            torch.zeros(allowed.shape).masked_fill(~allowed, -math.inf)[None, None],
            D**-0.5,
            cache=pool,
            read_index=[torch.tensor(reads[0])],
            write_index=[torch.tensor(writes[0])],
            cu_seq_lens_k={allocator.layer_type: torch.tensor(ends)},
            max_length_k={allocator.layer_type: ends[-1]},
        )
        theirs = theirs[0].unflatten(0, (len(names), n)).transpose(1, 2)
        held = [texts[name] for name in names]
        torch.testing.assert_close(ours(query, held), theirs, **CLOSE)

    step(["a"], 33)
    step(["b"], 5)
    step(["a", "b"], 13)
    step(["b", "a"], 1)
