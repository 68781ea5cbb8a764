"""Arrays of other libraries, of which only NumPy is here: the others are stood for by it."""

import sys
import types

import numpy as np
import pytest
import torch

from attnref.conformance import libraries


class Wrapped:
    """An array that can only be asked for its numbers, as tinygrad's."""

    def __init__(self, array):
        self.array = array

    def numpy(self):
        return self.array


Wrapped.__module__ = "tinygrad.tensor"


class Narrow:
    """Arrays of JAX, whose kinds of numbers have bfloat16."""

    def __init__(self, array):
        self.array = array

    def astype(self, name):
        return torch.from_numpy(self.array).to(getattr(torch, name))


@pytest.fixture
def stands_for(monkeypatch):
    """Puts a module in the place of another library's."""

    def put(package, **makers):
        module = types.ModuleType(libraries.LIBRARIES[package].module)
        vars(module).update(makers)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(sys.modules, package, module)

    return put


def test_tensors_go_in_as_arrays_and_arrays_come_out_as_tensors():
    seen = []

    def attention(query, key, value, attn_mask=None, scale=1.0):
        seen.extend(type(x) for x in (query, key, value, attn_mask))
        return (query + value * scale, "rest")

    query = torch.ones(2, 3, requires_grad=True)
    call = libraries.calling("numpy", attention)
    output, rest = call(query, query, query, attn_mask=torch.ones(2, 2).bool(), scale=2.0)
    assert seen == [np.ndarray] * 4
    assert torch.equal(output, torch.full((2, 3), 3.0))
    assert rest == "rest"


def test_what_is_given_is_a_copy():
    def attention(query, key, value):
        query[:] = 0
        return value

    query = torch.ones(2, 3)
    libraries.calling("numpy", attention)(query, query, query)
    assert bool((query == 1).all())


def test_an_array_without_dlpack_is_asked_for_its_numbers(stands_for):
    stands_for("tinygrad", Tensor=Wrapped)
    call = libraries.calling("tinygrad", lambda query, key, value: Wrapped(value.array + 1))
    tensor = torch.zeros(2, 3)
    assert torch.equal(call(tensor, tensor, tensor), torch.ones(2, 3))
    assert libraries.library_of(Wrapped(None)) == "tinygrad"
    error = TypeError("expected Tensor, got torch.Tensor")
    assert libraries.candidate_libraries(Wrapped, error)[-2:] == ["tinygrad", "numpy"]


def test_half_precision_goes_through_float32(stands_for):
    stands_for("jax", asarray=Narrow)
    call = libraries.calling("jax", lambda query, key, value: value)
    tensor = torch.tensor([1.5], dtype=torch.bfloat16)
    assert call(tensor, tensor, tensor).dtype == torch.bfloat16


def test_whose_an_array_is():
    assert libraries.library_of(torch.zeros(1)) is None
    assert libraries.library_of(np.zeros(1)) == "numpy"
    assert libraries.library_of("no array") is None
    jaxlib = type("ArrayImpl", (), {"__module__": "jaxlib._jax"})
    assert libraries.library_of(jaxlib()) == "jax"


def test_numpy_is_given_no_bfloat16_even_where_somebody_has_taught_it():
    """Others register it there, and what an array of it becomes in a function is by chance."""
    tensor = torch.zeros(2, dtype=torch.bfloat16)
    with pytest.raises(TypeError, match="NumPy has no such numbers"):
        libraries.calling("numpy", lambda query, key, value: value)(tensor, tensor, tensor)
