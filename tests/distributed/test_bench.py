"""What the benchmark times on ranks: each way is attention, and its messages alone are its own."""

from contextlib import contextmanager

import pytest
from torch.distributed.tensor import experimental

from attnref.bench.ranks import cases
from attnref.bench.ranks.cases import CASES
from tests.distributed import rank_jobs
from tests.variants.every import every

OURS = ["ring_zigzag", "ring_striped", "ring_contiguous", "gather", "ulysses"]


@pytest.mark.parametrize("name", [*OURS, "pytorch_ring"])
def test_each_case_is_attention_and_gives_its_gradients(name, pools):
    assert all(pools(4)(rank_jobs.case_is_attention, name, 32))


@pytest.mark.claim("messages-alone-are-as-many")
@every("name", OURS)
def test_messages_alone_are_those_of_the_call(name, pools):
    """As many bytes to each rank; what ranks say to agree is not among them."""
    for n in (32, 37):
        found = pools(4)(rank_jobs.bytes_of_messages, name, n)
        assert all(alone == call > 0 for alone, call in found)


def test_a_rank_times_its_messages_too(pools):
    found = pools(2)(rank_jobs.run_sample, "ring_zigzag")
    assert max(prepared.error for prepared, _ in found) < 1e-6
    assert all(sample.messages > 0 for _, sample in found)
    assert all(
        sample.messages is None for _, sample in pools(2)(rank_jobs.run_sample, "pytorch_ring")
    )


def test_lengths_that_pytorch_does_not_divide_are_refused(pools):
    pool = pools(4)
    pool.begin([(rank_jobs.case_is_attention, ("pytorch_ring", 36), {})] * 4)
    assert {failure.message for failure in pool.outcomes()} == {
        "n: expected a multiple of 8, two chunks for each rank, got 36"
    }


def test_context_parallel_is_entered_on_all_gpus(one_rank, monkeypatch):
    """PyTorch's own takes kernels of GPUs alone; here it is asked whether it is called."""
    entered = []

    @contextmanager
    def entering(mesh):
        entered.append(mesh)
        yield

    monkeypatch.setattr(cases, "init_device_mesh", lambda kind, shape: (kind, shape))
    monkeypatch.setattr(experimental, "context_parallel", entering)
    with CASES["context_parallel"].within():
        assert entered == [("cuda", (1,))]
