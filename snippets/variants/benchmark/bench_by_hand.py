"""The benchmark called from Python: errors first, times only looked at."""

# --8<-- [start:example]
from attnref.bench.plan import Settings
from attnref.bench.runner import measure

methods = ["sdpa", "blockwise", "quantized", "linear"]
record = measure(
    Settings(
        tasks=["dense"],
        methods=methods,
        lengths=[512],
        heads=2,
        repeats=1,
        budget=10.0,
    )
)
print("method     error below  time and memory measured")
for result in sorted(record.results, key=lambda result: result.error):
    power = next(p for p in (-6, -2, 0) if result.error < 10.0**p)
    measured = result.median > 0 and result.peak_bytes > 0
    print(f"{result.method:10} {f'10^{power}':>11}  {measured}")
# --8<-- [end:example]
