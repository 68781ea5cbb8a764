"""The small Transformer of the notebook of training, and its weights in a file of eight bits each.

The notebook is the one place where the model stands: the cells that define it are run here. Its
weights are read by the explorer of the same model, in the browser and here, and recorded by

    python docs/explorers/small_model.py

in about a minute, which is wanted when the notebook's cells have changed that come before a
training. Each row of a matrix is divided by its own scale, which puts its largest weight at 127 or
at -127, and is rounded to whole numbers. The file, little-endian:

- the length of the header, four bytes;
- the header, JSON filled up with spaces: ``matrices`` names each with its numbers of rows and
  columns, a bias being a matrix of one row; ``letters`` is the alphabet, ``of`` a digest of what
  the model was trained by;
- the scales of all rows, float32;
- the weights, int8.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "en" / "notebooks" / "training.ipynb"
WEIGHTS = ROOT / "docs" / "shared" / "explorers" / "transformer" / "weights.bin"
CELLS = ("imports", "corpus", "transformer", "watch", "learn")  # all that come before a training
FACTOR, STEPS = "1/√d_k", 1000
MOST = 127  # the largest number of eight bits whose opposite is one, too


@cache
def notebook() -> dict[str, Any]:
    """What the cells define that come before a training."""
    with _keep_dtype():
        return _run()


def train_model() -> nn.Module:
    """The model as the notebook trains it, in more steps: this takes about a minute."""
    with _keep_dtype():
        defined = _run()
        defined["steps"] = STEPS
        model: nn.Module = defined["train"](defined["factors"][FACTOR])[0]
    return model


def digest() -> str:
    """Of all that the model is trained by."""
    text = json.dumps([_sources(), notebook()["text"], FACTOR, STEPS])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def pack(weights: dict[str, Tensor]) -> bytes:
    """The file of these weights."""
    scales, numbers, matrices = [], [], []
    for name, weight in weights.items():
        rows = weight.detach().reshape(-1, weight.shape[-1])
        scale = (rows.abs().amax(dim=1, keepdim=True) / MOST).float()
        scales.append(scale)
        numbers.append((rows / scale).round())
        matrices.append([name, *rows.shape])
    header = {"of": digest(), "letters": "".join(notebook()["letters"]), "matrices": matrices}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)  # so that what follows begins where four bytes do
    return b"".join(
        [
            len(text).to_bytes(4, "little"),
            text,
            torch.cat(scales).numpy().astype("<f4").tobytes(),
            torch.cat([number.flatten() for number in numbers]).numpy().astype("i1").tobytes(),
        ]
    )


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The header of a file, and its weights, float64: exactly the products that it stands for."""
    start = 4 + int.from_bytes(content[:4], "little")
    header = json.loads(content[4:start])
    count = sum(rows for _, rows, _ in header["matrices"])
    scales = np.frombuffer(content, "<f4", count, start).astype("f8")
    numbers = np.frombuffer(content, "i1", offset=start + 4 * count).astype("f8")
    weights, row, place = {}, 0, 0
    for name, rows, columns in header["matrices"]:
        matrix = numbers[place : place + rows * columns].reshape(rows, columns)
        weight = torch.from_numpy(matrix * scales[row : row + rows, None])
        weights[name] = weight if name.endswith(".weight") else weight[0]
        row, place = row + rows, place + rows * columns
    return header, weights


def model(weights: dict[str, Tensor], scale: float) -> nn.Module:
    """The notebook's Transformer with these weights and this factor."""
    made: nn.Module = notebook()["Transformer"](lambda: {"scale": scale}).double()
    made.load_state_dict(weights)
    return made


def _run() -> dict[str, Any]:
    defined: dict[str, Any] = {}
    with contextlib.redirect_stdout(None):
        for source in _sources():
            exec(source, defined)
    return defined


def _sources() -> list[str]:
    read = nbformat.reads(NOTEBOOK.read_text(encoding="utf-8"), as_version=4)
    sources = {cell.id: cell.source for cell in read.cells}
    return [sources[name] for name in CELLS]


@contextlib.contextmanager
def _keep_dtype() -> Iterator[None]:
    """The notebook sets the type of new tensors, which belongs to it alone."""
    before = torch.get_default_dtype()
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def main() -> None:
    torch.set_num_threads(1)
    content = pack(train_model().state_dict())
    same = WEIGHTS.is_file() and WEIGHTS.read_bytes() == content
    WEIGHTS.write_bytes(content)
    print(f"{'unchanged' if same else 'written'}  {WEIGHTS.name}, {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
