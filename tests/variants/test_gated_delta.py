"""The gated delta family: one function, by chunks, token by token and as a square."""

import itertools
import math
import re

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attnref.variants.gated_delta import gated_delta_attention, gated_delta_attention_step
from attnref.variants.linear import linear_state
from tests.variants.every import every

D_K, D_V = 5, 7
# Each number is a sum of up to a few hundred products of numbers of about 1, some roundings each.
CLOSE = {"rtol": 1e-12, "atol": 1e-12}

# What each member has: a decay per head (constant or not), a gate per component, a rate.
MEMBERS = {
    "linear": (None, False),
    "RetNet": ("constant", False),
    "Mamba-2": ("decay", False),
    "GLA": ("gate", False),
    "DeltaNet": (None, True),
    "Gated DeltaNet": ("decay", True),
    "KDA": ("gate", True),
}


@pytest.fixture
def inputs(randn):
    """All six, as a layer makes them: keys of length 1, decays below 1, rates between 0 and 1."""

    def drawn(member, n=41, lead=(2, 3), strength=1.0):
        kind, has_rate = MEMBERS[member]
        given = {
            "query": randn(*lead, n, D_K),
            "key": torch.nn.functional.normalize(randn(*lead, n, D_K), dim=-1),
            "value": randn(*lead, n, D_V),
            "state": randn(*lead, D_K, D_V),
        }
        if kind is not None:
            shape = {"constant": (*lead, 1), "decay": (*lead, n), "gate": (*lead, n, D_K)}[kind]
            given["log_decay"] = -strength * randn(*shape).abs()
        if has_rate:
            given["beta"] = randn(*lead, n).sigmoid()
        return {name: tensor.requires_grad_() for name, tensor in given.items()}

    return drawn


def by_recurrence(query, key, value, state, log_decay=None, beta=None, scale=None):
    """As the formula is written, with the matrix that each token multiplies the state by."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    eye = torch.eye(key.shape[-1], dtype=key.dtype, device=key.device)
    outputs = []
    for t in range(query.shape[-2]):
        k, v = key[..., t, :, None], value[..., t, None, :]  # (..., d_k, 1), (..., 1, d_v)
        if log_decay is not None:
            gate = log_decay[..., None] if log_decay.dim() < key.dim() else log_decay
            gate = gate.expand(key.shape)[..., t, :]
            state = torch.diag_embed(gate.exp()) @ state
        if beta is None:
            state = state + k @ v
        else:
            rate = beta[..., t, None, None]
            state = (eye - rate * k @ k.mT) @ state + rate * k @ v
        outputs.append(scale * query[..., t, None, :] @ state)
    return torch.cat(outputs, -2), state


def by_square(query, key, value, log_decay=None, beta=None, scale=None):
    """All n × n weights, without a state: attention with a matrix in place of the softmax."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    n = query.shape[-2]
    decay = torch.zeros_like(key)
    if log_decay is not None:
        decay = log_decay[..., None] if log_decay.dim() < key.dim() else log_decay
        decay = decay.expand(key.shape)
    spans = torch.zeros(*key.shape[:-2], n, n, key.shape[-1], dtype=key.dtype, device=key.device)
    for i in range(n):
        for j in range(i):
            spans[..., i, j, :] = decay[..., j + 1 : i + 1, :].sum(-2)

    def weights(rows):
        return (rows[..., :, None, :] * key[..., None, :, :] * spans.exp()).sum(-1)

    weight = scale * weights(query).tril()
    if beta is not None:
        eye = torch.eye(n, dtype=key.dtype, device=key.device)
        corrected = eye + beta[..., None] * weights(key).tril(-1)
        weight = weight @ torch.linalg.inv(corrected) * beta[..., None, :]
    return weight @ value


def compared(ours, expected, inputs, randn, **close):
    torch.testing.assert_close(ours, expected, **close)
    cotangents = [randn(*one.shape) for one in ours]
    torch.testing.assert_close(
        torch.autograd.grad(ours, inputs, cotangents),
        torch.autograd.grad(expected, inputs, cotangents, retain_graph=True),
        **close,
    )


# One function ------------------------------------------------------------------------------------


@pytest.mark.claim("delta-chunks-are-the-recurrence")
@pytest.mark.parametrize("member", MEMBERS)
def test_chunks_are_the_recurrence_in_values_and_gradients(member, inputs, randn, subtests):
    """Of all six inputs, and of both results."""
    for n in (1, 2, 13, 41):
        with subtests.test(n=n):
            given = inputs(member, n=n)
            ours = gated_delta_attention_step(**given, scale=0.3, block_size=8)
            expected = by_recurrence(**given, scale=0.3)
            compared(ours, expected, [*given.values()], randn, **CLOSE)


@pytest.mark.claim("delta-is-a-square-of-weights")
@pytest.mark.parametrize("member", MEMBERS)
def test_chunks_are_the_square_in_values_and_gradients(member, inputs, randn):
    given = inputs(member, n=23, lead=(2,))
    del given["state"]
    ours = gated_delta_attention(**given, block_size=8)
    compared([ours], [by_square(**given)], [*given.values()], randn, **CLOSE)


@pytest.mark.claim("delta-chunk-size-is-free")
@pytest.mark.parametrize("member", MEMBERS)
def test_the_size_of_the_chunks_does_not_matter(member, inputs, subtests):
    given = {name: tensor.detach() for name, tensor in inputs(member, n=97).items()}
    expected = by_recurrence(**given)
    for block_size in (1, 2, 4, 16, 64, 256):
        with subtests.test(block_size=block_size):
            ours = gated_delta_attention_step(**given, block_size=block_size)
            torch.testing.assert_close(ours, expected, **CLOSE)


@pytest.mark.claim("delta-state-is-handed-over")
@pytest.mark.parametrize("member", MEMBERS)
def test_the_parts_of_a_sequence_give_what_the_whole_gives(member, inputs, randn, subtests):
    given = inputs(member)
    whole = gated_delta_attention_step(**given, block_size=16)
    tokens = {  # the third dimension of each
        name: tensor.expand(2, 3, 41) if tensor.shape[-1] == 1 else tensor
        for name, tensor in given.items()
        if name != "state"
    }
    for cuts in ((0, 41), (1, 40), (17, 24), (8, 8, 25), (1,) * 41):
        with subtests.test(cuts=cuts):
            state, outputs, start = given["state"], [], 0
            for length in cuts:
                part = {name: x[:, :, start : start + length] for name, x in tokens.items()}
                output, state = gated_delta_attention_step(**part, state=state, block_size=16)
                outputs.append(output)
                start += length
                assert state.shape == (2, 3, D_K, D_V)
            compared((torch.cat(outputs, -2), state), whole, [*given.values()], randn, **CLOSE)


@pytest.mark.claim("delta-padding-leaves-the-state")
@pytest.mark.parametrize("member", MEMBERS)
def test_a_token_of_rate_zero_and_decay_one_leaves_the_state(member, inputs, randn):
    """Without a rate, a key of zeros."""
    given = {name: tensor.detach() for name, tensor in inputs(member, n=11).items()}
    if given.get("log_decay", given["query"]).shape[-1] == 1:
        given["log_decay"] = given["log_decay"].repeat(1, 1, 11)
    expected, state = gated_delta_attention_step(**given)
    longer = {}
    for name, tensor in given.items():
        pad = randn(*tensor.shape[:2], 5, *tensor.shape[3:])
        if name in ("log_decay", "beta") or (name == "key" and "beta" not in given):
            pad = torch.zeros_like(pad)
        longer[name] = tensor if name == "state" else torch.cat([tensor, pad], 2)
    output, after = gated_delta_attention_step(**longer)
    torch.testing.assert_close(output[..., :11, :], expected, **CLOSE)
    torch.testing.assert_close(after, state, **CLOSE)


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("member", ["DeltaNet", "KDA"])
def test_a_token_of_rate_zero_may_hold_anything(member, n, inputs):
    """Padding is left out, in the middle too, token by token and in chunks."""
    given = {name: tensor.detach().clone() for name, tensor in inputs(member, n=n).items()}
    left_out = n // 2
    given["beta"][..., left_out] = 0.0
    if "log_decay" in given:
        given["log_decay"][:, :, left_out] = 0.0
    expected = by_recurrence(**given)
    for key, value in [(0.5, math.inf), (math.nan, 3.0), (-math.inf, math.nan)]:
        given["key"][..., left_out, :], given["value"][..., left_out, :] = key, value
        torch.testing.assert_close(gated_delta_attention_step(**given), expected, **CLOSE)


@pytest.mark.parametrize("member", MEMBERS)
def test_nan_or_inf_reaches_its_row_and_all_later_ones(member, inputs, subtests):
    """As in the recurrence, however the tokens are cut; what is finite is equal."""
    clean = {name: tensor.detach() for name, tensor in inputs(member, n=7).items()}
    if clean.get("log_decay", clean["query"]).shape[-1] == 1:
        clean["log_decay"] = clean["log_decay"].repeat(1, 1, 7)
    for broken, number in itertools.product(clean, (math.nan, math.inf)):
        if broken == "query":
            continue
        with subtests.test(broken=broken, number=number):
            given = {name: tensor.clone() for name, tensor in clean.items()}
            given[broken][(0, 1, 3, 2) if given[broken].dim() > 3 else (0, 1, 3)] = number
            after, rows = given.pop("state"), []
            state, expected = after, by_recurrence(**given, state=after)[0]
            for t in range(7):
                row = {name: x[:, :, t : t + 1] for name, x in given.items()}
                output, after = gated_delta_attention_step(**row, state=after)
                rows.append(output)
            rows = torch.cat(rows, 2)
            first = 0 if broken == "state" else 3
            torch.testing.assert_close(rows[:, :, :first], expected[:, :, :first], **CLOSE)
            touched = [2] if broken in ("value", "state") else range(D_V)
            assert not rows[0, 1, first:, touched].isfinite().any()
            for block_size in (2, 8):
                ours = gated_delta_attention_step(**given, state=state, block_size=block_size)
                for found, wanted in zip(ours, (rows, after), strict=True):
                    finite = wanted.isfinite()
                    assert torch.equal(found.isfinite(), finite)
                    torch.testing.assert_close(found[finite], wanted[finite], **CLOSE)


@pytest.mark.claim("delta-family-holds-linear")
def test_without_decay_and_rate_it_is_the_numerator_of_linear_attention(inputs):
    given = inputs("linear")
    del given["state"]
    sums = gated_delta_attention(**given, scale=1.0)
    query = given["query"]
    for i in (0, 17, 40):
        state = linear_state(
            given["key"][..., : i + 1, :], given["value"][..., : i + 1, :], feature_map=lambda x: x
        )
        one = query[..., i : i + 1, :] @ state.key_value
        torch.testing.assert_close(sums[..., i : i + 1, :], one, **CLOSE)


@pytest.mark.parametrize("has_rate", [False, True])
def test_a_gate_that_is_the_same_for_all_components_is_a_decay(has_rate, inputs):
    """Sizes of 1 are repeated, those of the rate too."""
    given = inputs("Gated DeltaNet" if has_rate else "Mamba-2")
    whole = {name: given[name] for name in ("log_decay", "beta") if name in given}
    for short in (slice(None), slice(1)):
        cut = {name: x[short, :, :1] if short.stop else x for name, x in whole.items()}
        wide = {name: x.expand(2, 3, 41) for name, x in cut.items()}
        expected = gated_delta_attention_step(**given | wide)
        for gate in (
            cut["log_decay"][..., None],
            wide["log_decay"][..., None].expand(2, 3, 41, D_K),
        ):
            ours = gated_delta_attention_step(**given | cut | {"log_decay": gate})
            torch.testing.assert_close(ours, expected, **CLOSE)
        torch.testing.assert_close(gated_delta_attention_step(**given | cut), expected, **CLOSE)


@every(
    ("change", "message"),
    [
        ({"key": (2, 3, 40, D_K), "value": (2, 3, 40, D_V)}, "key: expected 41 tokens, as query"),
        ({"log_decay": (41,)}, "log_decay: expected shape (2, 3, 41), a decay per head and token,"),
        ({"log_decay": (2, 3, 40)}, "log_decay: expected shape (2, 3, 41), a decay per head and"),
        ({"log_decay": (2, 3, 41, 4)}, "log_decay: expected shape (2, 3, 41), a decay per head"),
        ({"beta": (41,)}, "beta: expected shape (2, 3, 41), a rate per head and token, got (41,)."),
        ({"beta": (2, 3, 41, 1)}, "beta: expected shape (2, 3, 41), a rate per head and token,"),
        ({"state": (2, 3, D_V, D_K)}, "state: expected shape (2, 3, 5, 7), a matrix of d_k rows"),
        ({"state": (D_K, D_V)}, "state: expected shape (2, 3, 5, 7), a matrix of d_k rows and"),
        ({"block_size": 48}, "block_size: expected a power of two, got 48. Take 64"),
        (
            {"block_size": 0},
            "block_size: expected an integer of 1 or more, got 0. It is the number",
        ),
    ],
)
def test_what_does_not_fit_is_named(change, message, inputs, randn):
    change = {name: randn(*x) if isinstance(x, tuple) else x for name, x in change.items()}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        gated_delta_attention_step(**inputs("Gated DeltaNet") | change)


# What the rule does ------------------------------------------------------------------------------


@pytest.mark.claim("delta-rule-is-a-gradient-step")
def test_the_delta_rule_is_one_step_of_gradient_descent(inputs):
    """On half the squared error of what the state, after its decay, says of the key."""
    given = inputs("KDA", n=1)
    before = (given["log_decay"].mT.exp() * given["state"]).detach().requires_grad_()
    told = given["key"] @ before
    loss = (told - given["value"]).square().sum() / 2
    (slope,) = torch.autograd.grad(loss, before)
    _, after = gated_delta_attention_step(**given)
    step = before - given["beta"][..., None] * slope
    torch.testing.assert_close(after, step, **CLOSE)


@pytest.mark.claim("delta-rule-overwrites")
def test_a_key_that_comes_again_is_overwritten(randn, device):
    """With rate 1 and keys of length 1; added up, both values remain."""
    key = torch.eye(D_K, dtype=torch.float64, device=device)[[0, 1, 2, 0]]
    value = randn(4, D_V)
    for log_decay in (None, -randn(4).abs()):
        _, state = gated_delta_attention_step(
            key, key, value, beta=torch.ones_like(key[:, 0]), log_decay=log_decay
        )
        torch.testing.assert_close(key[3] @ state, value[3], **CLOSE)
    _, added = gated_delta_attention_step(key, key, value)
    torch.testing.assert_close(key[3] @ added, value[0] + value[3], **CLOSE)


@pytest.mark.claim("delta-rule-grows-beyond-two")
@pytest.mark.parametrize("length", [1.0, 1.7])
def test_a_rate_times_squared_length_of_two_or_more_may_grow(length, randn, device):
    """With the sign that is worst: values that alternate; the norm after 200 and 400 tokens."""
    key = (length * torch.nn.functional.normalize(randn(1, D_K), dim=-1)).expand(400, D_K)
    start, value = randn(D_K, D_V), randn(1, D_V).expand(400, D_V)
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64, device=device).repeat(200)[:, None]

    def norms(strength, value):
        beta = torch.full((400,), strength / length**2, dtype=torch.float64, device=device)
        _, half = gated_delta_attention_step(
            key[:200], key[:200], value[:200], start, beta=beta[:200]
        )
        _, whole = gated_delta_attention_step(key, key, value, start, beta=beta)
        return half.norm().item(), whole.norm().item()

    size = value[0].norm().item() / length  # of a state that returns the value
    for strength in (0.5, 1.0, 1.9):
        most = start.norm().item() + strength / (1 - abs(1 - strength)) * size
        assert max(norms(strength, signs * value)) <= most
    half, whole = norms(2.0, signs * value)
    assert whole == pytest.approx(2 * 400 * size, rel=0.01)
    assert half == pytest.approx(2 * 200 * size, rel=0.02)
    assert max(norms(2.0, value)) <= start.norm().item() + 2 * size  # it swings
    for values in (signs * value, value, torch.zeros_like(value)):
        half, whole = norms(2.2, values)
        assert whole == pytest.approx(1.2**200 * half, rel=1e-6)


@pytest.mark.claim("delta-forgets-beyond-its-width")
@pytest.mark.parametrize("count", [D_K - 2, D_K, D_K + 1, D_K + 3])
def test_a_state_returns_as_many_values_as_there_are_components(count, randn, device):
    """Read again and again; what then is missing is what no state at all returns."""
    key = torch.nn.functional.normalize(randn(count, D_K), dim=-1)
    value = randn(count, D_V)
    tokens = [x.repeat(1500, 1) for x in (key, key, value)]
    beta = torch.ones(len(tokens[0]), dtype=torch.float64, device=device)
    _, state = gated_delta_attention_step(*tokens, beta=beta)
    missing = (key @ state - value).norm()
    least = (key @ torch.linalg.pinv(key) @ value - value).norm()  # of all states
    if count <= D_K:
        assert missing <= 1e-9 * value.norm()
    else:
        assert missing >= least >= 0.05 * value.norm()
        _, added = gated_delta_attention_step(key, key, value)
        assert (key @ added - value).norm() >= least


# Numbers -----------------------------------------------------------------------------------------


@pytest.mark.claim("delta-strong-decay-is-harmless")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("member", "strength"),
    [
        *(("RetNet", 1e4), ("Mamba-2", math.inf), ("GLA", 50.0), ("GLA", math.inf)),
        *(("Gated DeltaNet", 50.0), ("KDA", 1e4), ("KDA", math.inf)),
    ],
)
def test_decays_of_any_strength_do_no_harm(member, strength, dtype, inputs, randn):
    """Some tokens forget nearly all, or all; the others keep their digits, gradients too."""
    given = inputs(member, n=67)
    decay = given["log_decay"].detach().clone()
    decay[randn(*decay.shape) > 0.5] = -strength
    given["log_decay"] = decay.requires_grad_()
    expected = by_recurrence(**given)
    narrow = {name: tensor.detach().to(dtype).requires_grad_() for name, tensor in given.items()}
    ours = gated_delta_attention_step(**narrow, block_size=32)
    eps = torch.finfo(dtype).eps  # of which half for each of three inputs, and for a few sums
    for one, other in zip(ours, expected, strict=True):
        assert (one - other).norm() <= 4 * eps * other.norm()
    weights = [randn(*one.shape) for one in expected]
    found = torch.autograd.grad(ours, [*narrow.values()], [w.to(dtype) for w in weights])
    exact = torch.autograd.grad(expected, [*given.values()], weights)
    for one, other in zip(found, exact, strict=True):
        assert one.isfinite().all()
        assert (one - other).norm() <= 8 * eps * other.norm()


@pytest.mark.claim("delta-keys-shrunk-and-grown-overflow")
def test_the_usual_factors_overflow_where_these_do_not(randn):
    """Queries times exp(G), keys times exp(-G): right until G passes 88 in float32."""
    n = 64
    query, key, value = (randn(n, D_K, dtype=torch.float32) for _ in range(3))
    for strength, finite in ((1.0, True), (3.0, False)):
        log_decay = torch.full((n, D_K), -strength, dtype=torch.float32, device=query.device)
        grown = log_decay.cumsum(-2)
        scores = (query * grown.exp()) @ (key * (-grown).exp()).mT
        naive = scores.tril() @ value * D_K**-0.5
        ours = gated_delta_attention(query, key, value, log_decay=log_decay)
        assert ours.isfinite().all()
        assert naive.isfinite().all() == finite


@pytest.mark.claim("delta-is-stable-in-half-precision")
@pytest.mark.parametrize("members", [("RetNet", "GLA"), ("DeltaNet", "Gated DeltaNet", "KDA")])
def test_at_a_length_of_8192_it_errs_no_more_than_the_recurrence(
    members, generator, device, subtests
):
    """Against the recurrence in float64 on the rounded inputs; theirs is that in float32.

    With a gate for each, several members and dtypes are one recurrence.
    """
    n, d = 8192, 32
    calls = {}

    def drawn(*shape):
        return torch.randn(*shape, device=device, generator=generator)

    for member, dtype in itertools.product(members, (torch.float32, torch.bfloat16, torch.float16)):
        kind, has_rate = MEMBERS[member]
        key = torch.nn.functional.normalize(drawn(1, n, d), dim=-1)
        given = {"query": drawn(1, n, d), "key": key, "value": drawn(1, n, d)}
        given = {name: tensor.to(dtype) for name, tensor in given.items()}
        if kind is not None:
            shape = {"constant": (1, 1), "decay": (1, n), "gate": (1, n, d)}[kind]
            given["log_decay"] = -0.01 * drawn(*shape).exp()  # in float32, as layers compute it
        if has_rate:
            given["beta"] = drawn(1, n).sigmoid()
        calls[member, dtype] = given

    def loop(dtype):
        wide = {}
        for name in ("query", "key", "value", "log_decay", *(["beta"] if has_rate else [])):
            tensors = [given.get(name, torch.zeros(1, 1)) for given in calls.values()]
            if name == "log_decay":
                tensors = [x if x.dim() > 2 else x[..., None] for x in tensors]
                tensors = [x.expand(1, n, d) for x in tensors]
            wide[name] = torch.cat([x.to(device, dtype) for x in tensors])
        return by_recurrence(**wide, state=torch.zeros(len(calls), d, d).to(device, dtype))

    with torch.no_grad():
        judges = zip(*loop(torch.float64), *loop(torch.float32), strict=True)
    for ((member, dtype), given), judge in zip(calls.items(), judges, strict=True):
        with subtests.test(member=member, dtype=dtype):
            ours, state = (x[0] for x in gated_delta_attention_step(**given))
            assert (ours.dtype, state.dtype) == (dtype, torch.float32)
            exact, last, theirs, theirs_last = judge
            assert (ours - exact).norm() <= 1.5 * (theirs.to(dtype) - exact).norm()
            assert (state - last).norm() <= 1.5 * (theirs_last - last).norm()
            assert ours.isfinite().all()


def test_decay_and_rate_keep_a_wider_dtype(inputs):
    """A decay near 1 is rounded to 1 in bfloat16; layers compute it in float32."""
    given = inputs("Gated DeltaNet")
    given = {name: tensor.detach() for name, tensor in given.items()}
    given["log_decay"] = torch.full_like(given["log_decay"], math.log(0.999))
    halves = {
        name: tensor.to(torch.float32 if name in ("log_decay", "beta", "state") else torch.bfloat16)
        for name, tensor in given.items()
    }
    ours, state = gated_delta_attention_step(**halves)
    wide = {name: tensor.double() for name, tensor in halves.items()}
    exact, last = by_recurrence(**wide)
    torch.testing.assert_close(state.double(), last, rtol=0, atol=1e-5)
    torch.testing.assert_close(ours.double(), exact, rtol=0.51 * 2**-7, atol=1e-5)


# Shapes and kinds --------------------------------------------------------------------------------


@pytest.mark.parametrize("member", MEMBERS)
def test_it_takes_any_batch_and_any_length(member, inputs, subtests):
    for lead, n in (((), 0), ((), 13), ((3,), 1), ((0, 4), 13), ((2, 1, 3), 0), ((2, 1, 3), 13)):
        with subtests.test(lead=lead, n=n):
            given = inputs(member, n=n, lead=lead)
            output, state = gated_delta_attention_step(**given, block_size=4)
            assert output.shape == (*lead, n, D_V)
            assert state.shape == (*lead, D_K, D_V)
            if n == 0:
                assert torch.equal(state, given["state"])
            sum(x.sum() for x in (output, state)).backward()
            assert all(x.grad is None or x.grad.isfinite().all() for x in given.values())


@pytest.mark.claim("delta-memory-is-linear")
@pytest.mark.parametrize("member", MEMBERS)
def test_memory_grows_with_the_length_and_no_square_is_made(member, inputs):
    """Without gradients, on a CPU: of a long text, no tensor is larger than inputs and output."""
    sizes = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            made = result if isinstance(result, list | tuple) else [result]
            sizes.extend(x.numel() for x in made if isinstance(x, torch.Tensor))
            return result

    def largest(n, block_size):
        given = {name: x.detach().cpu() for name, x in inputs(member, n=n, lead=()).items()}
        sizes.clear()
        with Sizes():
            ours = gated_delta_attention_step(**given, block_size=block_size)
        found = max(sizes)
        torch.testing.assert_close(ours, by_recurrence(**given), **CLOSE)  # it was all computed
        return found

    assert largest(256, 16) == 256 * D_V  # the output
    assert largest(64, 64) == 64 * 64  # one square


# Errors ------------------------------------------------------------------------------------------


def test_what_is_no_floating_tensor_is_named(inputs):
    given = inputs("KDA")
    for name in ("log_decay", "beta", "state"):
        for wrong, message in (
            (0.5, r"a torch\.Tensor, got float\."),
            (given[name].long(), "a floating dtype of 16 bits or more"),
            (given[name].detach().to("meta"), "device (cpu|cuda:0), where query is"),
        ):
            with pytest.raises((TypeError, ValueError), match=f"^{name}: expected {message}"):
                gated_delta_attention_step(**given | {name: wrong})


@pytest.mark.parametrize("n", [1, 5])
def test_nothing_depends_on_autocast(n, inputs, device):
    given = {name: tensor.detach().float() for name, tensor in inputs("KDA", n=n).items()}
    expected = gated_delta_attention_step(**given)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        found = gated_delta_attention_step(**given)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("member", MEMBERS)
def test_heads_share_keys_by_broadcasting(member, inputs, randn):
    given = inputs(member, lead=(2, 2))
    del given["state"]
    query = randn(2, 6, 41, D_K)
    grouped = gated_delta_attention(**given | {"query": query}, enable_gqa=True)
    wide = {name: tensor[:, :, None] for name, tensor in given.items() if name != "query"}
    spread = gated_delta_attention(query.unflatten(1, (2, 3)), **wide)
    torch.testing.assert_close(spread.flatten(1, 2), grouped, **CLOSE)
