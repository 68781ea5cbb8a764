"""A gated delta rule that computes the error before the state decays."""

# --8<-- [start:example]
import torch


def gated_delta(q, k, v, g, beta):
    shape = *k.shape[:2], k.shape[-1], v.shape[-1]
    state = torch.zeros(shape, dtype=torch.float32)
    outputs = []
    for t in range(k.shape[-2]):
        key, value = k[..., t, :, None], v[..., t, None, :]
        decay, rate = g[..., t, None, None].exp(), beta[..., t, None, None]
        error = value - (key * state).sum(-2, keepdim=True)
        state = decay * state + rate * key * error
        outputs.append((q[..., t, :, None] * state).sum(-2))
    return torch.stack(outputs, dim=-2).to(q.dtype) / q.shape[-1] ** 0.5


# --8<-- [end:example]

if __name__ == "__main__":
    from pathlib import Path

    from shell import typed

    typed("attnref check delta.py:gated_delta", Path(__file__).parent, head=20)
