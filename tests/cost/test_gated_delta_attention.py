"""The functions of the gated delta family run under a counter of what they really do."""

from dataclasses import replace

import pytest
import torch

from attnref import cost
from attnref.cost import Sizes
from attnref.variants.gated_delta import gated_delta_attention, gated_delta_attention_step
from tests.cost.counter import Counter
from tests.variants.every import every

SIZES = Sizes(n=13, m=13, d_k=5, d_v=7, batch=2, num_heads=3)
KINDS = [(decay, beta) for decay in (None, "head", "component") for beta in (True, False)]


def tensors(sizes, log_decay, beta, generator):
    lead = (sizes.batch, sizes.num_heads, sizes.n)
    shapes = {"query": (*lead, sizes.d_k), "key": (*lead, sizes.d_k), "value": (*lead, sizes.d_v)}
    if log_decay is not None:
        shapes["log_decay"] = lead if log_decay == "head" else shapes["key"]
    if beta:
        shapes["beta"] = lead
    return {name: -torch.rand(shape, generator=generator) for name, shape in shapes.items()}


@pytest.mark.claim("delta-costs-what-is-counted")
@pytest.mark.parametrize(("log_decay", "beta"), KINDS)
@every("n", [1, 13, 67])
@every("block_size", [1, 4, 16, 64])
def test_chunks_do_what_is_counted(log_decay, beta, n, block_size, generator):
    sizes = replace(SIZES, n=n, m=n)
    given = tensors(sizes, log_decay, beta, generator)
    with Counter() as counter:
        output = gated_delta_attention(**given, block_size=block_size)
    found = cost.of("gated_delta", sizes, log_decay=log_decay, beta=beta, block_size=block_size)
    assert found.operations == counter.cost.operations
    # A kernel that keeps the rest on the chip: arguments in, output and state out.
    assert found.bytes_read == 4 * sum(tensor.numel() for tensor in given.values())
    assert found.bytes_written == 4 * (output.numel() + 2 * 3 * 5 * 7)
    assert found.peak_bytes == found.bytes_written


@pytest.mark.claim("delta-step-costs-what-is-counted")
@pytest.mark.parametrize(("log_decay", "beta"), KINDS)
def test_tokens_do_what_is_counted(log_decay, beta, generator):
    given = tensors(replace(SIZES, n=4, m=4), log_decay, beta, generator)
    state = torch.zeros(2, 3, 5, 7)
    with Counter() as counter:
        for t in range(4):
            token = {name: tensor[:, :, t : t + 1] for name, tensor in given.items()}
            _, state = gated_delta_attention_step(**token, state=state)
    kind = {"log_decay": log_decay, "beta": beta, "block_size": None}
    found, one = (cost.of("gated_delta", replace(SIZES, n=n, m=n), **kind) for n in (4, 1))
    assert found.operations == counter.cost.operations
    assert one.operations * 4 == found.operations


@pytest.mark.claim("delta-pays-beyond-the-width")
def test_chunks_are_cheaper_than_causal_pairs_from_some_length_on():
    """With d = 128 and chunks of 64, products are as many at about 600 tokens."""

    def ratio(n):
        sizes = Sizes(n=n, m=n, d_k=128, d_v=128)
        pairs = cost.allowed_pairs(n, n, window=(None, 0))
        softmax = cost.of("fused", sizes, pairs=pairs).operations.matmul
        return cost.of("gated_delta", sizes).operations.matmul / softmax

    assert ratio(576) > 1 > ratio(640)
    assert ratio(4096) == pytest.approx(2 * ratio(8192), rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"log_decay": "token"}, "log_decay: expected 'head', 'component' or None, got 'token'"),
        ({"block_size": 48}, "block_size: expected a power of two, got 48. Take 64"),
        ({"block_size": 0}, "block_size: expected an integer of 1 or more, got 0"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        cost.of("gated_delta", SIZES, **options)


@pytest.mark.claim("delta-past-costs-one-state")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_past_of_any_length_costs_one_state(dtype, generator):
    sizes = replace(SIZES, n=1, m=1, dtype=dtype)
    first, *later = (
        cost.of("gated_delta", replace(sizes, m=m), block_size=None) for m in (1, 2, 13, 8192)
    )
    given = tensors(sizes, "head", True, generator)
    _, state = gated_delta_attention_step(**{name: x.to(dtype) for name, x in given.items()})
    assert later[0] == later[1] == later[2]
    assert later[0].bytes_read - first.bytes_read == state.nbytes
    assert later[0].bytes_written == first.bytes_written
    assert later[0].operations == first.operations


def test_each_head_has_a_state_of_its_own():
    with pytest.raises(ValueError, match=r"^num_kv_heads: expected 4, as many as num_heads, got 2"):
        cost.of("gated_delta", replace(SIZES, num_heads=4, num_kv_heads=2))
