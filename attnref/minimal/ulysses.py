"""Ulysses: ranks exchange parts of the sequence for heads, and back.

Explained in variants/ring; with every option: attnref.distributed.ulysses_attention.
"""

import torch
import torch.distributed as dist


def ulysses_attention(query, key, value):
    """Between two exchanges, each rank has all tokens of some heads.

        (h, n / p, d)  →  (h / p, n, d)  →  attention  →  (h, n / p, d_v)

    ``query``, ``key``: ``(h, n / p, d)``; ``value``: ``(h, n / p, d_v)``, this rank's part, of one
    length on all ranks; p, the number of ranks, divides h.
    Left out: causality, which is a mask on the whole sequence between the exchanges; the backward
    pass; fewer key heads than ranks.
    Source: Jacobs et al. 2023, arXiv 2309.14509.

    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> ulysses_attention(torch.ones(4, 2, 2), torch.ones(4, 2, 2), torch.ones(4, 2, 1)).shape
    torch.Size([4, 2, 1])
    >>> dist.destroy_process_group()
    """
    if torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value)):
        raise NotImplementedError("no backward pass: call it under torch.no_grad()")
    ranks = dist.get_world_size()

    def exchange(x):  # what x[r] is goes to rank r, and comes from it
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous())
        return out

    tensors = (x.unflatten(0, (ranks, -1)) for x in (query, key, value))  # (p, h / p, n / p, d)
    q, k, v = (exchange(x).movedim(0, 1).flatten(1, 2) for x in tensors)  # (h / p, n, d)
    weights = torch.softmax((q / q.shape[-1] ** 0.5) @ k.mT, dim=-1)  # (h / p, n, n)
    output = (weights @ v).unflatten(1, (ranks, -1)).movedim(1, 0)  # (p, h / p, n / p, d_v)
    return exchange(output).flatten(0, 1)  # (h, n / p, d_v)
