"""What is causal reads no later token: the same bits whatever that holds."""

import pytest
import torch

from attnref import variants
from attnref.record import Example
from tests.variants.every import every

CHUNKS = {"gated_delta": 16, "linear": 4, "performer": 4}


@pytest.mark.claim("delta-reads-no-future")
@pytest.mark.claim("hierarchical-reads-no-future")
@pytest.mark.claim("linear-reads-no-future")
@pytest.mark.claim("performer-reads-no-future")
@pytest.mark.parametrize("name", ["gated_delta", "hierarchical", "linear", "performer"])
@every("first", [12, 17, 40])
@every("is_chunk_usual", [False, True])
def test_the_causal_form_does_not_read_the_future(name, first, is_chunk_usual, randn):
    """Not even what rounding leaves; of a large key, too, that a maximum would let in."""
    method = variants.records()[name]
    arguments = method.arguments(Example(*(randn(2, 41, d) for d in (5, 5, 3))))
    arguments |= {"is_causal": True} if method.takes("is_causal") else {}
    if not is_chunk_usual and name in CHUNKS:
        arguments["block_size"] = CHUNKS[name]
    if is_chunk_usual and name == "gated_delta":  # and a decay for each component
        arguments["log_decay"] = arguments["log_decay"][..., None].expand(2, 41, 5)
    before = method.function(**arguments)
    for which, factor in (("key", -10.0), ("value", 1e6), ("beta", 0.7), ("log_decay", 0.7)):
        if which in arguments:
            arguments[which] = arguments[which].clone()
            arguments[which][:, first:] *= factor
    after = method.function(**arguments)
    assert torch.equal(before[:, :first], after[:, :first])
    assert (before[:, first:] != after[:, first:]).all()


@pytest.mark.claim("linear-reads-no-future")
def test_what_is_printed_as_causal_without_running_sums_reads_the_last_value(randn):
    query, key, value = randn(19, 5), randn(19, 5), randn(19, 3)
    other = value.clone()
    other[-1] += 1.0
    q, k = (torch.nn.functional.elu(x) + 1 for x in (query, key))
    one, two = (q @ (k.mT @ x) for x in (value, other))
    assert (one - two)[0].abs().min() > 1
