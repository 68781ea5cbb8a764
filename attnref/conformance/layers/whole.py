"""A layer whose query, key and value cannot be had apart, as a function of its whole sequence."""

import copy
import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnref.conformance.layers.construction import HEAD_WIDTHS, HEADS, WIDTHS
from attnref.conformance.layers.entry import Entry
from attnref.conformance.layers.projections import matrices
from attnref.conformance.meanings import FORMS, MEANINGS
from attnref.conformance.reading import Fits, Reading
from attnref.conformance.signatures import SYNONYMS
from attnref.conformance.subject import CheckError, Subject
from attnref.text import Text

AS_A_WHOLE = Text("judged as a whole, for {why}")
READY_MADE = Text(
    "it is a ready-made layer: name its class to have it judged behind its projections"
)
LENGTH_FIRST = Text("axes (n, b, width)")
HIDES = Text("{parameter} is attn_mask, {meaning}, {form}")

_OF_KEYS = ("(b, 1, 1, m)", "(b, m)")  # forms that say one thing for all queries
_WIDTHS = 6  # that are tried
_LENGTH = 5  # of the sequences on which it is read
_ROUNDING = 64  # times the dtype's own, of the largest number: what does not count as a change


class Hiding(NamedTuple):
    """A parameter that hides positions, what it says of them, and in what shape."""

    parameter: str
    means: str
    form: str


@dataclass(frozen=True)
class Whole:
    """The layer, what it takes, how wide its sequence is, and how it lies."""

    layer: nn.Module
    entry: Entry
    width: int
    head_width: int
    batch_first: bool = True
    hiding: Hiding | None = None
    casts: dict[tuple[torch.dtype, torch.device], nn.Module] = field(default_factory=dict)

    def cast(self, like: Tensor) -> nn.Module:
        """The layer in the dtype and on the device of a sequence."""
        place = (like.dtype, like.device)
        if place not in self.casts:
            self.casts[place] = copy.deepcopy(self.layer).to(like.device, like.dtype)
        return self.casts[place]

    def __call__(
        self,
        query: Tensor,
        *others: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Any:
        """What it makes of the sequence (b, h, n, width) in the place of the query.

        Heads count as further samples, for it has an axis for one of both alone; causal it is, or
        is not, by itself.
        """
        n = query.shape[-2]
        x = query.flatten(0, 1)
        x = x if self.batch_first else x.transpose(0, 1)
        inputs = self.entry.fill_inputs(
            [x, x, x], query.new_zeros(n, self.head_width), query.shape[:2].numel(), n
        )
        if attn_mask is not None and self.hiding is not None:
            inputs[self.hiding.parameter] = self.convert_mask(attn_mask, query)
        output = _find_sequence(self.cast(query)(**inputs))
        if not isinstance(output, Tensor) or output.shape != x.shape:
            return output
        return (output if self.batch_first else output.transpose(0, 1)).reshape(query.shape)

    def convert_mask(self, mask: Tensor, query: Tensor, *_: Tensor) -> Tensor:
        """Its own mask for PyTorch's, (n, n), and the sequence in the place of the query."""
        assert self.hiding is not None
        b, h, n = query.shape[:3]
        turned = MEANINGS[self.hiding.means].turned(FORMS[self.hiding.form](mask, (b * h, 1, n, n)))
        return turned.to(query.dtype) if turned.is_floating_point() else turned

    def moved_positions(self, x: Tensor, other: Tensor, mask: Tensor | None = None) -> Tensor:
        """Where the outputs of two sequences (b, n, width) differ, (b, n)."""
        both = [self(each[:, None], attn_mask=mask) for each in (x, other)]
        if not all(isinstance(each, Tensor) and each.shape == x[:, None].shape for each in both):
            raise TypeError("no sequence comes out for a sequence")  # so it is read otherwise
        allowed = _ROUNDING * torch.finfo(both[0].dtype).eps * both[0].abs().amax()
        moved: Tensor = ~((both[0] - both[1]).abs() <= allowed).all(-1)[:, 0]
        return moved

    def dependence(self, mask: Tensor | None = None) -> Tensor:
        """Whether output i is moved by position j, (n, n)."""
        x = torch.randn(1, _LENGTH, self.width, generator=_generator())
        columns = [self.moved_positions(x, _change_position(x, j), mask)[0] for j in range(_LENGTH)]
        return torch.stack(columns, -1)

    def obeys(self, mask: Tensor) -> bool:
        """Whether the mask changes anything."""
        x = torch.randn(1, 1, _LENGTH, self.width, generator=_generator())
        return not torch.equal(self(x), self(x, attn_mask=mask))


@dataclass(frozen=True)
class WholeSubject(Subject):
    """A layer that is judged as a whole; ``tensors`` are the names of what gets the sequence."""

    tensors: tuple[str, ...] = ("x",)
    layer: nn.Module | None = None

    def own_arguments(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The sequence once, and the mask."""
        given = super().own_arguments(arguments)
        rest = {name: each for name, each in given.items() if name not in ("query", "key", "value")}
        sequence = arguments["query"]
        assert isinstance(sequence, Tensor)
        return dict.fromkeys(self.tensors, sequence.flatten(0, 1)) | rest


def whole_subject(
    layer: nn.Module, arguments: Mapping[str, Any], name: str, why: Text, *, width: int | None
) -> WholeSubject | None:
    """The layer as a function of a sequence, or None where it takes none, or mixes no positions.

    Args:
        layer: it.
        arguments: that its ``forward`` needs.
        name: what the report calls it.
        why: it cannot be judged behind its projections.
        width: that of the sequence; None finds it.
    """
    try:
        entry = Entry.from_layer(layer, arguments, name)
    except CheckError:
        return None
    layer = copy.deepcopy(layer)
    layer.eval()  # which returns nothing where `train` is overridden carelessly
    names = [each for each in inspect.signature(layer.forward).parameters if "mask" in each]
    with torch.no_grad(), torch.random.fork_rng([]):
        found = _answering(layer, entry, names, [width] if width else _widths(layer))
        if found is None:
            return None
        sight = found.dependence()
        if not (sight & ~torch.eye(_LENGTH, dtype=torch.bool)).any():
            return None
        # One that sees all of its past and one position ahead is meant to be causal.
        causal = not sight.triu(1).any() or torch.equal(sight, torch.ones_like(sight).tril(1))
    hiding = found.hiding
    parts = [AS_A_WHOLE, *([] if found.batch_first else [LENGTH_FIRST])]
    parts += [HIDES] if hiding else []
    values: dict[str, object] = {"why": why}
    if hiding:
        values |= {"parameter": hiding.parameter, "form": hiding.form}
        values["meaning"] = MEANINGS[hiding.means].said
    said = Text.join("; ", [part.fill(values) for part in parts])

    def attention(*tensors: Tensor, **options: Any) -> Any:
        return found(*tensors, **options)

    attention.__wrapped__ = type(layer).forward  # type: ignore[attr-defined]
    attention.of_layer = said  # type: ignore[attr-defined]
    attention.modules_made = lambda: [*found.casts.values()]  # type: ignore[attr-defined]
    return WholeSubject(
        attention,
        name,
        (*["attn_mask"] * bool(hiding), *["is_causal"] * causal),
        tuple(dict.fromkeys((*entry.tensors, *entry.options, *names))),
        Reading(
            {"attn_mask": hiding.parameter} if hiding else {},
            form=hiding.form if hiding and hiding.form in _OF_KEYS else None,
            causal=bool(causal),
            fits=Fits(1, found.width),
            other=why,
        ),
        {} if hiding or not names else {"attn_mask": names[0]},
        mask=found.convert_mask if hiding else None,
        apart=False,
        heads=_heads(layer),
        tensors=entry.tensors,
        layer=layer,
    )


def _answering(layer: nn.Module, entry: Entry, names: list[str], widths: list[int]) -> Whole | None:
    """With the mask that hides, if there is one, and that it is given where it wants one."""
    usual, *others = entry.ways()
    for each in (usual, *others):
        found = _read(layer, each, widths)
        if found is None:
            continue
        ways = itertools.chain(_hiding(found, names), _hiding(found, names, leaking=True))
        hiding = next(ways, None)
        if each is usual:
            return replace(found, hiding=hiding)
        if hiding is not None and hiding.parameter in each.masks:
            masks = {hiding.parameter: (hiding.means, hiding.form)}
            return replace(found, entry=entry._replace(masks=masks), hiding=hiding)
    return None


def _read(layer: nn.Module, entry: Entry, widths: list[int]) -> Whole | None:
    """With a width that it takes, and the axis of samples first where both would do."""
    answering: list[Whole] = []
    for width, batch_first in itertools.product(widths, (True, False)):
        tried = Whole(layer, entry, width, _head_width(layer, width), batch_first)
        x = torch.randn(3, _LENGTH, width, generator=_generator())
        try:
            moved = [
                tried.moved_positions(x, torch.where(_sample_mask(b), -x, x)) for b in range(3)
            ]
        except Exception:
            continue  # another width, or nothing of this kind
        answering.append(tried)
        if torch.equal(torch.stack(moved).any(-1), torch.eye(3, dtype=torch.bool)):
            return tried
    return next(iter(answering), None)


def _sample_mask(b: int) -> Tensor:
    return (torch.arange(3) == b)[:, None, None]


def _change_position(x: Tensor, j: int) -> Tensor:
    """The sequences with other numbers at position j."""
    other = x.clone()
    other[:, j] = 1 - 2 * other[:, j]
    return other


def _hiding(whole: Whole, names: list[str], leaking: bool = False) -> Iterator[Hiding]:
    """The parameters that hide a position from all others, and leave the rest in sight.

    One that is ``leaking`` is a mask by its name and changes the output, but hides it from none:
    a convolution may carry it on to those next to it.
    """
    hidden = _LENGTH // 2
    mask = (torch.arange(_LENGTH) != hidden).expand(_LENGTH, _LENGTH)
    others = mask.T & ~torch.eye(_LENGTH, dtype=torch.bool)  # its own row may be anything
    sight = whole.dependence() & others
    names = [name for name in names if not leaking or name in SYNONYMS["attn_mask"]]
    for name, means, form in itertools.product(names, MEANINGS, FORMS):
        hiding = Hiding(name, means, form)
        tried = replace(whole, hiding=hiding)
        try:
            found = tried.dependence(mask) & others
            obeys = not leaking or tried.obeys(mask)
        except Exception:
            continue  # it wants another form
        if obeys and torch.equal(found, sight if leaking else sight & mask):
            yield hiding


def _widths(layer: nn.Module) -> list[int]:
    """How wide its sequence may be: by what it says, or by its matrices."""
    said = [getattr(layer, name, None) for name in WIDTHS]
    shapes = [side for shape in matrices(layer).values() for side in reversed(shape)]
    if isinstance(layer, nn.MultiheadAttention):
        shapes = [layer.embed_dim]
    found = [each for each in (*said, *shapes) if isinstance(each, int) and each > 0]
    return list(dict.fromkeys(found))[:_WIDTHS]


def _head_width(layer: nn.Module, width: int) -> int:
    numbers = {name: getattr(layer, name, None) for name in HEAD_WIDTHS}
    said = next((numbers[name] for name in HEAD_WIDTHS if isinstance(numbers[name], int)), None)
    return said or width // (_heads(layer) or 1)


def _heads(layer: nn.Module) -> int:
    """As many as it says, 0 where it does not."""
    numbers = (getattr(layer, name, None) for name in HEADS)
    return next((number for number in numbers if isinstance(number, int)), 0)


def _find_sequence(output: Any) -> Any:
    """The sequence among what it returns."""
    output = getattr(output, "last_hidden_state", output)
    while isinstance(output, tuple | list) and output:
        output = output[0]
    return output


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
