"""Every kind of factor under four conditions: what it does to a head."""

# --8<-- [start:example]
import math

import torch
from attnref import adaptive_scaling, bounded_scores, scaling, softmax


def times(factor):
    """Queries times a factor, which may be read off them and the keys."""
    return lambda q, k: (scaling.scale_query(q, factor(q, k)), k)


def root(q, k):
    return q.shape[-1] ** -0.5


def length(q, k):
    visible = torch.tensor([float(k.shape[-2])])
    return scaling.log_length(q.shape[-1], visible) / math.log(64)


def entropy(q, k):
    target = math.log(k.shape[-2]) - 0.5
    return adaptive_scaling.from_entropy(q, k, target=target)


def heads(q, k):
    spread = torch.logspace(-2, 2, len(q), base=2)  # from 1/4 to 4
    return (spread * root(q, k))[:, None, None]  # one number per head


methods = {
    "none": times(lambda q, k: 1.0),
    "1/sqrt(d_k)": times(root),
    "1/d_k": times(lambda q, k: 1 / q.shape[-1]),
    "ln n, 1 at 64": times(length),
    "from variance": times(adaptive_scaling.from_variance),
    "from entropy": times(entropy),
    "per head": times(heads),
    "unit, tau = 1": bounded_scores.qk_unit_norm,
    "unit, tau = 10": lambda q, k: times(lambda q, k: 10.0)(
        *bounded_scores.qk_unit_norm(q, k)
    ),
    "rms": lambda q, k: times(root)(*bounded_scores.qk_rms_norm(q, k)),
}
conditions = {  # heads, n, d_k, size of the components of q and k
    "base": (32, 64, 64, 1.0),
    "wide": (32, 64, 1024, 1.0),
    "long": (4, 1024, 64, 1.0),
    "grown": (32, 64, 64, 2.0),
}
tables = {"variance": {}, "keys / n": {}, "gradient": {}}
for name, method in methods.items():
    generator = torch.Generator().manual_seed(0)
    for h, n, d_k, size in conditions.values():
        q, k = size * torch.randn(2, h, n, d_k, generator=generator)
        upstream = torch.randn(h, n, n, generator=generator)
        q_scaled, k_scaled = method(q.requires_grad_(), k)
        s = q_scaled @ k_scaled.mT
        p = softmax.stable(s)
        (gradient,) = torch.autograd.grad(p, q, upstream)
        found = (
            s.var((-2, -1)).mean(),
            softmax.entropy(p).exp().mean() / n,
            gradient.norm(dim=-1).median(),
        )
        for table, number in zip(tables.values(), found, strict=True):
            table.setdefault(name, []).append(number.item())
for title, table in tables.items():
    print(f"{title:14}" + "".join(f"{label:>9}" for label in conditions))
    for name, numbers in table.items():
        print(f"{name:14}" + "".join(f"{x:9.3f}" for x in numbers))
# --8<-- [end:example]
