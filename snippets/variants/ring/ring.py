"""A sequence on four ranks; python starts torchrun, which starts the ranks."""

# --8<-- [start:example]
import torch
import torch.distributed as dist
from attnref import scaled_dot_product_attention
from attnref.distributed import gather, ring_attention, shard
from attnref.minimal import ring, ulysses


def main():
    dist.init_process_group("gloo")  # with GPUs: "nccl"
    generator = torch.Generator().manual_seed(0)  # the same on all ranks
    h, h_kv, n, d = 8, 4, 1001, 16  # no length is too odd
    whole = [
        torch.randn(heads, n, d, generator=generator, dtype=torch.float64)
        for heads in (h, h_kv, h_kv)
    ]

    even = [x[:h_kv, :1000] for x in whole]  # equal parts, 4 heads
    ranks, rank = dist.get_world_size(), dist.get_rank()
    mine = [x.chunk(ranks, dim=-2)[rank] for x in even]
    wanted = scaled_dot_product_attention(*even).chunk(ranks, dim=-2)[rank]
    for form in (ring.ring_attention, ulysses.ulysses_attention):
        output = form(*mine)
        if rank == 0:
            print(f"{form.__name__}:", torch.allclose(output, wanted))

    parts = [shard(x).requires_grad_() for x in whole]  # what a rank holds
    output = ring_attention(*parts, is_causal=True, enable_gqa=True)
    output.square().sum().backward()

    for x in whole:  # and all of it on one device, to compare
        x.requires_grad_()
    expected = scaled_dot_product_attention(
        *whole, is_causal=True, enable_gqa=True
    )
    expected.square().sum().backward()

    found = [gather(x) for x in (output.detach(), *(x.grad for x in parts))]
    wanted = [expected.detach(), *(x.grad for x in whole)]
    if rank == 0:
        print("ranks:", ranks)
        print("queries of rank 0:", parts[0].shape[-2], "of", n)
        for name, one, other in zip(
            ("output", "d_query", "d_key", "d_value"),
            found,
            wanted,
            strict=True,
        ):
            print(f"{name:8} the same:", torch.allclose(one, other))
    dist.destroy_process_group()


# --8<-- [end:example]


def start():
    """The same program under torchrun, which tells each process its rank."""
    import subprocess
    import sys

    program = ["-m", "torch.distributed.run", "--standalone"]
    program += ["--nproc-per-node", "4", __file__]
    said = subprocess.run(
        [sys.executable, *program],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    print(said.stdout, end="")


if __name__ == "__main__":
    if dist.is_torchelastic_launched():
        main()
    else:
        start()
