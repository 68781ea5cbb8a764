"""What the checker says of attention with a sink, and without one."""

# --8<-- [start:example]
from functools import partial

from attnref import blockwise_attention, check

for sink in (None, 0.0):
    report = check(partial(blockwise_attention, sink=sink), limit=None)
    print(f"sink={sink}:", report.verdict())
# --8<-- [end:example]
