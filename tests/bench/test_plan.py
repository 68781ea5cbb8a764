"""What is wished for is checked first, and refused in one line."""

import re

import pytest
import torch

from attnref.bench import memory, plan
from attnref.bench.plan import Point, Settings, check, check_memory
from attnref.bench.problems import TASKS, BenchError
from attnref.bench.record import Skipped

NAMES = "device: expected cpu, cuda or cuda:<number>, got"
WRONG = [
    ({"dtype": "int8"}, "dtype: expected one of float64, float32, bfloat16, float16, got 'int8'."),
    ({"device": "gpu"}, f"{NAMES} 'gpu'."),
    ({"device": "meta"}, f"{NAMES} 'meta'."),
    ({"device": "cuda:99"}, "device: PyTorch does not see 'cuda:99'; it sees "),
    ({"heads": 0}, "heads: expected a number of at least 1, got 0."),
    ({"head_dim": -1}, "head-dim: expected a number of at least 1, got -1."),
    ({"repeats": 0}, "repeats: expected a number of at least 1, got 0."),
    ({"lengths": [5, 0]}, "n: expected a number of at least 1, got 0."),
    ({"budget": 0.0}, "budget: expected a positive number of seconds, got 0.0."),
    ({"budget": float("nan")}, "budget: expected a positive number of seconds, got nan."),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_what_is_wrong_is_said(options, message):
    with pytest.raises(BenchError, match=f"^{re.escape(message)}"):
        check(Settings(**options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["sdpa", "nope"]}, r"method: expected one of .*sdpa, .*, got 'nope'\.$"),
        ({"tasks": ["nope"]}, r"task: expected one of dense, .*, got 'nope'\.$"),
        (
            {"methods": ["kv_cache"], "tasks": ["window"]},
            r"task: kv_cache cannot do window\. Choose from decode\.$",
        ),
    ],
)
def test_an_unknown_method_or_task_names_the_known(options, message):
    with pytest.raises(BenchError, match=f"^{message}"):
        plan.plan(Settings(**options))


def test_what_is_right_comes_back():
    assert check(Settings(dtype="bfloat16")) == (torch.bfloat16, torch.device("cpu"))


def test_points_are_in_order_and_long_ones_are_probed_first():
    points, skipped = plan.plan(
        Settings(methods=["sdpa"], tasks=["dense", "causal"], lengths=[16384, 8192])
    )
    assert [(str(point), point.is_probe) for point in points] == [
        ("dense n=2048", True),
        ("dense n=8192", False),
        ("dense n=16384", False),
        ("causal n=2048", True),
        ("causal n=8192", False),
        ("causal n=16384", False),
    ]
    assert skipped == []


def test_without_wishes_everything_is_measured_at_its_own_lengths():
    points, _ = plan.plan(Settings())
    for name, task in TASKS.items():
        assert tuple(point.n for point in points if point.task == name) == task.lengths


def test_a_missing_peer_is_skipped_by_name(monkeypatch):
    monkeypatch.setattr(plan.Method, "missing", lambda method: method.needs and "not here")
    points, skipped = plan.plan(
        Settings(methods=["sdpa", "x-transformers"], tasks=["dense"], lengths=[7])
    )
    assert [[method.name for method in point.methods] for point in points] == [["sdpa"]]
    assert skipped == [Skipped("dense", "x-transformers", None, "not here")]


def test_inputs_must_fit_in_memory(monkeypatch, device):
    wishes = Settings(heads=4, head_dim=8)

    def refused(task, n):
        try:
            check_memory(Point(task, n, False, []), wishes, torch.float32, device)
        except BenchError as error:
            return str(error)
        return None

    monkeypatch.setattr(memory, "free_bytes", lambda device: 10**6)
    assert refused("dense", 700) is None  # 32 numbers per token, each 16 + 16 bytes
    assert refused("dense", 800) == (
        "n: the inputs and the exact answer do not fit in the 0.0 GB that are free: with n = 800, "
        "task 'dense' needs 0.0 GB. Lower --n, --heads or --head-dim."
    )
    assert refused("window", 700) is not None  # holds an n × n mask too
    monkeypatch.setattr(memory, "free_bytes", lambda device: None)
    assert refused("dense", 800) is None
