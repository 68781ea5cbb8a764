"""A layer that is made for the heads that are asked, and entered behind its projections."""

import functools
from typing import Any

import torch
from torch import Tensor, nn

from attnref.conformance.layers.construction import KEY_HEADS, Maker, Shape
from attnref.conformance.layers.entry import Entry
from attnref.conformance.layers.projections import Injection, Projections, set_identity

_MADE = 32  # layers that are kept: a counterexample is looked for in many shapes


class Layer:
    """The layers of all shapes that are asked.

    Args:
        maker: makes them.
        entry: what they take.
        single: each has one head, and no axis for it.
    """

    def __init__(self, maker: Maker, entry: Entry, *, single: bool) -> None:
        self.maker = maker
        self.entry = entry
        self.single = single
        self.shares = maker.offers(KEY_HEADS) and not single
        self.plans: dict[bool, Projections] = {}  # by whether heads share their keys
        self.last: list[nn.Module] = []  # those that were made, which the caches may have dropped
        self.inject = functools.lru_cache(_MADE)(self._inject)
        self.build = functools.lru_cache(_MADE)(self._build)

    def _build(self, shape: Shape, dtype: torch.dtype, device: torch.device) -> nn.Module:
        try:
            layer: nn.Module = self.maker(shape).to(device, dtype)
        except Exception as error:
            raise ValueError(
                f"{self.maker.name}: expected other sizes than {shape}: {error}"
            ) from error
        self.last = [*self.last[1 - _MADE :], layer]
        return layer

    def made(self) -> list[nn.Module]:
        """The layers that were made."""
        return self.last

    def _inject(
        self, plan: Projections, shape: Shape, dtype: torch.dtype, device: torch.device
    ) -> Injection:
        layer = self._build(shape, dtype, device)
        return Injection(layer if plan.inputs else set_identity(layer), plan)

    def call_directly(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        """For a layer that has no projections."""
        shape = Shape(query.shape[1], query.shape[-1], key.shape[1])
        layer = self.build(shape, query.dtype, query.device)
        inputs = dict(zip(self.entry.tensors, (query, key, value), strict=True))
        return layer(**inputs, **{**self.entry.fixed, **options})

    def attend(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        """With the projections that were recognised."""
        if query.ndim != (3 if self.single else 4):
            axes = "(b, n, d)" if self.single else "(b, h, n, d)"
            raise ValueError(f"query: expected the axes {axes}, got {tuple(query.shape)}")
        if self.single:
            tensors = (x.unsqueeze(1) for x in (query, key, value))
            output = self.apply_plan(self.plans[False], *tensors, **options)
            return output.squeeze(1) if isinstance(output, Tensor) else output
        plan = self.plans[query.shape[1] != key.shape[1]]
        return self.apply_plan(plan, query, key, value, **options)

    def apply_plan(
        self, plan: Projections, query: Tensor, key: Tensor, value: Tensor, **options: Any
    ) -> Any:
        """What comes out if its projections are those of the plan.

        Raises:
            ValueError: for shapes that the layer does not have.
        """
        (b, h, n, d), (key_heads, m) = query.shape, key.shape[1:3]
        if value.shape[-1] != d:
            raise ValueError(f"value: expected the width of the keys, {d}, got {value.shape[-1]}")
        if key_heads != h and not self.shares:
            raise ValueError(f"key: expected {h} heads, as the layer makes them, got {key_heads}")
        if n != m and (plan.is_of_one() or not (self.entry.takes_three or self.entry.context)):
            raise ValueError(f"key: expected {n} positions, for it takes one sequence, got {m}")
        if self.entry.rotations and d % 2:
            raise ValueError(f"query: expected an even width, for half of it is turned, got {d}")
        injected = self.inject(plan, Shape(h, d, key_heads), query.dtype, query.device)
        tensors = [x.transpose(1, 2).clone() for x in (query, key, value)]  # (b, n, h, d)
        sequences = tensors
        if plan.inputs:  # zeros, so that a layer that adds its input to its output adds nothing
            sequences = [query.new_zeros(b, length, h, d) for length in (n, m, m)]
        flat = [plan.transpose_batch(x.flatten(2)) for x in sequences]
        inputs = self.entry.fill_inputs(flat, query.new_zeros(n, d), b, m)
        output = injected(*tensors, **{**inputs, **options})
        while isinstance(output, tuple | list) and output:
            output = output[0]
        if not isinstance(output, Tensor) or output.shape != flat[0].shape:
            return output  # the property `shape` tells of it
        return plan.split(plan.transpose_batch(output), h)
