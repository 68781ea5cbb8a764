"""Measures every variant, every peer and attention across ranks, and writes the pages' records.

    python -m book.make.bench                     every record
    python -m book.make.bench float32-distance …  these, for instance those whose code has changed

About half an hour for a processor, and as long again for a CUDA device where there is one. Each
record is made in a process of its own, so that none has to do with what another left in memory.
"""

import multiprocessing
import sys
from typing import Any

import torch

from attnref.bench.command import bench
from book.make.serve import ROOT

RESULTS = ROOT / "docs" / "results"
# What many methods answer; the tasks of a few have records of their own.
SHARED = ["dense", "causal", "window", "blocks", "packed", "decode", "layer"]
RUNS: dict[str, dict[str, Any]] = {
    "float32": {"task": SHARED, "budget": 360.0},
    "bfloat16": {"task": SHARED, "dtype": "bfloat16", "budget": 320.0},
    "float32-backward": {"task": SHARED, "backward": True, "budget": 300.0},
    # Apart, so that each can be measured without the others.
    "float32-drafts": {"task": ["drafts"], "budget": 45.0},
    "float32-chosen": {"task": ["chosen"], "budget": 180.0},
    "float32-latent": {"task": ["latent"], "budget": 45.0},
    "float32-sink": {"task": ["sink"], "budget": 90.0},
    "float32-distance": {"task": ["distance"], "budget": 60.0},
    "float32-distance-backward": {"task": ["distance"], "backward": True, "budget": 90.0},
    "float32-differential": {"task": ["differential"], "budget": 45.0},
    "float32-paged": {"task": ["paged"], "budget": 45.0},
    "bfloat16-paged": {"task": ["paged"], "dtype": "bfloat16", "budget": 45.0},
    # With heads as wide as those of the models that have it; the loops of others are guessed to
    # grow with the square of the length, and want time for that.
    "float32-delta": {"task": ["delta"], "head_dim": 128, "budget": 160.0},
    "float32-delta-backward": {
        "task": ["delta"],
        "head_dim": 128,
        "backward": True,
        "budget": 220.0,
    },
    # A budget that is spent on rounds: there are many turns in one.
    "float32-ranks": {"ranks": [1, 2, 4], "threads": [1, 2], "repeats": 15, "budget": 220.0},
}

if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    context = multiprocessing.get_context("spawn")
    unknown = sorted(set(sys.argv[1:]) - RUNS.keys())
    if unknown:
        sys.exit(f"attnref: no record {unknown[0]!r}; there are {', '.join(RUNS)}.")
    runs = {name: RUNS[name] for name in sys.argv[1:] or RUNS}
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for name, settings in runs.items():
            output = RESULTS / f"{device}-{name}.json"
            options = {"device": device, "output": output, **settings}
            if device == "cuda" and "ranks" in settings:  # as many as there are GPUs
                count = torch.cuda.device_count()
                options |= {"ranks": [p for p in settings["ranks"] if p <= count], "threads": [1]}
            process = context.Process(target=bench, kwargs=options)
            process.start()
            process.join()
            if process.exitcode:
                sys.exit(f"attnref: {output.name} is as before: status {process.exitcode}.")
