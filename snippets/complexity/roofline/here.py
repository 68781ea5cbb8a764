"""The roofline of the machine that runs this, measured."""

# --8<-- [start:example]
import sys
import time

import torch
from attnref import cost
from attnref.roofline import Machine


def seconds(run, times=5):
    """The shortest of several runs."""
    run()  # warm up
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken)


size = 1024
a, b = torch.ones(size, size), torch.ones(size, size)
long, copy = torch.ones(2**24), torch.empty(2**24)  # larger than most caches
here = Machine(
    "this machine",
    {torch.float32: 2 * size**3 / seconds(lambda: a @ b)},
    bytes_per_second=2 * long.nbytes / seconds(lambda: copy.copy_(long)),
)
print(here, file=sys.stderr)  # differs from machine to machine

for name, n in {"prefill": 4096, "decoding": 1}.items():
    spent = cost.of("fused", cost.Sizes(n=n, m=4096, d_k=128, d_v=128))
    found = here.roofline(spent, dtype=torch.float32)
    print(f"{name}: {found.intensity:.4g} operations per byte, {found.bound}")
# --8<-- [end:example]
