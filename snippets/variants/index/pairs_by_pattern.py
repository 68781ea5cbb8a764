"""How many pairs each exact pattern computes as the sequence grows."""

# --8<-- [start:example]
from attnref import masks

print("length     all pairs      causal  window 256  dyadic  packed by 512")
for n in (1024, 4096, 16384):
    counts = (
        n * n,
        masks.causal(n).count(),
        masks.sliding_window(n, window=256, is_causal=True).count(),
        masks.dyadic(n).count(),
        n // 512 * 512**2,
    )
    pairs, causal, window, dyadic, packed = counts
    print(
        f"{n:6}  {pairs:12}  {causal:10}  {window:10}  {dyadic:6}  {packed:13}"
    )
# --8<-- [end:example]
