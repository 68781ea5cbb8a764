"""Nine ways, one function: what PyTorch does for each of them on a CPU."""

# --8<-- [start:example]
import importlib
import warnings
from collections import Counter

import torch
from torch.profiler import profile

b, n, h, d = 2, 256, 8, 32
generator = torch.Generator().manual_seed(0)
x = torch.randn(b, n, h * d, generator=generator)
w_qkv = torch.randn(h * d, 3 * h * d, generator=generator) / 16
w_o = torch.randn(h * d, h * d, generator=generator) / 16
products = ("aten::mm", "aten::bmm", "aten::baddbmm")
fused = "aten::_scaled_dot_product_flash_attention_for_cpu"

warnings.simplefilter("ignore")  # FlexAttention says that it is not compiled
print("way             products  softmax  fused  largest tensor")
for way in (
    *("loop", "stacked", "fused", "einsum", "sdpa_mask", "sdpa_causal"),
    *("flex", "module", "module_weights"),
):
    attention = importlib.import_module(way).attention
    with torch.no_grad(), profile(profile_memory=True) as recorded:
        attention(x, w_qkv, w_o, h)
    events = recorded.events()
    done = Counter(event.name for event in events)
    largest = max(event.self_cpu_memory_usage for event in events) // 4
    print(
        f"{way:14}  {sum(done[name] for name in products):8}"
        f"  {done['aten::_softmax']:7}  {done[fused]:5}  {largest:14}"
    )
print(f"all scores: {b * h * n * n}", end="   ")
print(f"queries, keys and values: {3 * b * n * h * d}")
# --8<-- [end:example]
