"""What has more to do than to call a method as its record says: a layer, and a cache that grows."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

from attnref.bench.methods import Registry
from attnref.bench.problems import Problem
from attnref.cache import KVCache
from attnref.multihead import MultiHeadAttention
from attnref.variants.kv_cache import kv_cache_attention

cases = Registry()

Run = Callable[[], Tensor]


@cases.case("multihead", "layer", defined=("attnref.multihead", "MultiHeadAttention"))
def multihead(problem: Problem) -> Run:
    assert problem.layer is not None
    layer = MultiHeadAttention.from_torch(problem.layer, attention=F.scaled_dot_product_attention)
    return lambda: layer(problem.query)


@cases.case("kv_cache", "decode")
def kv_cache(problem: Problem) -> Run:
    # One step: the last token joins those that are there, and is taken away for the next call.
    query, past = problem.query, problem.key.shape[-2] - 1
    cache = KVCache(max_length=past + 1)
    cache.append(problem.key[..., :past, :].detach(), problem.value[..., :past, :].detach())
    key, value = problem.key[..., past:, :], problem.value[..., past:, :]

    def run() -> Tensor:
        cache.length = past
        keys, values = cache.append(key, value)
        return kv_cache_attention(query, keys, values, enable_gqa=True)

    return run
