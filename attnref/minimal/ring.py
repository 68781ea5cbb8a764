"""Ring attention: one rank's part of a sequence that no single device holds.

Explained in variants/ring; with every option: attnref.distributed.ring_attention.
"""

import torch
import torch.distributed as dist


def ring_attention(query, key, value):
    """Each rank keeps its queries, and the keys of all ranks travel past them.

        in step t the keys of rank r - t are here; averages merge by their log-sum-exp

    ``query``: ``(..., n_r, d)``; ``key``: ``(..., m_r, d)``; ``value``: ``(..., m_r, d_v)``, this
    rank's part, of one length on all ranks. Keys are sent on before they are used, so that
    sending and computing overlap. Memory for two parts of the keys beside its own, and for n_r m_r
    scores.
    Left out: causality, under which contiguous parts leave ranks waiting; the backward pass, which
    sends the gradients of a part around with it.
    Source: Liu et al. 2023, arXiv 2310.01889.

    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> ring_attention(torch.ones(2, 2), torch.ones(3, 2), torch.ones(3, 1)).flatten()
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    if torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value)):
        raise NotImplementedError("no backward pass: call it under torch.no_grad()")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    query, part = query / query.shape[-1] ** 0.5, [key.contiguous(), value.contiguous()]
    for step in range(ranks):
        if step < ranks - 1:
            arriving = [torch.empty_like(x) for x in part]
            messages = [dist.P2POp(dist.isend, x, (rank + 1) % ranks) for x in part]
            messages += [dist.P2POp(dist.irecv, x, (rank - 1) % ranks) for x in arriving]
            requests = dist.batch_isend_irecv(messages)
        scores = query @ part[0].mT  # (..., n_r, m_r)
        here, here_lse = torch.softmax(scores, -1) @ part[1], scores.logsumexp(-1, keepdim=True)
        if step == 0:
            output, lse = here, here_lse
        else:
            share = torch.sigmoid(here_lse - lse)  # of what is here, in all keys so far
            output = output + share * (here - output)
            lse = torch.logaddexp(lse, here_lse)  # (..., n_r, 1)
        if step < ranks - 1:
            for request in requests:
                request.wait()
            part = arriving
    return output  # (..., n_r, d_v)
