"""One call of attention in a running model, by whatever name it was made."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnref.text import Text

Inputs = tuple[Tensor, Tensor, Tensor]

FUSED = "scaled_dot_product_attention"
OWN = "softmax between two products"
LAYER = "the fused layer of PyTorch"
MATH = "math"  # products and a softmax, which is what is left where no fused kernel is


@dataclass
class Call:
    """What was asked, and what came back.

    ``query`` is ``(b, h, n, d)``, ``key`` and ``value`` are ``(b, h_kv, m, d)``, views of what the
    model computed. Of a model that writes attention out, ``weights`` are its own, ``(b, h, n, m)``,
    and ``scores`` what it gave the softmax.

    Attributes:
        name: where, as ``model.named_modules()`` has it.
        function: the name of what was called.
        inputs: makes query, key and value, which a fused layer never hands out.
        shapes: theirs.
        mask: as it was given, or what makes it; True may attend, numbers are added.
        source: what layers share that the mask is made of; the mask itself, if it was given.
        kernel: the operator that computed it.
        fill: the largest number that hides, of a mask of True and False.
        training: whether the module was in training mode, None outside of modules.
        why: looks why no fused kernel was chosen, where that is cheap to change.
        reason: what it found.
        after: what came out of a whole layer, of which the output of its attention is unknown.
        grown: whether fewer keys were there in an earlier call, as in a cache that grows.
        laid: whether what are heads here may be samples, in a product without an axis for both.
        layouts: the order of the axes of query, key and value in memory.
        known: whether what happens to the scores is known, so that it can be computed again.
    """

    name: str
    function: str
    inputs: Callable[[], Inputs]
    shapes: tuple[torch.Size, torch.Size, torch.Size]
    dtype: torch.dtype
    device: torch.device
    output: Tensor | None = None
    after: Tensor | None = None
    mask: Tensor | Callable[[], Tensor | None] | None = None
    source: object = None
    is_causal: bool = False
    scale: float | None = None
    softcap: float | None = None
    fill: float = -math.inf
    sink: Tensor | None = None
    dropout: float = 0.0
    kernel: str = ""
    training: bool | None = None
    known: bool = True
    grown: bool = False
    laid: bool = False
    scores: Tensor | None = None
    weights: Tensor | None = None
    seconds: float = 0.0
    why: Callable[[], Text | None] | None = None
    reason: Text | None = None
    layouts: Sequence[str] = field(default_factory=tuple)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Samples, heads, queries and keys."""
        query, key, _ = self.shapes
        return query[0], query[1], query[2], key[2]

    @property
    def attn_mask(self) -> Tensor | None:
        """The mask, made when somebody asks for it."""
        if callable(self.mask) and not isinstance(self.mask, Tensor):
            self.mask = self.mask()
        return self.mask

    def factor(self) -> float:
        """What the scores are multiplied by."""
        return max(1, self.shapes[0][-1]) ** -0.5 if self.scale is None else self.scale


def four_axes(tensor: Tensor) -> Tensor:
    """``(b, h, n, d)`` of fewer axes, which are heads, or none, or of more, which are samples."""
    while tensor.dim() < 4:
        tensor = tensor.unsqueeze(0)
    return tensor if tensor.dim() == 4 else tensor.flatten(0, -4)


def layout(tensor: Tensor) -> str:
    """The order of its axes in memory, the outermost first.

    Examples:
        >>> layout(torch.zeros(2, 3, 7, 5)), layout(torch.zeros(2, 7, 3, 5).transpose(1, 2))
        ('bhnd', 'bnhd')
        >>> layout(torch.zeros(2, 3, 1, 5))
        'bhnd'
    """
    long = [axis for axis in range(tensor.dim()) if tensor.shape[axis] > 1]
    strides: tuple[int, ...] = tensor.stride()
    if any(strides[axis] == 0 for axis in long):
        return "expanded"
    order = iter(sorted(long, key=lambda axis: -strides[axis]))
    names = "bhnd"[-tensor.dim() :]
    # An axis of one has no place of its own, and keeps its usual one.
    return "".join(names[next(order) if axis in long else axis] for axis in range(tensor.dim()))


def call_of(function: str, inputs: Inputs) -> Call:
    """A call with these tensors."""
    query, key, value = inputs
    shapes = (query.shape, key.shape, value.shape)
    call = Call("", function, lambda: inputs, shapes, query.dtype, query.device)
    call.layouts = tuple(map(layout, inputs))
    return call


def divide(call: Call, heads: int | None) -> None:
    """Takes samples and heads apart that were laid into one axis, the heads of a sample together.

    Examples:
        >>> x = torch.zeros(1, 6, 5, 4)
        >>> call = call_of(OWN, (x, x, x))
        >>> divide(call, 2)
        >>> call.sizes
        (3, 2, 5, 5)
    """
    b, laid, *_ = call.sizes
    call.laid = call.laid and heads is None
    if not heads or b > 1 or laid <= heads or laid % heads or laid != call.shapes[1][1]:
        return

    def apart(x: Tensor | None) -> Tensor | None:
        if x is None or x.dim() < 3 or x.shape[-3] != laid:
            return x
        return x.reshape(-1, heads, *x.shape[-2:])

    query, key, value = map(apart, call.inputs())
    assert query is not None
    assert key is not None
    assert value is not None
    call.inputs = lambda: (query, key, value)
    call.shapes = (query.shape, key.shape, value.shape)
    given = call.mask
    call.mask = (lambda: apart(given())) if callable(given) else apart(given)
    call.output, call.scores, call.weights = map(apart, (call.output, call.scores, call.weights))
