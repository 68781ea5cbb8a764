"""Blocks that rescale only when the maximum has risen by enough."""

# --8<-- [start:example]
import math

import torch


def attend(scores, values, *, block=128, threshold=8):
    """Output for scores (n, m) to the base 2, rescaled rows, largest power."""
    top = torch.full((len(scores), 1), -torch.inf)
    total, sums = torch.zeros(len(scores), 1), torch.zeros(len(scores), 1)
    rescaled, largest = 0, 0.0
    for s, v in zip(scores.split(block, -1), values.split(block), strict=True):
        highest = torch.maximum(top, s.amax(-1, keepdim=True))
        rises = highest - top > threshold
        new = torch.where(rises, highest, top)  # an old maximum may stay
        factor = torch.exp2(top - new)  # 1 where it stays
        powers = torch.exp2(s - new)  # at most 2**threshold
        total = factor * total + powers.sum(-1, keepdim=True)
        sums = factor * sums + powers @ v
        rescaled += int(rises.sum())
        top, largest = new, max(largest, powers.max().item())
    return sums / total, rescaled, largest


if __name__ == "__main__":
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(8192, 64, generator=generator)
    noise = 2.0 * torch.randn(256, 8192, generator=generator)
    for name, scores in {
        "like noise": noise,
        "rising": noise + torch.linspace(0, 300, 8192),
    }.items():
        weights = torch.softmax(scores.double() * math.log(2), -1)  # base 2
        expected = (weights @ values.double()).float()
        for threshold in (0, 8, 1000):
            output, rescaled, largest = attend(
                scores, values, threshold=threshold
            )
            right = torch.allclose(output, expected, atol=1e-5)
            print(
                f"{name:10}  threshold {threshold:4}: "
                f"{rescaled / 256:4.1f} of 64 blocks rescale, "
                f"largest power {largest:5.1f}, right: {right}"
            )
# --8<-- [end:example]
