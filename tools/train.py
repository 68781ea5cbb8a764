"""Trains the small Transformer of the notebook of training, and records its weights.

    python tools/train.py

That takes about a minute, and is wanted when the notebook's cells have changed that come before a
training. The file is part of the project: a build of the site trains nothing.
"""

import small_model
import torch


def main() -> None:
    torch.set_num_threads(1)
    content = small_model.pack(small_model.train_model().state_dict())
    same = small_model.WEIGHTS.is_file() and small_model.WEIGHTS.read_bytes() == content
    small_model.WEIGHTS.parent.mkdir(parents=True, exist_ok=True)
    small_model.WEIGHTS.write_bytes(content)
    state, name = "unchanged" if same else "written", small_model.WEIGHTS.name
    print(f"{state}  {name}, {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
