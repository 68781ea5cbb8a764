r"""Two dimensions of ranks: heads within each row of a mesh, a ring along its columns.

A head group of ``p_h`` ranks turns its parts of the sequence into heads, as Ulysses does; then
``p_r`` such groups form rings, one for each part of the heads. The ring is shorter, and its
blocks hold fewer heads: a rank sends ``p_h`` times less of keys and values.
"""

from typing import Any

from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from attnref._door import Call, enter
from attnref.distributed._agreement import Terms, agree, number_of_call
from attnref.distributed._call import check_mask_of_all, plan_share, query_and_key_positions, terms
from attnref.distributed.layouts import dimensions_of
from attnref.distributed.ring import ring
from attnref.distributed.ulysses import Turn, check_heads
from attnref.masks import Mask
from attnref.record import Example, Method
from attnref.reference import scaled_dot_product_attention


def mesh_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    mesh: DeviceMesh,
    layout: str = "zigzag",
) -> Tensor:
    r"""Softmax attention over a sequence shared by a mesh: rings of ranks that divide the heads.

        (h, n/(p_r p_h), d) → (h/p_h, n/p_r, d) → ring → (h, n/(p_r p_h), d_v)

    The same function as :func:`ring_attention`, forward and backward.

    Args:
        query: ``(..., h, n_r, d_k)``, this rank's part of n, as :func:`shard` cuts it for the mesh;
            any floating dtype of 16 bits or more.
        key: ``(..., h_kv, m_r, d_k)``, this rank's part of m, same dtype and device.
        value: ``(..., h_kv, m_r, d_v)``, same dtype and device.
        attn_mask: a mask of :mod:`attnref.masks` over the whole ``(..., n, m)``, the same on all
            ranks and for all heads.
        dropout_p: 0.0, for PyTorch's order of arguments.
        is_causal: query i sees the keys j <= i, by their positions in the whole sequence.
        scale: the factor on the scores; None means ``1/sqrt(d_k)``.
        enable_gqa: consecutive query heads share a key head.
        mesh: two dimensions: the ring, then the ranks that divide the heads, which send most and
            are better near each other. Its second size divides the heads of query and key.
        layout: which positions a rank of the ring holds; the ranks that divide its heads share
            them in contiguous parts.

    Returns:
        ``(..., h, n_r, d_v)`` in the dtype and on the device of ``query``.

    Raises:
        TypeError, ValueError, torch.distributed.DistError: as :func:`ring_attention`, and for a
            mesh of another number of dimensions, or heads that its second size does not divide.

    Exact up to rounding; NaN and inf as in the ring. Operations and memory as in the
    ring of all ranks; see :func:`attnref.cost.sent`. First derivatives only, by
    ``backward()``: with ``create_graph=True`` it raises RuntimeError, inside ``torch.func`` the
    call itself TypeError.

    Source: Fang and Zhao 2024, arXiv 2405.07719; Gu et al. 2024, arXiv 2406.18485.

    Examples:
        >>> import torch
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("ring", "heads"))
        >>> query, value = torch.zeros(1, 3, 2), torch.tensor([[[3.0], [5.0], [10.0]]])
        >>> mesh_attention(query, query, value, mesh=mesh, is_causal=True).flatten()
        tensor([3., 4., 6.])
        >>> dist.destroy_process_group()
    """
    if not isinstance(mesh, DeviceMesh) or mesh.ndim != 2:
        got = f"{mesh.ndim} dimensions" if isinstance(mesh, DeviceMesh) else type(mesh).__name__
        raise ValueError(
            f"mesh: expected a DeviceMesh of two dimensions, the ring and the heads, got {got}. "
            'Make it with init_device_mesh("cpu", (ring, heads)).'
        )
    along, across = dimensions_of("mesh_attention", mesh)

    def check() -> tuple[Call, Terms]:
        call = enter(query, key, value, None, dropout_p, is_causal, scale, enable_gqa)
        found = terms(call, attn_mask, layout)
        check_heads(across, call, attn_mask)
        return call, found

    call, lengths = agree(check, along, across)
    rows = [lengths[i : i + across.size] for i in range(0, len(lengths), across.size)]
    totals = [(sum(n for n, _ in row), sum(m for _, m in row)) for row in rows]
    queries, keys = query_and_key_positions(along, totals, layout)
    for row in rows:  # each of them, so that all ranks find the same
        inside = query_and_key_positions(across, row, "contiguous")
        if row is rows[along.rank]:
            turn = Turn(across, *inside, number_of_call(across))
    check_mask_of_all(call, lengths, attn_mask, along, across)
    q, k, v = turn.to_heads(query, key, value)
    shape = (*call.shape[:-3], call.shape[-3] // across.size, q.shape[-2], k.shape[-2])
    inner = Call(q, k, v, None, *call[4:7], shape)
    output = ring(
        plan_share(along, inner, queries, keys, attn_mask), q, k, v, is_masked=attn_mask is not None
    )
    return turn.to_parts(output)


def _formula(
    query: Tensor, key: Tensor, value: Tensor, *, mesh: DeviceMesh, **options: Any
) -> Tensor:
    return scaled_dot_product_attention(query, key, value, **options)


def _one_rank_mesh(given: Example) -> dict[str, Any]:
    return {"mesh": init_device_mesh(given.query.device.type, (1, 1))}


METHOD = Method(
    function=mesh_attention,
    page="variants/ring",
    formula=_formula,
    example=_one_rank_mesh,
    plain=_one_rank_mesh,
    derivatives=1,
    dimensions=3,
    masks="objects",
    isolates=(),
)
