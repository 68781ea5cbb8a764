"""Who is asked: the package's variants, PyTorch's own kernels, and peers.

Every variant is measured in the tasks that its record names, and called as that says; what is
done before the call, such as drawing a projection, is not timed. Beside them are the entries of
``cases``, which have more to do, of ``pytorch`` and of ``peers``, each of these with the package
that it needs.
"""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnref import book, record, variants
from attnref.bench.problems import Problem

CASES = "attnref.bench.cases"

# Given a problem, does what is not to be timed (modules, masks, compilation) and returns the rest.
Prepare = Callable[[Problem], Callable[[], Tensor]]


@dataclass
class Method:
    """A name, how it is called for each task, and where it comes from.

    ``defined`` is the module and the function whose code is fingerprinted, with that of the
    functions ``called`` in the module ``caller``, None for what is not ours; ``needs`` is the
    distribution to install, and ``imports`` the module that it brings.
    """

    name: str
    cases: dict[str, Prepare] = field(default_factory=dict)
    defined: tuple[str, str] | None = None
    called: list[str] = field(default_factory=list)
    caller: str = CASES
    needs: str | None = None
    imports: str | None = None

    def missing(self) -> str | None:
        """Why it cannot be called here, or None."""
        if self.imports is None or importlib.util.find_spec(self.imports) is not None:
            return None
        return f"{self.needs} is not installed. {book.install('peers')}"


class Registry:
    """Entries under construction: what the decorators of these modules fill."""

    def __init__(self) -> None:
        self.methods: dict[str, Method] = {}

    def case(
        self,
        name: str,
        *tasks: str,
        needs: str | None = None,
        imports: str | None = None,
        defined: tuple[str, str] | None = None,
    ) -> Callable[[Prepare], Prepare]:
        """Registers the decorated function as the way to call ``name`` for these tasks."""
        method = self.methods.setdefault(
            name, Method(name, defined=defined, needs=needs, imports=imports)
        )

        def register(prepare: Prepare) -> Prepare:
            method.cases.update(dict.fromkeys(tasks, prepare))
            if prepare.__module__ == CASES:
                method.called.append(prepare.__name__)
            return prepare

        return register


def discover(entries: Mapping[str, Method]) -> dict[str, Method]:
    """All variants, called as their records say or as their entries do, and the other entries."""
    found = {}
    for name, known in variants.records().items():
        place, example = f"{variants.__name__}.{name}", known.example.__name__
        found[name] = Method(
            name,
            {task: record_case(known) for task in known.tasks},
            (place, known.function.__name__),
            [example] if known.example.__module__ == place else [],
            place,
        )
        if name in entries:
            found[name].cases |= entries[name].cases
            found[name].called, found[name].caller = entries[name].called, entries[name].caller
    return found | {name: method for name, method in entries.items() if name not in found}


def record_case(method: record.Method) -> Prepare:
    """The call that a record describes, with what a task gives."""
    return lambda problem: partial(method.function, **_arguments(method, problem))


def _arguments(method: record.Method, problem: Problem) -> dict[str, Any]:
    generator = torch.Generator(problem.query.device).manual_seed(0)
    example = record.Example(problem.query, problem.key, problem.value, generator)
    given = {name: one for name, one in problem.given.items() if method.takes(name)}
    if "attn_mask" in given:
        given.pop("is_causal", None)
    if problem.query.shape[1] != problem.key.shape[1]:
        given["enable_gqa"] = True
    return method.arguments(example, **(example.tensors | given))
