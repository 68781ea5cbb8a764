"""How many steps follow one another, if nothing else ever waits."""

# --8<-- [start:example]
from attnref import cost


def after(*steps):
    """One operation: its result is ready one step after its inputs."""
    return max(steps) + 1


def tree(steps):
    """A sum or a maximum: of pairs, then of pairs of pairs."""
    while len(steps) > 1:
        pairs = zip(steps[::2], steps[1::2], strict=True)
        steps = [after(*pair) for pair in pairs]
    return steps[0]


def dot(x, y, size):
    return tree([after(x, y)] * size)


def attention(n, d):  # all n² scores are ready at the same step
    score = after(dot(0, 0, d))  # the product, then the scale
    top = tree([score] * n)
    power = after(after(score, top))  # subtract, then the exponential
    weight = after(power, tree([power] * n))
    return dot(weight, 0, n)


def recurrence(n, d):  # state = tanh(W @ state + word)
    state = 0
    for _ in range(n):
        state = after(after(dot(0, state, d), 0))
    return state


d = 64
print("       attention               recurrence")
print("    n  million operations  depth  million operations  depth")
for n in (16, 256, 4096):
    sizes = cost.Sizes(n=n, m=n, d_k=d, d_v=d)
    work = cost.of("plain", sizes).operations.total
    steps = n * (2 * d**2 + 2 * d)
    print(
        f"{n:5}  {work / 1e6:18.2f}  {attention(n, d):5}  "
        f"{steps / 1e6:18.2f}  {recurrence(n, d):5}"
    )
# --8<-- [end:example]
