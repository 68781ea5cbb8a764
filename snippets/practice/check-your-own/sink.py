"""A sink that is left out before the softmax, and so takes nothing."""

# --8<-- [start:example]
import torch


def attention(query, key, value, sinks=None):
    scores = (query / query.shape[-1] ** 0.5) @ key.mT
    m = scores.shape[-1]
    if sinks is not None:
        column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], dim=-1)
    return scores[..., :m].softmax(dim=-1) @ value


# --8<-- [end:example]

if __name__ == "__main__":
    from pathlib import Path

    from shell import typed

    typed("attnref check sink.py:attention", Path(__file__).parent, head=19)
