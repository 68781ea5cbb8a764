"""Peaks of programs whose allocations are known."""

import torch

from attnref.bench import memory
from attnref.bench.memory import free_bytes, peak_bytes


def test_peak_of_a_known_program(device):
    query = torch.ones(64, 128, device=device)

    def run():
        scores = query @ query.mT  # 64 × 64
        weights = scores.exp()  # 64 × 64
        del scores
        return weights @ query  # 64 × 128

    # At the end weights and output live, scores no more. All are multiples of 512 bytes, the
    # grain of CUDA's allocator, and the first call there allocates a workspace for products.
    run()
    assert peak_bytes(run, device) == (64 * 64 + 64 * 128) * 4


def test_what_was_there_before_does_not_count(device):
    kept = [torch.ones(1000, device=device)]
    assert peak_bytes(lambda: kept[0].view(10, 100), device) == 0


def test_a_run_keeps_its_standard_error(capfd):
    peak_bytes(lambda: torch.ones(3), torch.device("cpu"))
    memory.os.write(2, b"heard\n")
    assert capfd.readouterr().err == "heard\n"


def test_cuda_asks_its_allocator(monkeypatch):
    asked = []
    answers = {
        "synchronize": None,
        "reset_peak_memory_stats": None,
        "memory_allocated": 100,
        "max_memory_allocated": 350,
    }

    def answering(name):
        def answer(device):
            asked.append(name)
            return answers[name]

        return answer

    for name in answers:
        monkeypatch.setattr(torch.cuda, name, answering(name))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (7, 9))
    device = torch.device("cuda")
    assert peak_bytes(lambda: asked.append("run"), device) == 250
    assert asked.index("reset_peak_memory_stats") < asked.index("run")
    assert asked[-2:] == ["synchronize", "max_memory_allocated"]
    assert free_bytes(device) == 7


def test_free_memory_is_what_the_system_says(tmp_path, monkeypatch):
    table = tmp_path / "meminfo"
    monkeypatch.setattr(memory, "_MEMINFO", table)
    assert free_bytes(torch.device("cpu")) is None
    table.write_text("MemTotal: 9 kB\nMemAvailable:      5 kB\n", encoding="ascii")
    assert free_bytes(torch.device("cpu")) == 5 * 1024
