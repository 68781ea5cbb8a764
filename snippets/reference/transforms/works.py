"""Which of PyTorch's transforms each function takes, with equal numbers."""

# --8<-- [start:example]
from functools import partial

import attnref
import torch
from torch import func

n, d = 8, 4
generator = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


NEEDS = {  # what each function is given besides query, key and value
    "scaled_dot_product": {},
    "blockwise": {},
    "sliding_window": {"window": 3},
    "varlen": {"cu_seqlens": torch.tensor([0, 3, n])},
    "block_sparse": {"layout": torch.ones(2, 2).bool(), "block_size": 4},
    "kv_cache": {},
    "linear": {},
    "performer": {"projection": normal(6, d)},
    "linformer": {"key_projection": normal(5, n)},
    "nystrom": {"num_landmarks": 4},
    "hierarchical": {"block_size": 2, "num_means": 1},
    "lsh": {"rotations": normal(1, d, 2), "chunk_size": 2},
    "topk": {"count": 3},
    "quantized": {},
}
NEEDS["linformer"]["value_projection"] = NEEDS["linformer"]["key_projection"]
inputs = normal(3, 2, 2, n, d).unbind()  # of two sequences with two heads
along = normal(3, 2, 2, n, d).unbind()  # a direction for derivatives


def compiled(attend):
    torch.compiler.reset()
    return torch.compile(attend, fullgraph=True, backend="aot_eager")(*inputs)


def exported(attend):
    class Program(torch.nn.Module):
        def forward(self, query, key, value):
            return attend(query, key, value)

    return torch.export.export(Program(), inputs).module()(*inputs)


def within_autocast(attend):
    """On float32, which autocast makes bfloat16 wherever it is allowed to."""
    needs = {
        name: need.float() if need.is_floating_point() else need
        for name, need in attend.keywords.items()
        if torch.is_tensor(need)
    }
    with torch.autocast("cpu"):
        return attend(*(x.float() for x in inputs), **needs).double()


def without_records(attend):
    with torch.inference_mode():
        return attend(*inputs)


def deterministic(attend):
    torch.use_deterministic_algorithms(True)
    try:
        return attend(*inputs)
    finally:
        torch.use_deterministic_algorithms(False)


def loss(attend, *inputs):
    return attend(*inputs).square().sum()


def gradients(attend, *inputs):
    return torch.stack(func.grad(partial(loss, attend), (0, 1, 2))(*inputs))


def jvp(function):
    """The derivative along the direction, forwards."""
    return func.jvp(function, inputs, along)[1]


def slope(function, step=1e-5):
    """The same by a difference quotient."""
    ahead, behind = (
        function(*(x + t * dx for x, dx in zip(inputs, along, strict=True)))
        for t in (step, -step)
    )
    return (ahead - behind) / (2 * step)


def second(attend):
    """The gradient's own derivative, as a gradient penalty asks for it."""
    back = func.vjp(partial(gradients, attend), *inputs)[1]
    return (torch.stack(back(torch.stack(along))) * torch.stack(along)).sum()


# Each transform beside what it should give.
TRANSFORMS = {
    "compile": lambda f: (compiled(f), f(*inputs)),
    "export": lambda f: (exported(f), f(*inputs)),
    "vmap": lambda f: (func.vmap(f)(*inputs), f(*inputs)),
    "grad": lambda f: (
        (gradients(f, *inputs) * torch.stack(along)).sum(),
        slope(partial(loss, f)),
    ),
    "jvp": lambda f: (jvp(f), slope(f)),
    "second": lambda f: (
        second(f),
        (slope(partial(gradients, f)) * torch.stack(along)).sum(),
    ),
    "autocast": lambda f: (within_autocast(f), f(*inputs)),
    "infer.": lambda f: (without_records(f), f(*inputs)),
    "determ.": lambda f: (deterministic(f), f(*inputs)),
}


def verdict(transform, attend):
    try:
        got, expected = transform(attend)
    except Exception:  # whatever PyTorch or attnref raises
        return "no"
    return (
        "yes" if torch.allclose(got, expected, rtol=1e-5, atol=1e-6) else "no"
    )


print(" " * 18, *TRANSFORMS)
for name, needs in NEEDS.items():
    attend = partial(getattr(attnref, f"{name}_attention"), **needs)
    verdicts = (
        f"{verdict(ask, attend):{len(asked)}}"
        for asked, ask in TRANSFORMS.items()
    )
    print(f"{name:18}", *verdicts)
# --8<-- [end:example]
