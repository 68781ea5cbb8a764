"""Checks of arguments, made once, at the door of each public function.

They see shapes and plain numbers, never tensors, so that the PyTorch reference and the
NumPy oracle can share them and stay independent in everything that computes.
Each error names the argument, what was expected, what came and how to fix it.
"""

import math
import numbers
import operator
from collections.abc import Sequence

Shape = tuple[int, ...]


def broadcast_shape(*shapes: Sequence[int]) -> Shape | None:
    """The shape that all ``shapes`` broadcast to, or None when they do not fit together.

    Examples:
        >>> broadcast_shape((2, 1, 7), (3, 1))
        (2, 3, 7)
    """
    length = max(len(shape) for shape in shapes)
    padded = [(1,) * (length - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        common = 1  # compared, not put in a set: torch.compile's sizes are symbols without a hash
        for size in sizes:
            if size != 1 and common not in (1, size):
                return None
            common = common if size == 1 else size
        result.append(common)
    return tuple(result)


def scores_shape(
    query: Sequence[int], key: Sequence[int], *, enable_gqa: bool | None = None
) -> tuple[int, ...]:
    """Shape ``(..., n, m)`` of the scores of ``query (..., n, d_k)`` and ``key (..., m, d_k)``.

    With ``enable_gqa`` dimension -3 counts heads, and each key head serves an equal
    number of query heads. None means that the caller has no such option to be advised of.

    Examples:
        >>> scores_shape((2, 6, 5, 8), (2, 3, 7, 8), enable_gqa=True)
        (2, 6, 5, 7)
    """
    query, key = tuple(query), tuple(key)
    needed = 3 if enable_gqa else 2
    for name, shape in (("query", query), ("key", key)):
        if len(shape) < needed:
            raise ValueError(
                f"{name}: expected at least {needed} dimensions, "
                f"({'..., heads, ' if enable_gqa else '..., '}length, d_k), got shape {shape}. "
                f"Add the missing leading dimension, for example {name}[None]."
            )
    if query[-1] != key[-1]:
        raise ValueError(
            f"key: expected last dimension {query[-1]}, as query has, got shape {key} "
            f"beside query {query}. A dot product needs vectors of one size: project "
            "query and key to the same d_k."
        )
    if query[-1] == 0:
        raise ValueError(
            f"query: expected d_k of at least 1, got shape {query}. Vectors without "
            "components have no dot product; check the projection that made them."
        )
    key_lead = key[:-2]
    if enable_gqa:
        heads, key_heads = query[-3], key[-3]
        if key_heads == 0 or heads % key_heads:
            raise ValueError(
                f"key: expected a number of heads (dimension -3) that divides query's {heads}, "
                f"got {key_heads} in shape {key}. With enable_gqa each key head serves an equal "
                "group of query heads."
            )
        key_lead = (*key[:-3], heads)
    lead = query[:-2] if query[:-2] == key_lead else broadcast_shape(query[:-2], key_lead)
    if lead is None:
        raise ValueError(
            f"key: expected leading dimensions that broadcast with query's {query[:-2]}, "
            f"got {key[:-2]} in shape {key}. "
            + (
                "If they are fewer heads meant to be shared, pass enable_gqa=True."
                if enable_gqa is False
                and len(query) > 2
                and len(key) > 2
                and key[-3]
                and query[-3] % key[-3] == 0
                and broadcast_shape(query[:-3], key[:-3]) is not None
                else "Check the order of the dimensions: (batch, heads, length, d_k)."
            )
        )
    return (*lead, query[-2], key[-2])


def check_value(key: Sequence[int], value: Sequence[int]) -> None:
    """``value`` carries one row per key, under the same leading dimensions."""
    key, value = tuple(key), tuple(value)
    if value[:-1] != key[:-1]:
        raise ValueError(
            f"value: expected shape {(*key[:-1], 'd_v')}, one row for each key, got {value}. "
            "Keys and values come in pairs: build both from the same sequence; only the last "
            "dimension may differ."
        )


def check_mask(mask: Sequence[int], scores: Sequence[int]) -> None:
    """``attn_mask`` must broadcast to the scores, and may not enlarge them."""
    mask, scores = tuple(mask), tuple(scores)
    if broadcast_shape(mask, scores) != scores:
        advice = "Its last two dimensions are queries and keys."
        if len(scores) == 4 and mask == (scores[0], scores[-1]):
            advice = "For one row of keys a sample write attn_mask[:, None, None, :]."
        elif len(scores) == 4 and mask == (scores[0], *scores[-2:]):
            advice = "For one mask a sample write attn_mask[:, None]."
        raise ValueError(
            f"attn_mask: expected a shape that broadcasts to the scores {scores}, "
            f"(..., queries, keys), got {mask}. {advice}"
        )


def check_number(name: str, number: float | None, advice: str, *, most: str = "a number") -> float:
    """A real number of any kind, NumPy's too, as a float; True and False are not numbers."""
    if isinstance(number, bool) or not isinstance(number, numbers.Real):
        raise TypeError(f"{name}: expected {most}, got {type(number).__name__}. {advice}")
    return float(number)


def check_flag(name: str, flag: bool, advice: str) -> None:
    """A choice is True or False; what only counts as one, such as text, was meant otherwise."""
    if not isinstance(flag, bool):
        raise TypeError(f"{name}: expected True or False, got {type(flag).__name__}. {advice}")


def check_drawn(*, generator: object = None, kind: type = object, dtype: object = None) -> None:
    """What makes numbers: a generator of this kind, in a floating dtype; None leaves it open."""
    if generator is not None and not isinstance(generator, kind):
        raise TypeError(
            f"generator: expected a torch.Generator or None, got {type(generator).__name__}. Make "
            "one with torch.Generator().manual_seed(0)."
        )
    if dtype is not None and not getattr(dtype, "is_floating_point", False):
        raise TypeError(
            f"dtype: expected a floating dtype, got {dtype}. What is drawn, and a "
            "mean, is no integer; take torch.float32."
        )


def check_scale(scale: float | None, head_dim: int) -> float:
    """The factor to use: ``scale`` itself, or ``1/sqrt(head_dim)`` for None."""
    if scale is None:
        return float(head_dim**-0.5)
    advice = (
        "None means 1/sqrt(d_k); for a factor per head multiply query by it and pass scale=1.0."
    )
    factor = check_number("scale", scale, advice, most="a number or None")
    if not -math.inf < factor < math.inf:  # math.isfinite would stop torch.compile
        raise ValueError(
            f"scale: expected a finite number, got {scale}. The usual choice is None, "
            f"here 1/sqrt({head_dim})."
        )
    return factor


def check_softcap(softcap: float | None) -> None:
    """A bound is positive; no bound is None, not 0."""
    if softcap is None:
        return
    bound = "It bounds the scores to (-softcap, softcap);"
    advice = f"{bound} None means no bound."
    if not 0.0 < check_number("softcap", softcap, advice, most="a number or None") < math.inf:
        raise ValueError(
            f"softcap: expected a positive finite number, got {softcap}. {bound} for no bound "
            "pass None."
        )


def check_dropout(dropout_p: float) -> None:
    """A probability, and never 1: nothing would be left to rescale."""
    advice = "It is the share of weights to drop, not to keep; in evaluation pass 0.0."
    if not 0.0 <= check_number("dropout_p", dropout_p, advice) < 1.0:
        raise ValueError(f"dropout_p: expected a probability in [0, 1), got {dropout_p}. {advice}")


def check_integer(
    name: str, number: int, least: float, advice: str, *, most: float = math.inf
) -> int:
    """A whole number from ``least`` to ``most``, NumPy's too; True and False are not numbers."""
    error: type[Exception] = TypeError
    if type(number) is not bool and isinstance(number, numbers.Integral):
        number = operator.index(number)
        if least <= number <= most:
            return number
        error = ValueError
    bounds = f"of {least} or more" if most == math.inf else f"between {least} and {most}"
    raise error(f"{name}: expected an integer {bounds}, got {number!r}. {advice}")


def check_integers(
    name: str, shape: str, got: str, advice: str, *, whole: bool, fits: bool
) -> None:
    """Integers of this shape: what holds others is of a wrong type, another shape a wrong value."""
    if not (whole and fits):
        error = ValueError if whole else TypeError
        raise error(f"{name}: expected integers of shape {shape}, got {got}. {advice}")


def check_positions(**counts: int) -> list[int]:
    """Numbers of queries or keys, by the names of the arguments."""
    advice = "Take it from the tensors: query.shape[-2], key.shape[-2]."
    return [check_integer(name, count, 0, advice) for name, count in counts.items()]


def check_alignment(n: int, m: int | None, alignment: str | None) -> tuple[int, int, int]:
    """n, the number of keys, n for None, and how far behind position i the key of query i lies."""
    n, m = check_positions(n=n, m=n if m is None else m)
    if alignment not in (None, "top-left", "bottom-right"):
        raise ValueError(
            f"alignment: expected 'top-left' or 'bottom-right', got {alignment!r}. "
            "top-left lets both sequences begin together, bottom-right lets them end together."
        )
    if n != m and alignment is None:
        raise ValueError(
            f"alignment: expected 'top-left' or 'bottom-right' because n={n} differs from m={m}, "
            "got None. For decoding with a cache choose 'bottom-right'; PyTorch's is_causal is "
            "'top-left'."
        )
    return n, m, m - n if alignment == "bottom-right" else 0
