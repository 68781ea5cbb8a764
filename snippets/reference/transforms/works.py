"""Which of PyTorch's transforms each method takes, with equal numbers."""

# --8<-- [start:example]
from functools import partial

import torch
from attnref import reference, variants
from attnref.record import Example
from torch import func

generator = torch.Generator().manual_seed(0)
methods = {"scaled_dot_product": reference.METHOD, **variants.records()}


class Case:
    """One call of a method, for three sequences of two heads."""

    def __init__(self, method):
        tokens = torch.randn(
            3, 3, 2, 8, 4, generator=generator, dtype=torch.float64
        )
        given = method.arguments(Example(*tokens, generator=generator))
        self.floats = {
            name: x
            for name, x in given.items()
            if torch.is_tensor(x) and x.is_floating_point()
        }
        self.rest = {
            name: x for name, x in given.items() if name not in self.floats
        }
        self.along = {  # a direction for all that has derivatives
            name: torch.randn(x.shape, generator=generator, dtype=x.dtype)
            for name, x in self.floats.items()
            if name not in method.constants
        }
        self.attend = partial(method.function, **self.rest)

    def __call__(self, changed=None):
        return self.attend(**(self.floats | (changed or {})))

    def loss(self, changed):
        return self(changed).square().sum()

    def along_gradient(self, function, changed):
        found = func.grad(function)(changed)
        return sum((found[name] * dx).sum() for name, dx in self.along.items())

    def gradient(self, changed):
        return self.along_gradient(self.loss, changed)

    def second(self, changed):
        return self.along_gradient(self.gradient, changed)

    def moved(self, t):
        return {
            name: self.floats[name] + t * dx for name, dx in self.along.items()
        }

    def slope(self, function, step=1e-5):
        """The derivative of a function along the direction, as a quotient."""
        ahead, behind = (function(self.moved(t)) for t in (step, -step))
        return (ahead - behind) / (2 * step)

    def jvp(self, function):
        return func.jvp(function, (self.moved(0),), (self.along,))[1]


def compiled(case):
    torch.compiler.reset()
    compiled = torch.compile(case.attend, fullgraph=True, backend="aot_eager")
    return compiled(**case.floats)


def exported(case):
    class Program(torch.nn.Module):
        def forward(self, floats):
            return case(floats)

    program = torch.export.export(Program(), (case.floats,)).module()
    return program(case.floats)


def mapped(case):
    axes = {
        name: 0 if len(x) == 3 and x.ndim > 1 else None  # or of no sequence
        for name, x in case.floats.items()
    }
    return func.vmap(case, (axes,))(case.floats)


def within_autocast(case):
    """On float32, which autocast makes bfloat16 wherever it is allowed to."""
    narrow = {name: x.float() for name, x in case.floats.items()}
    with torch.autocast("cpu"):
        return case(narrow).double()


def without_records(case):
    with torch.inference_mode():
        return case()


def deterministic(case):
    torch.use_deterministic_algorithms(True)
    try:
        return case()
    finally:
        torch.use_deterministic_algorithms(False)


# Each transform beside what it should give.
TRANSFORMS = {
    "compile": lambda case: (compiled(case), case()),
    "export": lambda case: (exported(case), case()),
    "vmap": lambda case: (mapped(case), case()),
    "grad": lambda case: (case.gradient(case.moved(0)), case.slope(case.loss)),
    "jvp": lambda case: (case.jvp(case), case.slope(case)),
    "second": lambda case: (
        case.second(case.moved(0)),
        case.slope(case.gradient),
    ),
    "autocast": lambda case: (within_autocast(case), case()),
    "infer.": lambda case: (without_records(case), case()),
    "determ.": lambda case: (deterministic(case), case()),
}


def verdict(transform, case):
    try:
        got, expected = transform(case)
    except Exception:  # whatever PyTorch or attnref raises
        return "no"
    return (
        "yes" if torch.allclose(got, expected, rtol=1e-5, atol=1e-6) else "no"
    )


print(" " * 18, *TRANSFORMS)
for name, method in methods.items():
    case = Case(method)
    verdicts = (
        f"{verdict(ask, case):{len(asked)}}"
        for asked, ask in TRANSFORMS.items()
    )
    print(f"{name:18}", *verdicts)
# --8<-- [end:example]
