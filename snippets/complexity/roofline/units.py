"""The time for products, exponentials and traffic on two GPUs."""

# --8<-- [start:example]
import torch
from attnref import cost
from attnref.roofline import Machine

half = torch.bfloat16
machines = [
    Machine("H100", {half: 989e12}, 3.35e12, exponentials_per_second=3.9e12),
    # A multiprocessor does 8192 operations or 16 exponentials in a cycle.
    Machine(
        "B200",
        {half: 2.25e15},
        8e12,
        exponentials_per_second=2.25e15 * 16 / 8192,
    ),
]
print("        d  products     exp  memory  in turn  at once  limit")
for machine in machines:
    for d in (64, 128, 256):
        heads = 2048 // d
        sizes = cost.Sizes(
            n=8192, m=8192, d_k=d, d_v=d, num_heads=heads, dtype=half
        )
        # Whoever reads keys again is served by a cache.
        spent = cost.of("fused", sizes)
        found = machine.roofline(spent, dtype=half)
        one_by_one = sum(found.parts.values())
        milliseconds = [*found.parts.values(), one_by_one, found.seconds]
        products, exp, memory, in_turn, at_once = (
            s * 1e3 for s in milliseconds
        )
        print(
            f"{machine.name}  {d:3}  {products:5.2f} ms  {exp:6.2f}"
            f"  {memory:6.2f}  {in_turn:7.2f}  {at_once:7.2f}  {found.bound}"
        )
# --8<-- [end:example]
