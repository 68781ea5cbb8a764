"""What others compute: the code of Transformers' models, and of flash-linear-attention.

Theirs is in float32; how near both come to float64 is compared, and their gradients with ours.
"""

import importlib

import pytest
import torch

from attnref.variants.gated_delta import gated_delta_attention_step

HEADS, N, D_K, D_V = 3, 83, 11, 7
CHUNK = 16


def model(name):
    pytest.importorskip("transformers", reason="transformers is not installed")
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


@pytest.fixture
def inputs(randn):
    def drawn(kind, has_rate, n=N):
        given = {
            "query": randn(2, HEADS, n, D_K),
            "key": torch.nn.functional.normalize(randn(2, HEADS, n, D_K), dim=-1),
            "value": randn(2, HEADS, n, D_V),
            "state": randn(2, HEADS, D_K, D_V),
        }
        if kind is not None:
            shape = (2, HEADS, n) if kind == "decay" else (2, HEADS, n, D_K)
            given["log_decay"] = -0.3 * randn(*shape).abs()
        if has_rate:
            given["beta"] = randn(2, HEADS, n).sigmoid()
        return {name: tensor.requires_grad_() for name, tensor in given.items()}

    return drawn


def heads_last(given):
    """Tokens before heads, as both projects have them."""
    return {
        name: tensor if name == "state" else tensor.transpose(1, 2)
        for name, tensor in given.items()
    }


def compared(given, theirs, randn, most=3e-6):
    """Values and gradients: ours in float32 errs no more than half as much again as theirs does.

    ``most``: sums of some hundred numbers in float32, which rounds to 6e-8.
    """
    exact = gated_delta_attention_step(**given)
    narrow = {name: tensor.detach().float().requires_grad_() for name, tensor in given.items()}
    results = {
        "ours": gated_delta_attention_step(**narrow, block_size=CHUNK),
        "theirs": theirs(**narrow),
    }
    weights = [randn(*one.shape) for one in exact]
    exact = (*exact, *torch.autograd.grad(exact, [*given.values()], weights))
    errors = {}
    for who, (output, state) in results.items():
        gradients = torch.autograd.grad(
            (output, state), [*narrow.values()], [weight.float() for weight in weights]
        )
        found = (output, state, *gradients)
        errors[who] = [
            ((one - other).norm() / other.norm()).item()
            for one, other in zip(found, exact, strict=True)
        ]
    assert max(errors["theirs"]) < most
    for ours, other in zip(errors["ours"], errors["theirs"], strict=True):
        assert ours <= 1.5 * other + 6e-8


def calling(rule, **options):
    """A rule of theirs, called as our step is."""

    def theirs(**given):
        given = heads_last(given)
        output, state = rule(
            *(given[name] for name in ("query", "key", "value")),
            g=given["log_decay"],
            beta=given["beta"],
            initial_state=given["state"],
            output_final_state=True,
            **options,
        )
        return output.transpose(1, 2), state

    return theirs


def options_of(form):
    return {"chunk_size": CHUNK} if form == "chunk" else {}


@pytest.mark.claim("delta-is-what-models-run")
@pytest.mark.parametrize("form", ["chunk", "recurrent"])
def test_qwen3_next_computes_gated_deltanet(form, inputs, randn):
    rule = getattr(model("qwen3_next"), f"torch_{form}_gated_delta_rule")
    compared(inputs("decay", True), calling(rule, **options_of(form)), randn)


def test_qwen3_next_lets_heads_of_values_share_keys(inputs, randn):
    """More heads of values than of keys: queries and keys are repeated."""
    rule = model("qwen3_next").torch_chunk_gated_delta_rule
    given = {name: tensor.detach().float() for name, tensor in inputs("decay", True).items()}
    given["query"], given["key"] = (randn(2, 1, N, D_K).float() / 3 for _ in range(2))
    last = heads_last(given)
    expected, _ = rule(
        *(last[name] for name in ("query", "key", "value")), g=last["log_decay"], beta=last["beta"]
    )
    del given["state"]
    given |= {name: given[name].repeat_interleave(HEADS, 1) for name in ("query", "key")}
    found, _ = gated_delta_attention_step(**given)
    torch.testing.assert_close(found, expected.transpose(1, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.claim("delta-is-what-models-run")
@pytest.mark.parametrize("form", ["chunk", "recurrent"])
def test_kimi_linear_computes_kda(form, inputs, randn):
    rule = getattr(model("kimi_linear"), f"{form}_kimi_delta_attention")
    compared(inputs("gate", True), calling(rule, **options_of(form)), randn)


@pytest.mark.claim("delta-is-what-models-run")
def test_mamba_2_scans_with_a_decay_per_token(inputs, randn):
    """Its step dt is in the decay, exp(dt A), and in the value, dt x; its C is the query."""
    scan = model("mamba2").mamba2_chunk_scan
    given = inputs("decay", False)
    rates = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64, device=given["query"].device)

    def theirs(query, key, value, state, log_decay):
        a = -rates.to(query.dtype)  # one per head, and dt so that dt a is the decay
        dt = log_decay / a[:, None]
        output, last = scan(
            (value / dt[..., None]).transpose(1, 2),
            dt.transpose(1, 2),
            a,
            key.transpose(1, 2),
            query.transpose(1, 2) * D_K**-0.5,
            chunk_size=CHUNK,
            initial_states=state.mT,
            return_final_states=True,
        )
        return output.transpose(1, 2), last.mT

    # By the small dt the values are divided, and multiplied again: digits of its gradient are lost.
    compared(given, theirs, randn, most=3e-5)


@pytest.mark.parametrize("form", ["chunk", "recurrent"])
def test_fla_computes_kda_and_gated_deltanet(fla, form, inputs, randn):
    rule = getattr(fla("kda"), f"naive_{form}_kda")
    compared(inputs("gate", True, n=5 * CHUNK), calling(rule, **options_of(form)), randn)
    rule = getattr(fla("gated_delta_rule"), f"naive_{form}_gated_delta_rule")
    compared(inputs("decay", True), calling(rule), randn)


def test_fla_computes_gated_linear_attention(fla, inputs, randn):
    rule = fla("gla").naive_recurrent_gla

    def theirs(query, key, value, state, log_decay):
        output, last = rule(
            *(side.transpose(1, 2) for side in (query, key, value, log_decay)),
            initial_state=state,
            output_final_state=True,
        )
        return output.transpose(1, 2), last

    compared(inputs("gate", False), theirs, randn)


def test_fla_computes_deltanet(fla, inputs, randn):
    rule = fla("delta_rule").delta_rule_recurrence

    def theirs(query, key, value, state, beta):
        return rule(query, key, value, beta, initial_state=state)

    compared(inputs(None, True), theirs, randn)


def test_fla_computes_retention(fla, randn):
    """Without a state: heads decay by 1 - 2^-5, 1 - 2^-6, 1 - 2^-7."""
    retention = fla("retention").naive_retention
    query, key, value = (randn(2, HEADS, N, d).float() for d in (D_K, D_K, D_V))
    log_decay = torch.log1p(-(2.0 ** (-5 - torch.arange(HEADS, device=query.device))))
    found, _ = gated_delta_attention_step(query, key, value, log_decay=log_decay[None, :, None])
    expected = retention(query, key, value)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)
