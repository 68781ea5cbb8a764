"""Who is asked: the package's variants, PyTorch's own kernels, and peers.

Every public module of ``attnref.variants`` is measured: its function is named like the module,
``<module>_attention``. Without an entry in ``cases`` it is called as
``function(query, key, value)`` for the task ``dense``; an entry says for which tasks and how it
is called otherwise. Beside them are the entries of ``pytorch`` and of ``peers``, each of
these with the package that it needs.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from attnref import book, variants
from attnref.bench.problems import Problem

# Given a problem, does what is not to be timed (modules, masks, compilation) and returns the rest.
Prepare = Callable[[Problem], Callable[[], Tensor]]


@dataclass
class Method:
    """A name, how it is called for each task, and where it comes from.

    ``defined`` is the module and the function whose code is fingerprinted, None for what is not
    ours; ``needs`` is the distribution to install, and ``imports`` the module that it brings.
    """

    name: str
    cases: dict[str, Prepare] = field(default_factory=dict)
    defined: tuple[str, str] | None = None
    needs: str | None = None
    imports: str | None = None

    @property
    def called(self) -> list[str]:
        """The functions of ``attnref.bench.cases`` that call it."""
        own = (run for run in self.cases.values() if run.__module__ == "attnref.bench.cases")
        return sorted({prepare.__name__ for prepare in own})

    def missing(self) -> str | None:
        """Why it cannot be called here, or None."""
        if self.imports is None or importlib.util.find_spec(self.imports) is not None:
            return None
        return f"{self.needs} is not installed. {book.install('peers', 'en')}"


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
            return prepare

        return register


def discover(entries: Mapping[str, Method]) -> dict[str, Method]:
    """All variants, each with its entry or the plain call, followed by the other entries."""
    found = {}
    for module in sorted(pkgutil.iter_modules(variants.__path__), key=lambda item: item.name):
        name = module.name
        if name.startswith("_"):
            continue
        defined = (f"{variants.__name__}.{name}", f"{name}_attention")
        cases = entries[name].cases if name in entries else {"dense": _plain(*defined)}
        found[name] = Method(name, cases, defined)
    return found | {name: method for name, method in entries.items() if name not in found}


def _plain(module: str, name: str) -> Prepare:
    def prepare(problem: Problem) -> Callable[[], Tensor]:
        function = getattr(importlib.import_module(module), name)
        return lambda: function(problem.query, problem.key, problem.value)

    return prepare
