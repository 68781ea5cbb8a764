"""Measures every variant and every peer, and writes the records that the pages quote.

Under 15 minutes for a processor, and as long again for a CUDA device where there is one.
"""

import torch
from site_server import ROOT

from attnref.bench.command import bench

RESULTS = ROOT / "docs" / "results"
RUNS = {
    "float32": {"budget": 360.0},
    "bfloat16": {"dtype": "bfloat16", "budget": 200.0},
    "float32-backward": {"backward": True, "budget": 220.0},
}

if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for name, settings in RUNS.items():
            bench(device=device, output=RESULTS / f"{device}-{name}.json", **settings)
