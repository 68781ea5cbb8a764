"""A prompt in chunks: what each way reads."""

# --8<-- [start:example]
import torch
from attnref import cost

PROMPT = 8192
HEADS = {"d_k": 128, "d_v": 128, "num_heads": 32, "num_kv_heads": 8}

print("chunk   kernel reads   operations per byte")
for chunk in (1, 16, 128, 1024, 8192):
    total = cost.Cost()
    for begin in range(0, PROMPT, chunk):
        m = begin + chunk
        pairs = chunk * begin + chunk * (chunk + 1) // 2
        sizes = cost.Sizes(n=chunk, m=m, **HEADS, dtype=torch.bfloat16)
        total += cost.of("fused", sizes, pairs=pairs)
    read = total.bytes_read / 2**30
    print(f"{chunk:5}{read:10.2f} GiB{total.intensity:18.1f}")
# --8<-- [end:example]
