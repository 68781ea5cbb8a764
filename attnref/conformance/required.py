"""Parameters beside query, key and value that have no default value, and what they are given."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

NOTHING = "None"
WIDTH = "1/sqrt(d_k)"
# What an option is given that must be said and is not asked about.
_OPTIONS: Mapping[str, tuple[str, Callable[[Any], object]]] = {
    "scale": (WIDTH, lambda query: query.shape[-1] ** -0.5),
    "is_causal": ("False", lambda query: False),
    "enable_gqa": ("False", lambda query: False),
    "dropout_p": ("0.0", lambda query: 0.0),
}
# A fourth parameter of such a name shows that the first is no query.
_VALUES = ("v", "value", "values")


def required_arguments(
    signature: inspect.Signature, synonyms: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """What each parameter that must be said is given, in words.

    Examples:
        >>> def attention(q, k, v, mask, sm_scale, *, cache=None): ...
        >>> required_arguments(inspect.signature(attention), {"scale": ["sm_scale"]})
        {'mask': 'None', 'sm_scale': '1/sqrt(d_k)'}
    """
    given = {}
    for name, parameter in list(signature.parameters.items())[3:]:
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if name in _VALUES:
            return {}
        if named and parameter.default is parameter.empty:
            given[name] = _OPTIONS.get(_option(name, synonyms), (NOTHING,))[0]
    return given


def filling(
    function: Callable[..., Any],
    signature: inspect.Signature,
    given: Mapping[str, str],
    synonyms: Mapping[str, Sequence[str]],
    drawn: Collection[str] = (),
) -> tuple[Callable[..., Any], inspect.Signature]:
    """The function with these for what must be said, and its signature with them as defaults.

    What is ``drawn`` is given in each call.
    """
    makers = {
        name: _OPTIONS[_option(name, synonyms)][1] if what != NOTHING else _give_none
        for name, what in given.items()
    }

    @functools.wraps(function)
    def attention(query: Any, *tensors: Any, **options: Any) -> Any:
        missing = {name: make(query) for name, make in makers.items() if name not in options}
        return function(query, *tensors, **missing, **options)

    parameters = []
    for place, (name, each) in enumerate(signature.parameters.items()):
        if (
            place > 2 and each.kind is each.POSITIONAL_OR_KEYWORD
        ):  # one without a default may follow
            each = each.replace(kind=each.KEYWORD_ONLY)
        parameters.append(each.replace(default=None) if name in (*given, *drawn) else each)
    parameters.sort(key=lambda each: each.kind)  # *args come before what is given by name
    return attention, signature.replace(parameters=parameters)


def _option(name: str, synonyms: Mapping[str, Sequence[str]]) -> str:
    """The option that a parameter is by its name, else the name."""
    return next((option for option, others in synonyms.items() if name in others), name)


def _give_none(query: Any) -> None:
    """What a parameter is given that the function can do without."""
