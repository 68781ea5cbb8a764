"""A layer as a function, with the signature of its ``forward`` behind the projections."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from attnref.conformance.layers.construction import HEADS, Maker, Shape
from attnref.conformance.layers.entry import Entry
from attnref.conformance.layers.layer import Layer
from attnref.conformance.layers.projections import NONE_FOUND, WRAP, Inseparable, matrices
from attnref.conformance.layers.recognition import recognise
from attnref.conformance.subject import CheckError
from attnref.text import Text

OF_ONE = Text(
    "function: {name} has no projections, and its forward does not take query, key and value "
    "but {there}. {wrap}"
)
NOTHING = Text("nothing")


def adapt_layer(
    make: Callable[..., Any], arguments: Mapping[str, Any], name: str
) -> Callable[..., Any] | None:
    """The attention of a layer, called as ``f(query, key, value, **options)``.

    Args:
        make: its class, or a function that makes one, such as ``make(width, heads)``.
        arguments: whatever else its constructor or its ``forward`` needs.
        name: what messages call it.

    Returns:
        A function of tensors ``(b, h, n, d)``, or ``(b, n, d)`` for a layer of one head, which
        takes the options of the layer's ``forward``; None when ``make`` makes no layer.

    Raises:
        CheckError: when it cannot be made.
        Inseparable: when its projections cannot be made transparent.
    """
    maker = Maker(make, name, arguments)
    shape, first = first_layer(maker)
    if not isinstance(first, nn.Module):
        return None
    entry = Entry.from_layer(first, arguments, name)
    _check_arguments(arguments, {*maker.taken, *entry.fixed}, name)
    layer = Layer(maker, entry, single=shape.heads == 1)
    if matrices(first):
        layer.plans = dict.fromkeys((False, True), recognise(layer, shape))
        if layer.shares:
            try:
                layer.plans[True] = recognise(layer, Shape(6, 8, 2), layer.plans[False])
            except Exception:  # what has a name for it need not be able to do it
                layer.shares = False
        said: Text | None = layer.plans[False].describe()
        call = layer.attend
    elif entry.takes_three:
        said, call = None, layer.call_directly
    else:
        there = ", ".join(entry.tensors) or NOTHING
        said_of = {"name": name, "there": there, "wrap": WRAP}
        raise Inseparable(OF_ONE.fill(said_of), NONE_FOUND)
    return _add_signature(call, entry, first, said, layer.made, shares=layer.shares)


def first_layer(maker: Maker) -> tuple[Shape, Any]:
    """What is made of the usual size, and that size.

    Raises:
        CheckError: when it cannot be made.
    """
    heads = 3 if maker.offers(HEADS) else 1
    shape = Shape(heads, 8, heads)
    try:
        return shape, maker(shape)
    except CheckError:
        raise
    except Exception as error:
        raise CheckError(
            "function: {name} could not make a layer of {heads} heads of 8: {kind}: {error}. "
            "Supply the missing arguments, --with name=value, in Python arguments={{…}}, or name "
            "a function make(width, heads) that returns the layer.",
            name=maker.name,
            heads=heads,
            kind=type(error).__name__,
            error=error,
        ) from error


def _check_arguments(arguments: Mapping[str, Any], known: set[str], name: str) -> None:
    unknown = [each for each in arguments if each not in known]
    if unknown:
        raise CheckError(
            "with: {unknown!r} is not a parameter of {name} or of its forward. Leave it out, or "
            "check its spelling.",
            unknown=unknown[0],
            name=name,
        )


def _add_signature(
    call: Callable[..., Any],
    entry: Entry,
    layer: nn.Module,
    said: Text | None,
    made: Callable[[], list[nn.Module]],
    *,
    shares: bool,
) -> Callable[..., Any]:
    """The call with the options of the layer's own ``forward``, and with how it was read."""
    kind = inspect.Parameter
    tensors = [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in ("query", "key", "value")]
    options = [*entry.options, *(["enable_gqa"] if shares else [])]
    signature = inspect.Signature(
        [*tensors, *(kind(name, kind.KEYWORD_ONLY, default=None) for name in options)]
    )

    def attention(*tensors: Tensor, **options: Any) -> Any:
        signature.bind(*tensors, **options)
        if shares:
            options.pop("enable_gqa", None)
        return call(*tensors, **options)

    attention.__signature__ = signature  # type: ignore[attr-defined]
    attention.__wrapped__ = type(layer).forward  # type: ignore[attr-defined]
    attention.of_layer = said  # type: ignore[attr-defined]
    attention.modules_made = made  # type: ignore[attr-defined]
    return attention
