"""Operations against causal softmax attention, and a step of decoding."""

# --8<-- [start:example]
import torch
from attnref import cost

d = 128
kinds = {
    "decay": {"beta": False},
    "gate": {"beta": False, "log_decay": "component"},
    "decay, beta": {},
    "gate, beta": {"log_decay": "component"},
}
print("products, as a share of those of causal softmax attention")
print("     n" + "".join(f"{name:>13}" for name in kinds))
for n in (256, 512, 1024, 8192, 65536):
    sizes = cost.Sizes(n=n, m=n, d_k=d, d_v=d)
    pairs = cost.allowed_pairs(n, n, window=(None, 0))
    softmax = cost.of("fused", sizes, pairs=pairs).operations.matmul
    shares = [
        cost.of("gated_delta", sizes, **kind).operations.matmul / softmax
        for kind in kinds.values()
    ]
    print(f"{n:6}" + "".join(f"{share:13.3f}" for share in shares))

print("\nbytes moved by a step in bfloat16, per head")
for m in (128, 512, 65536):
    sizes = cost.Sizes(n=1, m=m, d_k=d, d_v=d, dtype=torch.bfloat16)
    cache = cost.of("fused", sizes).bytes_moved
    state = cost.of("gated_delta", sizes, block_size=None).bytes_moved
    print(f"m = {m:5}: {cache:9}, {state:7}")
# --8<-- [end:example]
