"""Which module is running, and what it is called in its model."""

import re
from collections.abc import Callable
from typing import Any

from torch import nn

ATTENTION = re.compile(r"attn|attention|deltanet|mamba|retention|recurrent", re.I)


class Places:
    """The modules that run, the outermost first.

    Args:
        entered: is told of each module as it begins.
        left: is told of each module, what it got in order, and what it returned.
    """

    def __init__(
        self,
        entered: Callable[[nn.Module, str], None],
        left: Callable[[nn.Module, str, Any, Any], None],
    ) -> None:
        self._entered, self._left = entered, left
        self.stack: list[nn.Module] = []
        self._names: dict[int, str] = {}
        self._root: nn.Module | None = None

    def enter(self, module: nn.Module) -> None:
        """Before its forward pass."""
        if not type(module).__name__.isidentifier():  # what a compiler made
            return
        if not self.stack and module is not self._root and id(module) not in self._names:
            self.name(module)
        self.stack.append(module)
        self._entered(module, self.here())

    def leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """After it, though it may have failed, and others in it too."""
        while any(each is module for each in self.stack):
            last = self.stack[-1]
            if last is module:
                self._left(module, self.here(), inputs, output)
            self.stack.pop()
            if last is module:
                break

    def name(self, root: nn.Module) -> None:
        """Names all that is in a model."""
        self._root = root
        inner: nn.Module = getattr(root, "_orig_mod", root)  # of a compiled one
        names = {
            id(module): name or type(module).__name__ for name, module in inner.named_modules()
        }
        self._names = names | {id(root): type(root).__name__}

    def inside(self, members: frozenset[int] | None, compiled: bool) -> bool:
        """Whether what runs belongs to these modules, of which a part may run by itself.

        Those that were compiled where they are run without a word of it.
        """
        if members is None or (compiled and not self.stack):
            return True
        return any(id(each) in members for each in self.stack)

    def here(self) -> str:
        """The name of the innermost module; of one without a name, its class."""
        if not self.stack:
            return ""
        module = self.stack[-1]
        return self._names.get(id(module), type(module).__name__)


def heads_of(module: nn.Module) -> int | None:
    """How many heads a module of attention says that it has."""
    for name in ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead"):
        found = getattr(module, name, None)
        if isinstance(found, int):
            return found
    return None


def attends(module: nn.Module) -> bool:
    """Whether a module is called as those are that mix tokens."""
    return ATTENTION.search(type(module).__name__) is not None
