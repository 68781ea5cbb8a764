"""Which share of a layer is quadratic, and what doubling the text costs."""

# --8<-- [start:example]
from attnref import cost

width, heads = 768, 12


def products(n):
    """Operations in products: of the core, and around it."""
    d = width // heads
    sizes = cost.Sizes(n=n, m=n, d_k=d, d_v=d, num_heads=heads)
    around = cost.multihead(sizes, width, cost.Cost())
    around += cost.feedforward(n, width, 4 * width)
    return cost.of("plain", sizes).operations.matmul, around.operations.matmul


print("    n     n/D  share of the core  n/(n + 6D)  twice the text")
for n in (128, 512, 1536, 4608, 16_384, 65_536):
    core, around = products(n)
    share, law = core / (core + around), n / (n + 6 * width)
    growth = sum(products(2 * n)) / (core + around)
    print(
        f"{n:5}  {n / width:6.2f}  {share:17.1%}  {law:10.1%}  "
        f"{growth:8.2f} times"
    )
# --8<-- [end:example]
