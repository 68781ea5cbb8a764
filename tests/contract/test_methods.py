"""What every method owes: each record is asked the same questions.

What a method takes its record and its signature say; a question that it cannot be asked is passed
over by what they say, and by nothing else. What is peculiar to one method is in its own tests.
"""

import gc
import itertools
import math
import re
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import hypothesis
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import attnref
from attnref import distributed, masks, reference, variants
from attnref.conformance import Verdict, check
from attnref.record import Example
from attnref.variants import _tiled, block_sparse, blockwise, kv_cache, sliding_window

METHODS = (
    {"scaled_dot_product": reference.METHOD} | variants.records() | distributed.records()
)  # by name
ROOT = Path(__file__).parents[2]
PACKAGE = str(Path(attnref.__file__).parent)
each = pytest.mark.parametrize("name", METHODS)
TIGHT = {"rtol": 1e-10, "atol": 1e-10}
OUTSIDE = r"^\w+: expected a tensor outside of torch\.func"  # where ranks send each other numbers
# PyTorch's forward mode loads decompositions that it compiles by its own deprecated means.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


def those(wanted):
    names = [name for name, method in METHODS.items() if wanted(method)]
    return pytest.mark.parametrize("name", names)


def example(
    method, device="cpu", n=11, m=7, *, heads=4, key_heads=4, d_k=6, d_v=3, lead=(2,), **options
):
    """Tensors of these sizes, or of those that the method wants of them."""
    dtype, seed = options.get("dtype", torch.float64), options.get("seed", 0)
    if method.lengths == "equal":
        m = n
    elif method.lengths == "newest":
        n, m = min(n, m), max(n, m)
    generator = torch.Generator(device).manual_seed(seed)
    drawn = (
        torch.randn(*lead, *size, generator=generator, dtype=torch.float64, device=device)
        for size in ((heads, n, d_k), (key_heads, m, d_k), (key_heads, m, d_v))
    )
    return Example(*(x.to(dtype) for x in drawn), generator=generator)


def leaves(method, arguments):
    """The floating tensors among the arguments, detached, that get a gradient, by name."""
    return {
        name: one.detach().clone().requires_grad_()
        for name, one in arguments.items()
        if isinstance(one, Tensor) and one.is_floating_point() and name not in method.constants
    }


# The formula -------------------------------------------------------------------------------------


def choices(method, given):
    """The values of each option, by name."""
    n, m = given.n, given.m
    found = {
        "scale": [0.0, -0.7 if method.least_scale < 0 else 0.7],
        "is_causal": [False, True],
        "sink": [None, 0.5],
    }
    if method.takes("softcap"):
        found["softcap"] = [None, 1.3]
    if method.takes("attn_mask"):
        padding = masks.padding([m, max(0, m - 2)], m)
        found["attn_mask"] = [None, padding]
        if method.masks != "objects":
            found["attn_mask"].append(padding.dense(given.query.device))
        if method.masks in ("all", "objects"):
            found["attn_mask"].append(masks.Mask((n, m), lambda i, j: (i + j) % 3 != 0))
        if method.masks == "all":
            bias = torch.linspace(-1, 1, n * m, dtype=given.query.dtype, device=given.query.device)
            found["attn_mask"].append(bias.reshape(n, m))
    return {name: values for name, values in found.items() if method.takes(name)}


def pairs(choices):
    """Rows of a table in which any two values of two options meet in some row."""
    rows = list(itertools.product(*(range(len(values)) for values in choices.values())))
    left = set().union(*map(together, rows))
    while left:
        best = max(rows, key=lambda row: len(left & together(row)))
        left -= together(best)
        yield {name: choices[name][at] for name, at in zip(choices, best, strict=True)}


def together(row):
    """What meets in a row: every two of its places, or what there is of them."""
    return set(itertools.combinations(enumerate(row), min(2, len(row))))


sizes = st.fixed_dictionaries(
    {
        "n": st.integers(1, 13),
        "m": st.integers(1, 13),
        "key_heads": st.sampled_from([1, 2, 4]),
        "d_k": st.sampled_from([2, 6]),
        "d_v": st.sampled_from([1, 2, 3]),
        "seed": st.integers(0, 100),
    }
)


def derived(function, arguments, inputs, weight):
    """The output, and the gradients of its sum with these weights, by name."""
    found = function(**(arguments | inputs))
    every = torch.autograd.grad(
        (found * weight).sum(), list(inputs.values()), allow_unused=True, materialize_grads=True
    )
    return found.detach(), dict(zip(inputs, every, strict=True))


@contextmanager
def told(*what):
    """What was being asked when something failed."""
    try:
        yield
    except BaseException as error:  # a failure of pytest's, too
        error.add_note(", ".join(map(str, what)))
        raise


def close(found, expected, **within):
    torch.testing.assert_close(found, expected, **(within or TIGHT))


@pytest.mark.claim("exact-variants-one-function")
@those(lambda method: method.formula is not None)
@settings(max_examples=2, deadline=None, derandomize=True)
@given(sizes=sizes)
@hypothesis.example({"n": 9, "m": 9, "key_heads": 2, "d_k": 2, "d_v": 2, "seed": 0})
@hypothesis.example({"n": 2, "m": 2, "key_heads": 1, "d_k": 6, "d_v": 3, "seed": 1})
def test_it_computes_its_formula(name, device, sizes):
    """Values and gradients, whatever two options are combined; of two keys, padding leaves none."""
    method = METHODS[name]
    shared = method.takes("enable_gqa")
    whole = example(method, device, **(sizes if shared else sizes | {"key_heads": 4}))
    for options in pairs(choices(method, whole)):
        with told(options):
            arguments = method.arguments(
                whole, **options, **({"enable_gqa": True} if shared else {})
            )
            if not method.derivatives:
                close(method.function(**arguments), method.formula(**arguments))
                continue
            inputs = leaves(method, arguments)
            weight = whole.randn(*whole.query.shape[:-1], whole.value.shape[-1])
            ours = derived(method.function, arguments, inputs, weight)
            close(ours, derived(method.formula, arguments, inputs, weight))


# What it takes -----------------------------------------------------------------------------------


@those(lambda method: method.plain is not None)
def test_with_the_right_arguments_it_is_the_definition(name, device):
    method = METHODS[name]
    given = example(method, device, 7, 7)
    expected = attnref.scaled_dot_product_attention(
        given.query, given.key, given.value, is_causal=method.causal and not method.adapted
    )
    no_mask = [None] if method.takes("attn_mask") else []  # by its place, as in PyTorch's call
    close(method.as_definition()(given.query, given.key, given.value, *no_mask), expected)


@each
def test_arguments_are_called_and_ordered_as_pytorch_has_them(name):
    """Tensors that it needs follow the value, then PyTorch's options, then by name what chooses."""
    known = list(reference.METHOD.signature.parameters)[3:8]
    taken = METHODS[name].signature.parameters
    places = [one for one, it in taken.items() if it.kind is it.POSITIONAL_OR_KEYWORD]
    assert places[-5:] == known
    assert all(taken[one].default is taken[one].empty for one in places[:-5])
    if "key" in taken:
        assert places[:3] == ["query", "key", "value"]
    defaults = [reference.METHOD.signature.parameters[one].default for one in known]
    assert [taken[one].default for one in known] == defaults


@each
def test_an_option_that_says_nothing_takes_its_default_alone(name, device):
    method = METHODS[name]
    arguments = method.arguments(example(method, device))
    other = {"attn_mask": torch.ones(1, 1, dtype=torch.bool, device=device), "dropout_p": 0.1}
    for which in method.neutral:
        refused = pytest.raises(ValueError, match=rf"^{which}: expected (None|False|0\.0), got ")
        with told(which), refused:
            method.function(
                **(arguments | {which: other.get(which, 1.0 if which == "scale" else True)})
            )


def without_more(method):
    """Whether three tensors are enough."""
    parameters = list(method.signature.parameters.values())
    return parameters[1].name == "key" and all(x.default is not x.empty for x in parameters[3:])


@those(without_more)
@pytest.mark.parametrize("length", [1, 2, 67, 300])
def test_three_tensors_are_enough_at_any_length_and_give_the_same_again(name, device, length):
    method = METHODS[name]
    tensors = example(method, device, length, length, dtype=torch.float32).tensors
    output = method.function(**tensors)
    assert output.shape == tensors["value"].shape
    assert output.isfinite().all()
    assert method.function(**tensors).equal(output)


@those(lambda method: method.takes("enable_gqa"))
def test_fewer_key_heads_are_shared_when_it_is_asked_for(name, device):
    """That they are shared in groups of neighbours, the formula says."""
    method = METHODS[name]
    arguments = method.arguments(example(method, device, heads=6, key_heads=2))
    with pytest.raises(ValueError, match=r"If they are fewer heads meant to be shared, pass enabl"):
        method.function(**arguments)


def broadcasts(method):
    """The rates of a recurrence belong to its key heads, and pages have no heads in front."""
    keys = "key" in method.signature.parameters and method.dimensions < 4
    return keys and method.family != "recurrence"


@those(broadcasts)
def test_one_key_head_serves_all_without_a_word(name, device):
    method = METHODS[name]
    arguments = method.arguments(example(method, device))
    one = {which: arguments[which][..., :1, :, :] for which in ("key", "value")}
    whole = {which: x.expand_as(arguments[which]) for which, x in one.items()}
    close(method.function(**(arguments | one)), method.function(**(arguments | whole)))


@each
def test_what_is_no_such_argument_is_named(name, device):
    """Every argument in turn: None where None says nothing, and other types."""
    method = METHODS[name]
    arguments = method.arguments(example(method, device))
    for which, parameter in method.signature.parameters.items():
        for wrong in (None, "text", [[1.0]], object(), 2j):
            if wrong is None and parameter.default is None:
                continue
            refused = pytest.raises((TypeError, ValueError), match=rf"^{which}: expected ")
            with told(f"{which}={wrong!r}"), refused:
                method.function(**(arguments | {which: wrong}))


@pytest.mark.claim("meta-tensors-give-shapes")
@each
def test_tensors_without_numbers_give_a_shape(name):
    method = METHODS[name]
    given = example(method)
    arguments = {
        which: one.to("meta") if isinstance(one, Tensor) and one.is_floating_point() else one
        for which, one in method.arguments(given).items()
    }
    try:
        found = method.function(**arguments)
    except Exception as error:  # a claim fails, whatever PyTorch raises
        pytest.fail(f"raised {error!r}")
    assert found.is_meta
    assert found.dtype == given.query.dtype
    assert found.shape == (*given.query.shape[:-1], given.value.shape[-1])


@each
@pytest.mark.parametrize("n", [0, 1])
def test_no_tokens_and_one(name, n, device):
    method = METHODS[name]
    for m, lead, heads in ((0, (2,), 2), (1, (2,), 2), (5, (2,), 2), (5, (0,), 2), (5, (2,), 0)):
        given = example(method, device, n, m, lead=lead, heads=heads, key_heads=heads)
        arguments = method.arguments(given)
        with told(f"m={given.m}, lead={lead}, heads={heads}"):
            inputs = leaves(method, arguments) if method.derivatives else {}
            found = method.function(**(arguments | inputs))
            assert found.shape == (*given.query.shape[:-1], given.value.shape[-1])
            if inputs:
                torch.autograd.grad(found.sum(), list(inputs.values()), allow_unused=True)
            if method.formula is not None:
                close(found, method.formula(**arguments))


# How it computes ---------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_it_keeps_the_dtype_and_what_it_can_hold(name, dtype, device):
    """Its error is a few roundings of what is largest, beside what the formula gives in float64."""
    method = METHODS[name]
    arguments = method.arguments(example(method, device, dtype=dtype))
    found = method.function(**arguments)
    assert found.dtype == dtype
    if method.formula is not None:
        wide = {
            which: one.double() if isinstance(one, Tensor) and one.is_floating_point() else one
            for which, one in arguments.items()
        }
        expected = method.formula(**wide)
        within = 8 * torch.finfo(dtype).eps * expected.abs().max().item()
        close(found.double(), expected, rtol=0, atol=within)


@each
def test_by_products_as_on_a_gpu_it_is_the_same(name, device, monkeypatch):
    """A tile that no kernel computes, values and gradients; on whatever device this runs."""
    method = METHODS[name]
    given = example(method, device)
    for options in pairs(choices(method, given)):
        arguments, learned = method.arguments(given, **options), []
        if method.derivatives:
            learned = [given.query, given.key, given.value]
            learned = [
                x.requires_grad_() for x in learned if any(x is y for y in arguments.values())
            ]
        found = []
        for by_products in (False, True):
            with monkeypatch.context() as patch:
                for module in (_tiled, block_sparse, blockwise, kv_cache, sliding_window):
                    if by_products:
                        patch.setattr(module, "holds", lambda like: True)
                output = method.function(**arguments)
                weights = torch.linspace(-1, 1, output.numel(), device=device).view_as(output)
                wanted = [x for x in learned if output.requires_grad]
                found.append(
                    [output, *torch.autograd.grad((output * weights).sum(), wanted)]
                    if wanted
                    else [output]
                )
        close(found[1], found[0], **TIGHT)


@each
def test_autocast_takes_nothing_away(name, device):
    method = METHODS[name]
    arguments = method.arguments(example(method, device, dtype=torch.float32))
    expected = method.function(**arguments)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast(device.type, dtype=dtype):
            assert torch.equal(method.function(**arguments), expected)


@each
def test_the_default_device_is_not_asked(name, device):
    method = METHODS[name]
    given = example(method, device)
    for options in pairs(choices(method, given)):
        arguments = method.arguments(given, **options)
        expected = method.function(**arguments)
        with torch.device("meta"):
            assert torch.equal(method.function(**arguments), expected)


@each
def test_it_changes_nothing_and_draws_nothing(name, device):
    """The same call twice gives the same numbers, and the same inputs after it."""
    method = METHODS[name]
    arguments = method.arguments(example(method, device))
    before = {which: one.clone() for which, one in arguments.items() if isinstance(one, Tensor)}
    state = torch.get_rng_state()
    first = method.function(**arguments)
    kept = first.clone()
    assert torch.equal(method.function(**arguments), first)
    assert torch.equal(first, kept)
    assert torch.equal(torch.get_rng_state(), state)
    for which, one in before.items():
        assert torch.equal(arguments[which], one), which


@each
def test_tensors_may_lie_in_memory_as_they_like(name, device):
    """Transposed, between others, and expanded."""
    method = METHODS[name]
    arguments = method.arguments(example(method, device))
    tensors = {
        which: one
        for which, one in arguments.items()
        if isinstance(one, Tensor) and one.is_floating_point() and one.ndim > 1
    }
    for which, lie in {
        "transposed": lambda x: x.mT.contiguous().mT,
        "between others": lambda x: torch.stack([x, x + 1], -1).flatten(-2)[..., ::2],
        "expanded": lambda x: x[:1].expand_as(x),
    }.items():
        with told(which):
            views = {name: lie(one) for name, one in tensors.items()}
            copies = {
                name: one.clone(memory_format=torch.contiguous_format)
                for name, one in views.items()
            }
            close(method.function(**(arguments | views)), method.function(**(arguments | copies)))


@those(lambda method: method.takes("is_causal") or method.causal)
def test_later_tokens_reach_no_earlier_row(name, device):
    """Other numbers there; NaN and inf, where it says so."""
    method = METHODS[name]
    options = {} if method.causal else {"is_causal": True}

    def rows(strange=None):
        given = example(method, device, 9, 9)
        for which, one in given.tensors.items():
            if strange is not None and which not in method.leaks:
                one[..., 5:, :] = strange
        arguments = method.arguments(given, **options)
        if strange is not None and "latent" in arguments:
            arguments["latent"][..., 5:, :] = strange
        return method.function(**arguments)[..., :5, :]

    isolates = "causal" in method.isolates
    assert isolates or "NaN" in method.function.__doc__
    assert not method.leaks or "later tokens" in " ".join(method.function.__doc__.split())
    within = {"rtol": 0, "atol": method.error.bound} if method.error else {}
    for strange in (0.5, *((math.nan, math.inf, -math.inf) if isolates else ())):
        with told(strange):
            close(rows(strange), rows(), **within)


@those(lambda method: method.takes("attn_mask"))
def test_what_a_mask_of_keys_leaves_out_counts_for_nothing(name, device):
    """Other numbers there; NaN and inf, where it says so."""
    method = METHODS[name]
    given = example(method, device, 9, 9)
    arguments = method.arguments(given, attn_mask=masks.padding([9, 6], 9))
    expected = method.function(**arguments)
    assert expected.isfinite().all()
    isolates = "mask" in method.isolates
    assert isolates or "NaN" in method.function.__doc__
    for strange in (0.5, *((math.nan, math.inf, -math.inf) if isolates else ())):
        with told(strange):
            padding = {
                which: arguments[which].clone()
                for which in ("key", "value", "latent")
                if which in arguments
            }
            for tensor in padding.values():
                tensor[1, ..., 6:, :] = strange
            within = {"rtol": 0, "atol": method.error.bound} if method.error else {}
            close(method.function(**(arguments | padding)), expected, **within)


@those(lambda method: method.takes("attn_mask") and method.masks == "keys")
def test_a_mask_that_tells_queries_apart_is_refused(name, device):
    method = METHODS[name]
    given = example(method, device, 9, 9)
    for mask in (masks.causal(9), torch.zeros(1, 9, dtype=given.query.dtype, device=device)):
        with pytest.raises(ValueError, match=r"^attn_mask: expected bool over keys alone, "):
            method.function(**method.arguments(given, attn_mask=mask))


@those(lambda method: method.ways)
def test_other_ways_give_the_same(name, device):
    method = METHODS[name]
    given = example(method, device)
    for options in pairs(choices(method, given)):
        arguments = method.arguments(given, **options)
        inputs, weight = leaves(method, arguments), given.randn(*given.query.shape[:-1], 3)
        expected = derived(method.function, arguments, inputs, weight)
        for option, values in method.ways.items():
            for value in values:
                with told(f"{option}={value}, {options}"):
                    ours = derived(method.function, arguments | {option: value}, inputs, weight)
                    close(ours, expected)


@each
def test_nobody_passes_the_door_twice(name, device):
    method = METHODS[name]
    passed = walk(lambda: method.function(**method.arguments(example(method, device))))
    assert passed.count("enter") == 1


def walk(function):
    """The functions of attnref that a call passes."""
    passed = []

    def record(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            passed.append(code.co_name)

    gc.disable()  # a generator that another test left would be closed meanwhile, and be counted
    sys.setprofile(record)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return passed


# Derivatives -------------------------------------------------------------------------------------


def cases(method, device, **sizes):
    """Arguments with any two options together, and the tensors among them that have gradients."""
    given = example(method, device, 5, 5, heads=2, key_heads=2, **sizes)
    for options in pairs(choices(method, given)):
        arguments = method.arguments(given, **options)
        yield options, arguments, leaves(method, arguments)


def penalty(function, arguments, inputs):
    """The gradient of a loss with first, second and no derivatives in it."""

    def gradients(loss):
        return torch.autograd.grad(
            loss, list(inputs.values()), create_graph=True, materialize_grads=True
        )

    found = function(**(arguments | inputs))
    first = gradients(found.sin().sum())
    second = gradients(first[0].square().sum())
    return gradients(
        found.square().mean() + sum((x * y).sum() for x, y in zip(first, second, strict=True))
    )


@pytest.mark.claim("blocks-have-all-derivatives")
@each
def test_derivatives_of_derivatives_are_the_formulas_or_refused(name, device):
    method = METHODS[name]
    for options, arguments, inputs in cases(method, device):
        with told(options):
            if method.derivatives < 2:
                refused = r"without create_graph=True|without gradient"
                with pytest.raises((RuntimeError, ValueError), match=refused):
                    penalty(method.function, arguments, inputs)
            elif method.formula is not None:
                expected = penalty(method.formula, arguments, inputs)
                close(penalty(method.function, arguments, inputs), expected)
    if method.formula is None and method.error is None:  # of what is rounded it says nothing
        function = partial(by_place, method.function, arguments, list(inputs))
        assert torch.autograd.gradgradcheck(function, list(inputs.values()), fast_mode=True)


def by_place(function, arguments, names, *inputs):
    return function(**(arguments | dict(zip(names, inputs, strict=True))))


@pytest.mark.claim("blocks-have-all-derivatives")
@each
def test_derivatives_forwards_are_the_formulas_or_refused(name, device):
    """Along a direction of everything, and along one of the query alone."""
    method = METHODS[name]
    generator = torch.Generator(device).manual_seed(1)
    for options, arguments, inputs in cases(method, device):
        given = [one.detach() for one in inputs.values()]
        along = [
            torch.randn(one.shape, generator=generator, dtype=one.dtype, device=device)
            for one in given
        ]

        for count in (1, len(given)):
            moved = list(inputs)[:count], tuple(given[:count]), tuple(along[:count])
            with told(options, count):
                if method.derivatives < 2:
                    with pytest.raises(TypeError, match=OUTSIDE):
                        tangent(method.function, arguments, *moved)
                    continue
                found = tangent(method.function, arguments, *moved)
                if method.formula is None:
                    assert found.isfinite().all()
                else:
                    close(found, tangent(method.formula, arguments, *moved))


def tangent(function, arguments, names, given, along):
    call = partial(by_place, function, arguments, names)
    return torch.func.jvp(call, given, along)[1]


@pytest.mark.claim("blocks-have-all-derivatives")
@those(lambda method: method.formula is not None and method.derivatives > 1)
def test_derivatives_forwards_of_gradients_are_the_formulas(name, device):
    """As in a product of the Hessian with a vector."""
    method = METHODS[name]
    for options, arguments, inputs in cases(method, device):
        with told(options):
            found = curvature(method.function, arguments, inputs)
            close(found, curvature(method.formula, arguments, inputs))


def curvature(function, arguments, inputs):
    """How the gradients of a loss change along a direction."""
    given = tuple(one.detach() for one in inputs.values())

    def loss(*tensors):
        return by_place(function, arguments, inputs, *tensors).sin().sum()

    gradients = torch.func.grad(loss, tuple(range(len(given))))
    return torch.func.jvp(gradients, given, tuple(one.cos() for one in given))[1]


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of a fused kernel
@those(lambda method: method.dimensions < 4)  # others have a batch
def test_a_batch_by_vmap_is_a_loop_or_refused(name, device):
    """Of the function, and of its gradient as a function."""
    method = METHODS[name]
    arguments = method.arguments(example(method, device, lead=(5,)))
    tensors = {
        which: one
        for which, one in arguments.items()
        if isinstance(one, Tensor) and one.is_floating_point() and len(one) == 5
    }

    def call(tensors):
        return method.function(**(arguments | tensors))

    def gradient(tensors):
        return torch.func.grad(lambda tensors: call(tensors).square().sum())(tensors)["query"]

    for function in (call, gradient):
        if method.derivatives < 2:
            with pytest.raises(TypeError, match=OUTSIDE):
                torch.func.vmap(function)(tensors)
            continue
        found = torch.func.vmap(function)(tensors)
        for i, one in enumerate(found):
            close(one, function({which: x[i] for which, x in tensors.items()}))


@those(lambda method: method.plain is not None and method.name not in variants.records())
def test_the_checker_finds_nothing_wrong(name):
    report = check(METHODS[name].as_definition(), limit=None)
    assert not [one for one in report.results if one.verdict == Verdict.WRONG], report.text()


@those(lambda method: method.plain is not None and method.derivatives > 0)
def test_a_layer_takes_it_for_its_attention(name, device):
    """And gives what it gives with the definition; all weights get the same gradients."""
    method = METHODS[name]
    options = {"is_causal": True} if method.takes("is_causal") else {}
    if method.takes("attn_mask") and method.masks == "all":
        options["attn_mask"] = masks.padding([5, 3], 5)
    x = example(method, device, 5, 5).query.transpose(1, 2).flatten(2).requires_grad_()
    found = []
    for attention in (method.as_definition(), attnref.scaled_dot_product_attention):
        if found and method.causal and not method.adapted:
            options["is_causal"] = True
        layer = attnref.MultiHeadAttention(
            24,
            4,
            num_kv_heads=2 if method.takes("enable_gqa") else 4,
            attention=attention,
            generator=torch.Generator(device).manual_seed(0),
            device=device,
            dtype=x.dtype,
        )
        output = layer(x, **options)
        found.append([output, *torch.autograd.grad(output.sin().sum(), [x, *layer.parameters()])])
    close(*found)


def test_the_checker_finds_nothing_wrong_in_the_layer():
    report = check(attnref.MultiHeadAttention, limit=None)
    assert len(report.results) > 40
    assert not [one for one in report.results if one.verdict in (Verdict.WRONG, Verdict.UNSAFE)]
    assert "empty" in [one.rule.name for one in report.results if one.verdict == Verdict.PASS]


TABLE = ROOT / "snippets" / "variants" / "index" / "judged.out"


def test_of_a_variant_the_book_shows_that_the_checker_finds_nothing_wrong():
    """Its program asks the checker whenever the pages are tested; here, that it asks of all."""
    rows = re.findall(r"^(\w+) +\d+ +\d+ *(.*)$", TABLE.read_text("utf-8"), re.MULTILINE)
    asked = [name for name, method in variants.records().items() if method.plain is not None]
    assert [name for name, _ in rows] == asked
    assert not [name for name, rest in rows if "wrong" in rest]


@each
def test_it_has_a_page_and_peers_that_are_pinned(name):
    """In both languages, and with the version that it is compared with."""
    method = METHODS[name]
    for language in ("en", "pt"):
        assert (ROOT / "docs" / language / f"{method.page}.md").is_file()
    pinned = re.findall(
        r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE
    )
    assert set(method.peers) <= set(pinned)


def test_every_module_has_its_record():
    """Of a variant, or of a way across ranks: a public function called as the module is."""
    for room, known in ((variants, variants.records()), (distributed, distributed.records())):
        folder = Path(room.__file__).parent
        modules = {path.stem for path in folder.glob("[!_]*.py")}
        recorded = {method.function.__module__.rpartition(".")[2] for method in known.values()}
        helpers = {"layouts"} if room is distributed else set()
        assert recorded == modules - helpers
