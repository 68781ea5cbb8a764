"""How much of a padded batch of 32 sequences is real, and what it holds."""

# --8<-- [start:example]
from attnref import cost

batches = {
    "all of 512": [512] * 32,
    "16, 32, …, 512": list(range(16, 513, 16)),
    "one of 512, 31 of 32": [512] + [32] * 31,
    "one of 1024, 31 of 32": [1024] + [32] * 31,
}

print("                         really used        held, in MiB")
print("lengths                  tokens  scores      X  scores")
for name, lengths in batches.items():
    tokens, scores = cost.useful_share(lengths)
    n = max(lengths)
    sizes = cost.Sizes(n=n, m=n, d_k=64, d_v=64, batch=32, num_heads=12)
    x = 32 * n * 768 * 4  # float32, d_model = 12 heads of 64
    print(
        f"{name:23}  {tokens:6.1%}  {scores:6.1%}"
        f"  {x / 2**20:5.0f}  {sizes.score_bytes / 2**20:6.0f}"
    )
# --8<-- [end:example]
