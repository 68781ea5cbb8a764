"""What is held besides the inputs: the table of all pairs, or a vector."""

# --8<-- [start:example]
from attnref import cost

print("            with the table      by distance")
print("      n     peak      read     peak     read  MiB")
for n in (1024, 4096, 16384):
    sizes = cost.Sizes(n=n, m=n, d_k=64, d_v=64, num_heads=12)
    row = []
    for table in (True, False):
        spent = cost.of("distance_bias", sizes, table=table)
        row += [spent.peak_bytes / 2**20, spent.bytes_read / 2**20]
    print(f"{n:7} {row[0]:8.0f} {row[1]:9.0f} {row[2]:8.0f} {row[3]:8.0f}")
# --8<-- [end:example]
