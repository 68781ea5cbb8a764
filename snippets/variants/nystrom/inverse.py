"""What the iteration does to large and to small singular values."""

# --8<-- [start:example]
print("after    x = 1e-1    x = 1e-2    x = 1e-3    x = 1e-4")
rests = [1 - x for x in (1e-1, 1e-2, 1e-3, 1e-4)]
for step in range(13):
    if step in (0, 1, 2, 4, 6, 8, 12):
        row = "".join(f"{1 - rest:12.4f}" for rest in rests)
        print(f"{step:2} steps{row}")
    rests = [(3 * rest**3 + rest**4) / 4 for rest in rests]
# --8<-- [end:example]
