"""The records, one rank for those that ask for ranks, and tiles so small that all are walked."""

import pytest
import torch.distributed as dist

from attnref.variants import blockwise, sliding_window


@pytest.fixture(scope="module", autouse=True)  # no other folder is to find it
def one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(blockwise, "ROWS", 4)
    monkeypatch.setattr(blockwise, "CHUNK", 2)
    monkeypatch.setattr(sliding_window, "_ROWS", 4)
