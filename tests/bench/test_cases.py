"""Every way in which the package's own methods and PyTorch's are called gives an answer."""

from dataclasses import replace

import pytest
import torch

from attnref import masks
from attnref.bench.plan import methods
from attnref.bench.problems import TASKS, Shape, exact_output, relative_error

OURS = {name: method for name, method in methods().items() if method.needs is None}
EXACT = {
    *("sdpa", "sdpa-loop", "sdpa-nested", "flex", "torch-multihead", "multihead", "kv_cache"),
    *("blockwise", "varlen", "sliding_window", "block_sparse", "latent", "sdpa-made", "sdpa-key"),
    *("sdpa-steps", "moba"),
    *("gated_delta", "recurrence"),
    *("distance_bias", "sdpa-table", "differential", "sdpa-twice"),
    *("paged", "sdpa-gathered"),
}


@pytest.fixture
def shape(device):
    return Shape(n=272, heads=4, head_dim=16, dtype=torch.float32, device=device, seed=1)


# FlexAttention says so when it runs without its compiler, which takes too long for a test.
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.filterwarnings("ignore:.*nested:UserWarning")
@pytest.mark.parametrize("name", OURS)
def test_it_answers_the_question(shape, name, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    monkeypatch.setattr(torch.compiler, "reset", lambda: None)
    for task, case in OURS[name].cases.items():
        problem = TASKS[task].make(shape)
        run = case(problem)
        with torch.no_grad():
            output = run()
            again = run()
        assert output.shape == problem.query.shape, task
        assert output.dtype == torch.float32, task
        assert torch.equal(output, again), task
        error = relative_error(output, exact_output(problem))
        if name in EXACT:
            # float32 rounds to 6e-8; sums of some hundred numbers lose a digit or so of that.
            assert error < 2e-6, task
        else:
            assert 1e-4 < error < 10, task  # another function, or an approximation of this one


@pytest.mark.claim("unrestricted-is-another-function")
def test_unrestricted_attention_is_another_function(shape):
    """In a window the causal one, among blocks that of all pairs."""
    for task, whole in (("window", masks.causal(shape.n)), ("blocks", None)):
        problem = TASKS[task].make(shape)
        output = OURS["sdpa-unrestricted"].cases[task](problem)()
        assert relative_error(output, exact_output(replace(problem, mask=whole))) < 2e-6
        assert relative_error(output, exact_output(problem)) > 0.01


def test_the_cache_is_as_long_at_every_step(shape):
    problem = TASKS["decode"].make(shape)
    run = OURS["kv_cache"].cases["decode"](problem)
    first = run()
    for _ in range(3):
        assert torch.equal(run(), first)
