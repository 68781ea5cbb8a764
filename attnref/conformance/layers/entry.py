"""What the ``forward`` of a layer takes: one sequence or three, options, and what is filled in."""

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnref.conformance.meanings import FORMS, MEANINGS
from attnref.conformance.signatures import OPTIONS, SYNONYMS
from attnref.conformance.subject import CheckError

_OPTIONS = {*OPTIONS, *(name for names in SYNONYMS.values() for name in names)}
_MASKS = ("attn_mask", *SYNONYMS["attn_mask"])
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
    sequence, and ``needed`` where it has no default; ``options`` are those that the check may
    know; ``rotations`` are filled in, and ``fixed`` is the same in each call. ``masks`` are
    parameters that it may not do without, each with the meaning and the form of one that hides
    nothing.
    """

    tensors: tuple[str, ...]
    context: str | None
    options: tuple[str, ...]
    rotations: tuple[str, ...]
    fixed: Mapping[str, Any]
    needed: bool = False
    masks: Mapping[str, tuple[str, str]] = {}

    @staticmethod
    def from_layer(layer: nn.Module, arguments: Mapping[str, Any], name: str) -> "Entry":
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
                    "with: {name}.forward needs a value for {each}. Write --with {each}=…, in "
                    'Python arguments={{"{each}": …}}, or wrap what it does between its '
                    "projections in a function of query, key and value.",
                    name=name,
                    each=each,
                )
        needed = context is not None and parameters[context].default is inspect.Parameter.empty
        return Entry(tensors, context, options, rotations, fixed, needed)

    def ways(self) -> Iterator["Entry"]:
        """The same, and with a mask that hides nothing for the one that it may not do without."""
        yield self
        for name in self.options:
            if name in _MASKS and self.fixed.get(name) is None:
                for masks in itertools.product(MEANINGS, FORMS):
                    yield self._replace(masks={name: masks})

    @property
    def takes_three(self) -> bool:
        """Whether query, key and value come from sequences of their own."""
        return len(self.tensors) == 3

    def fill_inputs(self, tensors: list[Tensor], like: Tensor, b: int, m: int) -> dict[str, Any]:
        """All that goes in by itself: the sequences, as many as it takes, and what stays the same.

        ``like`` are zeros (n, d), for b samples and m keys.
        """
        inputs: dict[str, Any] = dict(zip(self.tensors, tensors, strict=False))
        if self.context is not None and (self.needed or tensors[0].shape != tensors[1].shape):
            inputs[self.context] = tensors[1]
        inputs |= {name: _UNROTATED[name](like) for name in self.rotations} | {**self.fixed}
        everything = like.new_ones(len(like), m, dtype=torch.bool)
        for name, (means, form) in self.masks.items():
            mask = MEANINGS[means].turned(FORMS[form](everything, (b, 1, *everything.shape)))
            inputs[name] = mask.to(like.dtype) if mask.is_floating_point() else mask
        return inputs
