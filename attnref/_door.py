"""The door: where the arguments of an attention are checked and prepared, once per call.

A public function hands its arguments to :func:`enter`, and what comes back to a core, which only
computes. Cores take a :class:`Call`, check nothing and call other cores.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from attnref import checks
from attnref.masks import Mask


class Call(NamedTuple):
    """One call of attention, checked.

    Attributes:
        query, key, value: as they came.
        attn_mask: broadcasts to ``shape``.
        is_causal: query i sees the keys j <= i, besides what the mask says.
        scale: the factor on the scores.
        enable_gqa: whether a key head serves several query heads.
        shape: of the scores, ``(..., n, m)``.
        sink: a score for each row, which broadcasts to ``(..., n, 1)``; None without sinks.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | Mask | None
    is_causal: bool
    scale: float
    enable_gqa: bool
    shape: checks.Shape
    sink: Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        """That of computation: float32 for half precision."""
        return torch.promote_types(self.query.dtype, torch.float32)

    def tensors(self, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value in the dtype of computation, each query head with its key head."""
        dtype = self.dtype if dtype is None else dtype
        key, value = self.key, self.value
        if self.enable_gqa:
            groups = self.query.shape[-3] // key.shape[-3]
            key, value = (x.repeat_interleave(groups, -3) for x in (key, value))
        return self.query.to(dtype), key.to(dtype), value.to(dtype)

    def mask_tensor(self) -> Tensor | None:
        """The mask as a tensor, without what ``is_causal`` says."""
        if isinstance(self.attn_mask, Mask):
            return self.attn_mask.dense(self.query.device)
        return self.attn_mask

    def key_mask(self) -> Tensor | None:
        """Which keys count, ``(..., m, 1)``; a mask that tells queries apart is refused."""
        mask = self.mask_tensor()
        if mask is None:
            return None
        if mask.dim() < 2 or mask.shape[-2] != 1 or mask.dtype != torch.bool:
            raise ValueError(
                "attn_mask: expected bool over keys alone, shape (..., 1, m), got "
                f"{mask.dtype} of shape {tuple(mask.shape)}. This method sums over the keys "
                "before it sees a query: take masks.padding(lengths, m), or another method."
            )
        return mask.expand(*mask.shape[:-1], self.shape[-1]).mT


def enter(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    sink: Tensor | float | None = None,
) -> Call:
    """The arguments, once they are known to belong together.

    A function without values passes the key in their place, and one that drops weights does so
    by itself.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.
    """
    check_tensors(query=query, key=key, value=value)
    if dropout_p != 0.0:
        checks.check_dropout(dropout_p)
        raise ValueError(
            f"dropout_p: expected 0.0, got {dropout_p!r}. Weights that are never stored cannot be "
            "dropped; use attnref.scaled_dot_product_attention."
        )
    if value.shape[:-1] != key.shape[:-1]:
        checks.check_value(key.shape, value.shape)
    for name, flag in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if not isinstance(flag, bool):  # asked here: a call a flag would be felt in decoding
            checks.check_flag(name, flag, "A mask goes into attn_mask.")
    shape = checks.scores_shape(query.shape, key.shape, enable_gqa=enable_gqa)
    d_k = query.shape[-1]
    factor = d_k**-0.5 if scale is None else checks.check_scale(scale, d_k)
    if attn_mask is not None:
        check_mask_type(attn_mask)
        if isinstance(attn_mask, Tensor):
            _check_place("attn_mask", attn_mask, query)
        checks.check_mask(attn_mask.shape, shape)
    rows = None if sink is None else _sink_of_rows(sink, query, shape)
    return Call(query, key, value, attn_mask, is_causal, factor, enable_gqa, shape, rows)


def _sink_of_rows(sink: Tensor | float, query: Tensor, shape: checks.Shape) -> Tensor:
    """A score for each head as one for each row, ``(..., h, 1, 1)``."""
    if isinstance(sink, int | float) and not isinstance(sink, bool):
        sink = torch.tensor(float(sink), device=query.device)
    if not isinstance(sink, Tensor) or not sink.is_floating_point():
        got = sink.dtype if isinstance(sink, Tensor) else type(sink).__name__
        raise TypeError(
            f"sink: expected a number or a tensor of a floating dtype, got {got}. It is a score "
            "for each head; None means that there is none."
        )
    _check_place("sink", sink, query)
    heads = shape[:-2]
    if len(sink.shape) > len(heads) or checks.broadcast_shape(sink.shape, heads) != heads:
        raise ValueError(
            f"sink: expected a shape that broadcasts to {heads}, a score for each head of query, "
            f"got {tuple(sink.shape)}. One for all heads is a number."
        )
    return sink[..., None, None]


def check_tensors(**tensors: Tensor) -> None:
    """Tensors of one floating dtype, on one device; the first one sets both."""
    (first, reference), *_ = tensors.items()
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            advice = "There is no default for it."
            if tensor is not None:
                advice = f"Convert it with torch.as_tensor({name})."
            raise TypeError(
                f"{name}: expected a torch.Tensor, got {type(tensor).__name__}. {advice}"
            )
        if tensor.is_nested or tensor.layout != torch.strided:
            _check_dense(name, tensor)
        if not tensor.is_floating_point() or tensor.itemsize == 1:
            raise TypeError(
                f"{name}: expected a floating dtype of 16 bits or more, got {tensor.dtype}. "
                f"Convert it with {name}.float()."
            )
        if tensor.dtype != reference.dtype:
            raise TypeError(
                f"{name}: expected {reference.dtype}, the dtype of {first}, got {tensor.dtype}. "
                f"Convert one of them, for example {name}.to({first}.dtype)."
            )
        if tensor.device != reference.device:
            _check_place(name, tensor, reference, first)


def _check_dense(name: str, tensor: Tensor) -> None:
    """A number in each place, which nested and sparse tensors do not have."""
    if tensor.is_nested:
        raise TypeError(
            f"{name}: expected an ordinary, dense tensor, got one that is nested. Pad it with "
            f"{name}.to_padded_tensor(0.0), and leave the padding out with masks.padding(lengths)."
        )
    if tensor.layout != torch.strided:
        raise TypeError(
            f"{name}: expected an ordinary, dense tensor, got one of layout {tensor.layout}. "
            f"Convert it with {name}.to_dense()."
        )


def check_without_gradient(attn_mask: Tensor | Mask | None) -> None:
    """A mask that a core only reads: it has no derivative by it."""
    if isinstance(attn_mask, Tensor) and attn_mask.requires_grad:
        raise ValueError(
            "attn_mask: expected a tensor without gradient, got one that requires it. Detach it, "
            "or use attnref.scaled_dot_product_attention, which gives it one."
        )


def check_neutral(advice: str, **given: object) -> None:
    """Arguments of PyTorch's call with which this method can do nothing."""
    for name, one in given.items():
        neutral = False if name in ("is_causal", "enable_gqa") else None
        if one is not neutral:
            got = repr(one) if isinstance(one, bool | int | float) else type(one).__name__
            raise ValueError(f"{name}: expected {neutral}, got {got}. {advice}")


def are_integers(tensor: object) -> bool:
    return isinstance(tensor, Tensor) and not (
        tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool
    )


def kind_of(one: object) -> str:
    """What came, for an error that expected a tensor of another kind or shape."""
    if isinstance(one, Tensor):
        return f"shape {tuple(one.shape)} of {one.dtype}"
    return type(one).__name__


def source_of(generator: torch.Generator | None) -> torch.Generator:
    """What draws a tensor that is not given."""
    if generator is None:
        return torch.Generator().manual_seed(0)
    check_generator(generator)
    return generator


def check_no_generator(generator: torch.Generator | None, name: str) -> None:
    """Beside a tensor that is given nothing is drawn."""
    if generator is not None:
        raise ValueError(
            f"generator: expected None beside {name}, got {type(generator).__name__}. Pass one of "
            f"the two: {name} itself, or what draws it."
        )


def check_generator(generator: torch.Generator) -> None:
    """What is drawn can be drawn again."""
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator: expected a torch.Generator, got {type(generator).__name__}. Make one with "
            "torch.Generator().manual_seed(0)."
        )


def check_mask_type(attn_mask: Tensor | Mask) -> None:
    """A mask object, or a tensor of bools or of numbers to add."""
    if isinstance(attn_mask, Mask):
        return
    if not isinstance(attn_mask, Tensor):
        raise TypeError(
            f"attn_mask: expected a torch.Tensor or a mask of attnref.masks, got "
            f"{type(attn_mask).__name__}. Convert it with torch.as_tensor(attn_mask)."
        )
    _check_dense("attn_mask", attn_mask)
    if attn_mask.dtype != torch.bool and not attn_mask.is_floating_point():
        raise TypeError(
            f"attn_mask: expected bool (True = may attend) or a floating dtype (added to the "
            f"scores), got {attn_mask.dtype}. If 1 means may attend, pass attn_mask.bool()."
        )


def _check_place(name: str, tensor: Tensor, other: Tensor, whose: str = "query") -> None:
    if tensor.device != other.device:
        raise ValueError(
            f"{name}: expected device {other.device}, where {whose} is, got {tensor.device}. "
            f"Move it with {name}.to({whose}.device)."
        )
