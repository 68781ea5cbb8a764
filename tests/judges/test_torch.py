"""Two judges at once: the float64 oracle says what is right, PyTorch's own path how near to come.

The budget: ours may err at most 1.5 times as much as PyTorch does on the same input.

On large inputs errors are compared by their root mean square, and that is all. On small ones
chance decides: one rounding more or less is the whole error, and PyTorch is often exact. There
ours may add the rounding that no program can avoid, derived as follows. With u = eps/2,

- each weight and each result is rounded once, which moves a result by up to 2u times the sum of
  the absolute values of what it adds up, its *size*;
- a score is rounded once a term, by up to u·S with S = c·Σ|q||k| + |b|, which moves a weight by
  twice that share, once in its numerator and once in its denominator.

Together eps(result)·size + eps(computation)·S·size. In half precision the second part is nothing,
since the computation is wider.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import attnref
from attnref import oracle
from tests.variants.every import every

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float64}
INF, NAN = math.inf, math.nan


class Problem(NamedTuple):
    """The arguments of one call, and the gradient that arrives at its output."""

    tensors: list[Tensor]  # query, key, value, and the mask when it is a float one
    bool_mask: Tensor | None
    grad_output: Tensor
    options: dict

    @property
    def mask(self) -> Tensor | None:
        return self.tensors[3] if len(self.tensors) == 4 else self.bool_mask


def solve(attend, problem: Problem) -> list[Tensor]:
    """Output and gradients, in float64."""
    tensors = [x.detach().requires_grad_() for x in problem.tensors]
    mask = problem._replace(tensors=tensors).mask
    output = attend(*tensors[:3], attn_mask=mask, **problem.options)
    gradients = torch.autograd.grad(output, tensors, problem.grad_output)
    for tensor in (output, *gradients):
        assert tensor.dtype == problem.grad_output.dtype
    return [tensor.detach().double() for tensor in (output, *gradients)]


def pytorch(query: Tensor, key: Tensor, value: Tensor, attn_mask=None, **options) -> Tensor:
    """PyTorch's function, spared what it cannot do.

    It wants masks of two dimensions at least, and not two masks at once. With ``is_causal`` and a
    scale that is not positive its fused kernel for the CPU gives NaN: it scales the -inf.
    """
    if attn_mask is not None:
        attn_mask = torch.atleast_2d(attn_mask)
    positive = options["scale"] is None or options["scale"] > 0
    if options["is_causal"] and not (attn_mask is None and positive):
        past = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
        past = past.tril()
        if attn_mask is not None:
            past = torch.where(past, attn_mask, False if attn_mask.dtype == torch.bool else -INF)
        attn_mask, options = past, {**options, "is_causal": False}
    return F.scaled_dot_product_attention(query, key, value, attn_mask, **options)


def array(tensor: Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    return tensor.numpy() if tensor.dtype == torch.bool else tensor.double().numpy()


def exact(problem: Problem) -> tuple[list[Tensor], Tensor]:
    """The oracle's output and gradients, and its weights."""
    arguments = [array(x) for x in (*problem.tensors[:3], problem.mask) if x is not None]
    output, weights, _ = oracle.attend(*arguments, **problem.options)
    found = oracle.gradients(array(problem.grad_output), *arguments, **problem.options)
    results = [torch.from_numpy(x) for x in (output, *found) if x is not None]
    return [x.to(problem.grad_output.device) for x in results], torch.from_numpy(weights)


def errors(found: list[Tensor], truth: list[Tensor]) -> list[Tensor]:
    for one, other in zip(found, truth, strict=True):
        assert one.shape == other.shape
    return [one - other for one, other in zip(found, truth, strict=True)]


def largest(tensor: Tensor) -> float:
    return tensor.abs().amax().item()


def unavoidable(problem: Problem, weights: Tensor) -> list[float]:
    """What each result's budget gains on small inputs: see the top of this file."""
    weights = weights.to(problem.grad_output.device)
    q, k, v = (x.detach().double().abs() for x in problem.tensors[:3])
    do = problem.grad_output.double().abs()
    c = q.shape[-1] ** -0.5 if problem.options["scale"] is None else problem.options["scale"]
    group = q.shape[-3] // k.shape[-3] if problem.options["enable_gqa"] else 1
    if group > 1:
        k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)

    def gather(x: Tensor) -> Tensor:
        return x.unflatten(-3, (-1, group)).sum(-3) if group > 1 else x

    scores = abs(c) * q @ k.mT  # (..., n, m)
    dp = do @ v.mT
    ds = weights * (dp + (weights * dp).sum(-1, keepdim=True))
    sizes = [weights @ v, abs(c) * ds @ k, gather(abs(c) * ds.mT @ q), gather(weights.mT @ do)]
    if len(problem.tensors) == 4:
        added = problem.tensors[3].detach().double().abs()
        scores = scores + added.masked_fill(added == INF, 0.0)
        sizes.append(ds.sum_to_size(added.shape))
    dtype = problem.grad_output.dtype
    eps, inner = (torch.finfo(kind).eps for kind in (dtype, WIDER.get(dtype, dtype)))
    return [(eps + inner * largest(scores)) * largest(size) for size in sizes]


LAYOUTS = {
    "contiguous": lambda x: x,
    "columns first": lambda x: x.mT.contiguous().mT,
    "lengths first": lambda x: x.transpose(0, -2).contiguous().transpose(0, -2),
    "every second": lambda x: x.repeat_interleave(2, dim=-1)[..., ::2],
    "one row for all": lambda x: x[..., :1, :].expand(x.shape),
}


@st.composite
def problems(draw, device: torch.device) -> Problem:
    """Shapes, kinds and strides are Hypothesis's; the numbers come from a seeded generator."""
    sizes = st.sampled_from([1, 2, 3, 5, 7, 11])
    dtype = draw(st.sampled_from(DTYPES))
    n, m, d_k = draw(sizes), draw(sizes), draw(sizes)
    d_v = draw(st.one_of(st.just(d_k), sizes))  # PyTorch's fused kernels ask for equal widths
    enable_gqa = draw(st.booleans())
    lead = draw(st.sampled_from([(2, 3), (1, 2)] if enable_gqa else [(), (3,), (2, 3), (2, 1, 3)]))
    heads = (*lead[:-1], 2 * lead[-1]) if enable_gqa else lead
    seed = draw(st.integers(0, 2**31))
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, generator=generator, dtype=torch.float64).to(dtype)

    tensors = [
        LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](normal(*shape))
        for shape in [(*heads, n, d_k), (*lead, m, d_k), (*lead, m, d_v)]
    ]
    # Any shape that broadcasts to the scores: leading dimensions missing, others of size 1.
    shape = [size if draw(st.booleans()) else 1 for size in (*heads, n, m)]
    shape = shape[draw(st.integers(0, len(shape))) :]
    kind = draw(st.sampled_from(["none", "bool", "float"]))
    allowed = torch.rand(shape, device=device, generator=generator) > 0.3
    if kind == "float":
        tensors.append(normal(*shape).masked_fill(~allowed, -INF))
    options = {
        "is_causal": draw(st.booleans()),
        "scale": draw(st.sampled_from([None, 0.3, -1.0, 0.0])),
        "enable_gqa": enable_gqa,
    }
    return Problem(tensors, allowed if kind == "bool" else None, normal(*heads, n, d_v), options)


# Derandomised: the same examples in every run. A deadline would judge the machine.
@pytest.mark.claim("within-the-error-budget")
@settings(
    max_examples=200,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_small_inputs(data, device):
    """Shapes, masks, strides and dtypes of all kinds, values and gradients."""
    problem = data.draw(problems(device))
    truth, weights = exact(problem)
    ours = errors(solve(attnref.scaled_dot_product_attention, problem), truth)
    theirs = errors(solve(pytorch, problem), truth)
    for own, other, extra in zip(ours, theirs, unavoidable(problem, weights), strict=True):
        assert largest(own) <= 1.5 * largest(other) + extra


def root_mean_square(tensor: Tensor) -> float:
    return tensor.double().square().mean().sqrt().item()


def large(kind: str, dtype: torch.dtype, d_v: int, generator: torch.Generator) -> Problem:
    device = generator.device

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, generator=generator, dtype=torch.float64).to(dtype)

    n, m, d_k = 61, 67, 37
    tensors = [normal(2, 1, n, d_k), normal(2, 1, m, d_k), normal(2, 1, m, d_v)]
    allowed = torch.rand(n, m, device=device, generator=generator) > 0.3
    if kind == "float":
        tensors.append(normal(n, m).masked_fill(~allowed, -INF))
    mask = allowed if kind == "bool" else None
    options = {"is_causal": kind == "causal", "scale": None, "enable_gqa": False}
    return Problem(tensors, mask, normal(2, 1, n, d_v), options)


@pytest.mark.claim("within-the-error-budget")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@every("d_v", [37, 41])
@every("kind", ["none", "causal", "bool", "float"])
def test_large_inputs(dtype, kind, d_v, generator):
    problem = large(kind, dtype, d_v, generator)
    truth, _ = exact(problem)
    ours = errors(solve(attnref.scaled_dot_product_attention, problem), truth)
    theirs = errors(solve(pytorch, problem), truth)
    for own, other in zip(ours, theirs, strict=True):
        assert root_mean_square(own) <= 1.5 * root_mean_square(other)


@pytest.mark.claim("within-the-error-budget")
@every("dtype", DTYPES)
def test_a_few_roundings_more_exceed_the_budget(dtype, generator):
    """The same sums, but with a factor that was rounded badly: eight units in the last place."""
    problem = large("none", dtype, 37, generator)
    truth, _ = exact(problem)
    theirs = errors(solve(pytorch, problem), truth)
    off = 1 + 8 * torch.finfo(dtype).eps

    def worse(query, key, value, **options):
        return (attnref.scaled_dot_product_attention(query, key, value, **options) * off).to(dtype)

    for own, other in zip(errors(solve(worse, problem), truth), theirs, strict=True):
        assert root_mean_square(own) > 1.5 * root_mean_square(other)
