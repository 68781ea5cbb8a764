"""What the ``forward`` of a layer takes: one sequence or three, options, and what is filled in."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnref.conformance.signatures import OPTIONS, SYNONYMS
from attnref.conformance.subject import CheckError

_OPTIONS = {*OPTIONS, *(name for names in SYNONYMS.values() for name in names)}
_CONTEXTS = (
    *("context", "key_value_states", "encoder_hidden_states", "memory", "kv", "x_kv", "y", "xa"),
    *("cond", "source", "encoder_output", "encoder_outputs"),
)
_ROLE = re.compile(r"(?:.*_|x|in)?([qkv])", re.IGNORECASE)
# What stands for no rotation, for zeros (n, d).
_UNROTATED: Mapping[str, Callable[[Tensor], Any]] = {
    "position_embeddings": lambda zeros: (torch.ones_like(zeros)[None], zeros[None]),
    "cos": lambda zeros: torch.ones_like(zeros)[None],
    "sin": lambda zeros: zeros[None],
    "freqs_cis": lambda zeros: torch.ones_like(zeros[:, ::2], dtype=torch.complex64),
}


class Entry(NamedTuple):
    """The names of what goes in.

    ``tensors`` is one sequence, or query, key and value in this order; ``context`` a second
    sequence; ``options`` are those that the check may know; ``rotations`` are filled in, and
    ``fixed`` is the same in each call.
    """

    tensors: tuple[str, ...]
    context: str | None
    options: tuple[str, ...]
    rotations: tuple[str, ...]
    fixed: Mapping[str, Any]

    @staticmethod
    def of(layer: nn.Module, arguments: Mapping[str, Any], name: str) -> "Entry":
        """As the signature has it.

        Args:
            layer: whose ``forward`` it is.
            arguments: what the user says; those that are parameters of it are given in each call.
            name: the layer's, for messages.

        Raises:
            CheckError: when it needs something that nobody has said.
        """
        parameters = {
            each.name: each
            for each in inspect.signature(layer.forward).parameters.values()
            if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        }
        order = list(parameters)
        roles = {
            role[1].lower(): each for each in order[:3] if (role := _ROLE.match(each)) is not None
        }
        tensors = tuple(roles[each] for each in "qkv") if len(roles) == 3 else tuple(order[:1])
        rest = [each for each in order if each not in tensors]
        context = next((each for each in rest[:1] if each in _CONTEXTS), None)
        fixed = {each: arguments[each] for each in rest if each in arguments}
        options = tuple(each for each in rest if each in _OPTIONS and each not in fixed)
        rotations = tuple(each for each in rest if each in _UNROTATED and each not in fixed)
        for each in rest:
            if parameters[each].default is not inspect.Parameter.empty or each in fixed:
                continue
            if each in options:
                fixed[each] = None
            elif each not in (context, *rotations):
                raise CheckError(
                    f"with: expected a value for {each}, which {name}.forward needs, got none. "
                    f'Write --with {each}=…, in Python arguments={{"{each}": …}}, or wrap what it '
                    "does between its projections in a function of query, key and value."
                )
        return Entry(tensors, context, options, rotations, fixed)

    @property
    def several(self) -> bool:
        """Whether query, key and value come from sequences of their own."""
        return len(self.tensors) == 3

    def filled(self, tensors: list[Tensor], like: Tensor) -> dict[str, Any]:
        """All that goes in by itself: the sequences, as many as it takes, and what stays the same.

        ``like`` are zeros (n, d).
        """
        inputs: dict[str, Any] = dict(zip(self.tensors, tensors, strict=False))
        if self.context is not None and tensors[0].shape != tensors[1].shape:
            inputs[self.context] = tensors[1]
        return inputs | {name: _UNROTATED[name](like) for name in self.rotations} | {**self.fixed}
