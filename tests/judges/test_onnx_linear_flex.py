"""Two more judges from outside: the vectors of ONNX's ``LinearAttention`` and ``FlexAttention``.

As in ``test_onnx``, the adapters say in attnref's words what an operator means; the numbers are
attnref's. Of the update rules of linear attention two have words there: the plain sum of products
and, with decay, the same for keys that have grown by what the queries have shrunk. ``delta`` and
``gated_delta`` correct what the state holds, which nothing in the package does.
"""

import importlib

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch import Tensor

import attnref
from attnref.variants.linear import linear_state

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


def identity(tokens: Tensor) -> Tensor:
    return tokens


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor | None = None,
    *,
    update_rule: bytes,
    q_num_heads: int,
    kv_num_heads: int,
) -> tuple[Tensor, Tensor]:
    """The operator without past or correction: its output, which no normaliser divides, and state.

    Decay multiplies the state by ``exp(g)`` at each token. With ``G`` for the sum of ``g`` so far,
    that is a state of the keys ``k exp(-G)``, read by the queries ``q exp(G)``.
    """
    assert update_rule in (b"linear", b"gated")
    assert q_num_heads == kv_num_heads
    # (batch, n, heads * d) -> (batch, heads, n, d)
    query, key, value = (
        tokens.unflatten(-1, (q_num_heads, -1)).transpose(1, 2) for tokens in (query, key, value)
    )
    grown = torch.zeros_like(key)
    if decay is not None:  # one number per head, or one a component of its keys
        steps = decay.unflatten(-1, (q_num_heads, -1)).transpose(1, 2)
        grown = steps.cumsum(-2).expand_as(key)
    query, key = query * key.shape[-1] ** -0.5 * grown.exp(), key * (-grown).exp()
    states = [
        linear_state(key[..., :seen, :], value[..., :seen, :], feature_map=identity).key_value
        for seen in range(1, key.shape[-2] + 1)
    ]
    rows = [query[..., i : i + 1, :] @ state for i, state in enumerate(states)]
    output = torch.cat(rows, dim=-2)
    state = states[-1] * grown[..., -1, :, None].exp()
    return output.transpose(1, 2).flatten(-2), state


def has_words(node):
    return options(node).get("update_rule") in (b"linear", b"gated")


def test_no_vector_is_missing():
    assert len(LINEAR) >= 14
    assert sum(has_words(node) for node, _, _ in LINEAR.values()) >= 4
    assert len(FLEX) >= 10


@pytest.mark.parametrize("name", [name for name, (node, _, _) in LINEAR.items() if has_words(node)])
def test_linear_attention(name, device):
    node, inputs, outputs = LINEAR[name]
    arguments = [torch.from_numpy(array).to(device) for array in inputs]
    compare(linear_attention(*arguments, **options(node)), outputs, device)


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


@pytest.mark.parametrize("name", FLEX)
def test_flex_attention(name, device):
    node, inputs, outputs = FLEX[name]
    arguments = [torch.from_numpy(array).to(device) for array in inputs]
    compare(flex_attention(*arguments, **options(node)), outputs, device)
