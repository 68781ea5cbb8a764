"""Arrays of other libraries: what a function of theirs is given, and what it returns."""

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from attnref.conformance.signatures import unwrap


class Library(NamedTuple):
    """Its name, the module that makes its arrays, and the function there that does."""

    name: str
    module: str
    maker: str


LIBRARIES: Mapping[str, Library] = {
    "jax": Library("JAX", "jax.numpy", "asarray"),
    "mlx": Library("MLX", "mlx.core", "array"),
    "tinygrad": Library("tinygrad", "tinygrad", "Tensor"),
    "numpy": Library("NumPy", "numpy", "asarray"),
}
"""By the package that they come from, in the order in which they are tried."""


def library_of(array: object) -> str | None:
    """The package of an array that is no tensor of PyTorch's; None where it is no array."""
    if isinstance(array, Tensor):
        return None
    package = type(array).__module__.split(".")[0].removesuffix("lib")  # jaxlib is JAX's
    known = package if package in LIBRARIES else None
    return known or ("numpy" if hasattr(array, "__dlpack__") else None)


def candidate_libraries(function: Callable[..., Any], error: BaseException) -> list[str]:
    """Those whose arrays a function may take that has raised ``error`` for tensors of PyTorch.

    They are its own library and those that its code names; where the error is about a tensor, all
    that are loaded.
    """
    found = unwrap(function)
    used = [getattr(found, "__module__", None), type(found).__module__]
    if not hasattr(found, "__code__"):
        found = type(found).__call__
    used += getattr(getattr(found, "__code__", None), "co_names", ())
    around: Mapping[str, object] = getattr(found, "__globals__", {})
    for value in around.values():
        used.append(value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", ""))
    packages = {str(name).split(".")[0].removesuffix("lib") for name in used}
    if is_about_tensors(error):
        packages |= set(sys.modules)
    return [package for package in LIBRARIES if package in packages and package in sys.modules]


def is_about_tensors(error: BaseException) -> bool:
    """Whether an error names PyTorch, or shows one of its tensors."""
    return re.search(r"\btorch\b|\btensor\(", str(error)) is not None


def calling(package: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for tensors: they go in as its arrays, and its arrays come out as tensors.

    No gradient goes through it.
    """

    def attention(*tensors: Tensor, **options: Any) -> Any:
        given = [_array(package, x) for x in tensors]
        named = {
            name: _array(package, value) if isinstance(value, Tensor) else value
            for name, value in options.items()
        }
        output = function(*given, **named)
        if isinstance(output, tuple | list) and output:
            return (_tensor(output[0], tensors[0]), *output[1:])
        return _tensor(output, tensors[0])

    return attention


def _array(package: str, tensor: Tensor) -> Any:
    library = LIBRARIES[package]
    make = getattr(importlib.import_module(library.module), library.maker)
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:  # NumPy, through which all of them go, has none of its own
        if package == "numpy":
            raise TypeError("bfloat16: NumPy has no such numbers")
        return make(tensor.float().numpy()).astype("bfloat16")
    return make(tensor.numpy().copy())


def _tensor(array: Any, like: Tensor) -> Any:
    if hasattr(array, "__dlpack__"):
        array = from_dlpack(array)
    elif library_of(array) is not None:
        array = torch.from_numpy(array.numpy())
    if isinstance(array, Tensor) and (array.dtype, like.dtype) == (torch.float32, torch.float64):
        raise TypeError("float64: the other library is set to answer in float32")
    return array.clone().to(like.device) if isinstance(array, Tensor) else array
