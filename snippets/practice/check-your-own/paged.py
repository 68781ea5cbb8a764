"""A step over pages that reads a new page before it is full."""

# --8<-- [start:example]
import torch

PAGE = 16


class Pages:
    def __init__(self, batch, heads, head_dim, dtype):
        self.keys, self.values, self.length = [], [], 0
        self.page = torch.zeros(batch, heads, PAGE, head_dim, dtype=dtype)

    def append(self, key, value):
        slot = self.length % PAGE
        if slot == 0:
            self.keys.append(self.page.clone())
            self.values.append(self.page.clone())
        self.keys[-1][:, :, slot] = key
        self.values[-1][:, :, slot] = value
        self.length += 1


def step(query, key, value, cache):
    outputs = []
    for t in range(query.shape[-2]):
        cache.append(key[:, :, t], value[:, :, t])
        keys, values = torch.cat(cache.keys, -2), torch.cat(cache.values, -2)
        scores = (query[:, :, t, None] / query.shape[-1] ** 0.5) @ keys.mT
        outputs.append(scores.softmax(dim=-1) @ values)
    return torch.cat(outputs, dim=-2), cache


# --8<-- [end:example]

if __name__ == "__main__":
    from pathlib import Path

    from shell import typed

    typed(
        "attnref check paged.py:step --cache paged.py:Pages",
        Path(__file__).parent,
        head=9,
    )
