"""Sessions of ONNX Runtime, which are run and not called, asked as functions of arrays."""

import inspect
from collections.abc import Callable
from typing import Any

_THREE = ("query", "key", "value")


def is_session(function: object) -> bool:
    """Whether it is run with a table of inputs, which it names."""
    return all(callable(getattr(function, name, None)) for name in ("run", "get_inputs"))


def adapt_session(session: Any) -> Callable[..., Any]:
    """Its first output, for its first three inputs, or for those called q, k and v; by name others.

    An input cannot be left out of a session: what is None is not handed over, and it says so.
    """
    names = [each.name for each in session.get_inputs()]
    first = [_find_input(names, each) or _find_input(names, each[0]) for each in _THREE]
    three = [each for each in first if each is not None]
    three = three if len(three) == 3 else names[:3]
    others = {_identifier(name): name for name in names if name not in three}

    def attention(query: Any, key: Any, value: Any, **options: Any) -> Any:
        feeds = dict(zip(three, (query, key, value), strict=True))
        feeds |= {others[name]: each for name, each in options.items() if each is not None}
        return session.run(None, feeds)[0]

    parameters = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_ONLY) for each in _THREE]
    parameters += [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY) for each in others]
    attention.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    attention.__qualname__ = type(session).__name__
    return attention


def _find_input(names: list[str], wanted: str) -> str | None:
    return next((name for name in names if name.lower() == wanted), None)


def _identifier(name: str) -> str:
    return "".join(each if each.isalnum() else "_" for each in name)
