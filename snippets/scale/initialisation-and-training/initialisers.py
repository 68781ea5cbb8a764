"""Variance and effective keys of initial scores, by initialisation."""

# --8<-- [start:example]
from functools import partial

import torch
from attnref import softmax
from torch import nn

tokens, d_k = 256, 64
generator = torch.Generator().manual_seed(0)
normal, xavier, kaiming = (
    partial(function, generator=generator)
    for function in (
        nn.init.normal_,
        nn.init.xavier_uniform_,
        nn.init.kaiming_uniform_,
    )
)
initialisers = {  # each fills a (d_model, d_model) matrix of all heads
    "normal, 1/d_model": lambda w: normal(w, std=len(w) ** -0.5),
    "Xavier": xavier,
    "Xavier, 3 stacked": lambda w: xavier(w.repeat(3, 1))[: len(w)],
    "Xavier, by head": lambda w: torch.cat([xavier(h) for h in w.split(d_k)]),
    "Kaiming": kaiming,
    "nn.Linear": lambda w: kaiming(w, a=5**0.5),
    "normal, 0.02": lambda w: normal(w, std=0.02),
}

print("                 d_model = 256   d_model = 1024")
print("                   var  keys        var  keys")
for name, initialise in initialisers.items():
    line = f"{name:17}"
    for d_model in (256, 1024):
        x = torch.randn(tokens, d_model, generator=generator)
        x = nn.functional.layer_norm(x, (d_model,))
        q, k = (
            (x @ initialise(torch.zeros(d_model, d_model)).mT)
            .unflatten(-1, (-1, d_k))
            .transpose(0, 1)
            for _ in range(2)
        )  # (heads, tokens, d_k) each
        scores = q @ k.mT / d_k**0.5
        keys = softmax.entropy(scores.softmax(-1)).exp().mean()
        line += f"{scores.var():5.2f} {keys:5.0f}      "
    print(line.rstrip())
# --8<-- [end:example]
