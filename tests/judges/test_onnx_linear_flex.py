"""Two more judges from outside: the vectors of ONNX's ``LinearAttention`` and ``FlexAttention``.

As in ``test_onnx``, the adapters say in attnref's words what an operator means; the numbers are
attnref's. The four update rules of linear attention are one function with a decay and a rate.
"""

import importlib

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator
from torch import Tensor

import attnref
from attnref.variants.gated_delta import gated_delta_attention_step
from tests.variants.every import every

RTOL, ATOL = 1e-3, 1e-7  # of onnx.backend.test.case.node.expect


def vectors(module, operator):
    """Node, inputs and outputs of each vector of an operator, by its name."""
    found = {}

    def expect(node, inputs, outputs, name, **_):
        found[name.removeprefix("test_")] = (node, inputs, outputs)

    source = importlib.import_module(f"onnx.backend.test.case.node.{module}")
    before = source.expect
    source.expect = expect
    random = np.random.get_state()
    try:
        for name, export in vars(getattr(source, operator)).items():
            if name.startswith("export"):
                np.random.seed(0)
                export.__func__()
    finally:
        source.expect = before
        np.random.set_state(random)
    return found


LINEAR = vectors("linear_attention", "LinearAttention")
FLEX = vectors("flexattention", "FlexAttention")


def options(node):
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


def compare(ours, theirs, device):
    for our, their in zip(ours, theirs, strict=True):
        expected = torch.from_numpy(their).to(device)
        torch.testing.assert_close(our, expected, rtol=RTOL, atol=ATOL)


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    past_state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    q_num_heads: int,
    kv_num_heads: int,
    scale: float | None = None,
    update_rule: bytes = b"gated_delta",
) -> tuple[Tensor, Tensor]:
    """The operator: its output, which no normaliser divides, and its state.

    ``decay`` is one number per head, or one a component of its keys; query heads that share a key
    head read one state, beside each other.
    """
    assert ("gated" in str(update_rule), "delta" in str(update_rule)) == (
        decay is not None,
        beta is not None,
    )
    # (batch, n, heads * d) -> (batch, heads, 1, n, d)
    key, value = (
        tokens.unflatten(-1, (kv_num_heads, -1)).transpose(1, 2)[:, :, None]
        for tokens in (key, value)
    )
    groups = q_num_heads // kv_num_heads
    query = query.unflatten(-1, (kv_num_heads, groups, -1)).permute(0, 2, 3, 1, 4)
    if decay is not None:
        decay = decay.unflatten(-1, (kv_num_heads, -1)).transpose(1, 2)[:, :, None]
    if beta is not None:  # (batch, n, heads or 1) -> (batch, heads or 1, 1, n)
        beta = beta.mT[:, :, None]
    output, state = gated_delta_attention_step(
        *(query, key, value),
        None if past_state is None else past_state[:, :, None],
        log_decay=decay,
        beta=beta,
        scale=scale,
    )
    output = output.permute(0, 3, 1, 2, 4).flatten(2)
    return output, state[:, :, 0].to(query.dtype)


def test_no_vector_is_missing():
    assert len(LINEAR) >= 14
    rules = {options(node).get("update_rule", b"gated_delta") for node, _, _ in LINEAR.values()}
    assert rules == {b"linear", b"gated", b"delta", b"gated_delta"}
    assert len(FLEX) >= 10


@every("name", LINEAR)
def test_linear_attention(name, device):
    node, inputs, outputs = LINEAR[name]
    names = [given for given in node.input if given]
    arguments = [torch.from_numpy(array).to(device) for array in inputs]
    given = dict(zip(names, arguments, strict=True))
    compare(linear_attention(**given, **options(node)), outputs, device)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float | None = None,
    score_mod: onnx.GraphProto | None = None,
    prob_mod: onnx.GraphProto | None = None,
) -> tuple[Tensor]:
    """The operator, whose graphs change scores and weights: by a sum, a cap, a factor."""
    mask = softcap = None
    ones = query.new_ones(*query.shape[:-1], key.shape[-2])  # (batch, heads, n, m)
    if score_mod is not None and "Tanh" in {node.op_type for node in score_mod.node}:
        (cap,) = score_mod.initializer
        softcap = float(onnx.numpy_helper.to_array(cap))
    elif score_mod is not None:
        mask = modified(score_mod, 0 * ones)
        assert torch.equal(modified(score_mod, ones), mask + 1)
    output = attnref.scaled_dot_product_attention(
        *(query, key, value), attn_mask=mask, scale=scale, softcap=softcap, enable_gqa=True
    )
    if prob_mod is not None:
        (factor,) = modified(prob_mod, ones).unique()
        output = output * factor
    return (output,)


def modified(graph: onnx.GraphProto, scores: Tensor) -> Tensor:
    (name,) = (given.name for given in graph.input)
    (output,) = ReferenceEvaluator(graph, opsets={"": 26}).run(None, {name: scores.cpu().numpy()})
    return torch.from_numpy(output).to(scores.device)


@every("name", FLEX)
def test_flex_attention(name, device):
    node, inputs, outputs = FLEX[name]
    arguments = [torch.from_numpy(array).to(device) for array in inputs]
    compare(flex_attention(*arguments, **options(node)), outputs, device)
