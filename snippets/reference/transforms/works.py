"""Which of PyTorch's transforms each function goes through, with the same numbers."""

# --8<-- [start:example]
import attnref
import torch
from torch import func
from torch.nn.functional import cosine_similarity

n, d = 8, 4
generator = torch.Generator().manual_seed(0)
drawn = {"dtype": torch.float64, "generator": generator}
inputs = torch.randn(3, 2, 2, n, d, **drawn).unbind()  # two sequences
along = torch.randn(3, 2, 2, n, d, **drawn).unbind()  # a direction
shared = torch.randn(5, n, **drawn)

NEEDS = {
    "scaled_dot_product": {},
    "blockwise": {},
    "sliding_window": {"window": 3},
    "varlen": {"cu_seqlens": torch.tensor([0, 3, n])},
    "block_sparse": {"layout": torch.ones(2, 2).bool(), "block_size": 4},
    "kv_cache": {},
    "linear": {},
    "performer": {"projection": torch.randn(6, d, **drawn)},
    "linformer": {"key_projection": shared, "value_projection": shared},
    "nystrom": {"num_landmarks": 4},
    "hierarchical": {"block_size": 2, "num_means": 1},
    "lsh": {"rotations": torch.randn(1, d, 2, **drawn), "chunk_size": 2},
    "topk": {"count": 3},
    "quantized": {},
}


def called(attend, *inputs):
    return attend(*inputs)


def compiled(attend, *inputs):
    torch.compiler.reset()
    options = {"fullgraph": True, "backend": "aot_eager"}
    return torch.compile(attend, **options)(*inputs)


class Program(torch.nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.attend = attend

    def forward(self, query, key, value):
        return self.attend(query, key, value)


def exported(attend, *inputs):
    return torch.export.export(Program(attend), inputs).module()(*inputs)


def one_by_one(attend, *inputs):
    return func.vmap(attend)(*inputs)


def within(context):
    def run(attend, *inputs):
        with context():
            return attend(*inputs)

    return run


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def deterministic(attend, *inputs):
    torch.use_deterministic_algorithms(True)
    try:
        return attend(*inputs)
    finally:
        torch.use_deterministic_algorithms(False)


def loss(attend, *inputs):
    return attend(*inputs).square().sum()


def slope(function, step=1e-5):
    """The derivative in the direction, by a difference quotient."""
    ahead, behind = (
        function(*(x + t * dx for x, dx in zip(inputs, along, strict=True)))
        for t in (step, -step)
    )
    return (ahead - behind) / (2 * step)


def gradient(attend, *inputs):
    return func.grad(loss, argnums=(1, 2, 3))(attend, *inputs)


# --8<-- [end:example]
