"""The programs of the docstrings, and what they are run on.

Shapes are ``(key_heads, group, length, d)``, the batch among the heads.
"""

import numpy as np
import torch

from attnref.cost import Operations
from tests.cost.counter import Counter

ALL = {"n": 13, "m": 17, "d_k": 5, "d_v": 7}
BLOCK = (4, 5)
WINDOWS = [(None, None), (None, 0), (None, 4), (2, 5)]
HEADS = [(3, 3), (6, 2), (5, 1)]
DTYPES = [torch.float16, torch.float32, torch.float64]


def dense_window(n, m, window, device=None):
    distance = torch.arange(m, device=device) - torch.arange(n, device=device)[:, None]  # (n, m)
    left, right = (n + m if limit is None else limit for limit in window)
    return (-left <= distance) & (distance <= right)


def inputs(sizes, generator):
    """The query ``(key_heads, group, n, d_k)``, key, value and a gradient of the output."""
    heads, group = sizes.batch * sizes.kv_heads, sizes.num_heads // sizes.kv_heads
    shapes = [
        (heads, group, sizes.n, sizes.d_k),
        (heads, sizes.m, sizes.d_k),
        (heads, sizes.m, sizes.d_v),
        (heads, group, sizes.n, sizes.d_v),
    ]
    options = {"generator": generator, "device": generator.device, "dtype": sizes.dtype}
    return [torch.randn(shape, **options) for shape in shapes]


def plain_attention(query, key, value, forbidden=None):
    key_heads, group, n, d_k = query.shape
    scores = query.reshape(key_heads, group * n, d_k) @ key.mT  # (key_heads, group n, m)
    scores = scores * d_k**-0.5
    if forbidden is not None:
        shape = scores.shape
        scores = scores.view(-1, *forbidden.shape).masked_fill(forbidden, -torch.inf).view(shape)
    scores = torch.softmax(scores, dim=-1)
    return (scores @ value).view(key_heads, group, n, -1)


def definition(sizes, float_mask=False):
    """Operations of the package's own: scores twice, and three indicators beside each value."""
    h, n, m = sizes.batch * sizes.num_heads, sizes.n, sizes.m
    return Operations(
        matmul=2 * h * n * m * (2 * sizes.d_k + 4 * sizes.d_v),
        elementwise=h * n * ((10 + float_mask) * m + sizes.d_k + 2),
        exponentials=h * n * (3 * m + 2),
    )


def row_by_row(query, key, value, allowed):
    seen = [torch.nonzero(row)[:, 0] for row in allowed]
    output = torch.empty(*query.shape[:-1], value.shape[-1], dtype=key.dtype, device=key.device)
    with Counter() as counter:
        for place in np.ndindex(output.shape[:-1]):
            head, _, i = place
            keys, values = key[head, seen[i]], value[head, seen[i]]  # (allowed, d)
            scores = keys @ (query[place] * query.shape[-1] ** -0.5)[:, None]  # (allowed, 1)
            powers = (scores - scores.amax()).exp()
            output[place] = (powers.mT @ values / powers.sum())[0]
    return output, counter.cost.operations


def spans(length, block):
    return [slice(start, min(start + block, length)) for start in range(0, length, block)]


def met_tiles(allowed, block):
    """The tiles with an allowed pair: where they begin, and what they forbid within."""
    n, m = allowed.shape
    places = [(rows, columns) for rows in spans(n, block[0]) for columns in spans(m, block[1])]
    return {
        (rows.start, columns.start): ~allowed[rows, columns]
        for rows, columns in places
        if allowed[rows, columns].any()
    }


def blockwise(query, key, value, *, block, forbidden, return_lse=False):
    key_heads, group, n, d_k = query.shape
    m, d_v = value.shape[-2:]
    like = {"dtype": query.dtype, "device": query.device}
    never = torch.finfo(query.dtype).min  # -inf - -inf would be NaN
    output = torch.empty(key_heads, group, n, d_v, **like)
    lse = torch.empty(key_heads, group, n, **like) if return_lse else None

    def tile(q, top, total, out, rows, columns):
        k, v = key[:, columns].clone(), value[:, columns].clone()
        scores = q @ k.mT  # (key_heads, group block_q, block_k)
        by_query = scores.view(key_heads, group, -1, scores.shape[-1])
        by_query.masked_fill_(forbidden[rows.start, columns.start], never)
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        powers = scores.sub_(new).exp_()
        shrink = top.sub_(new).exp_()
        total.mul_(shrink).add_(powers.sum(-1, keepdim=True))
        out.mul_(shrink).baddbmm_(powers, v)
        return new

    def block_of_queries(rows):
        q = query[:, :, rows].clone(memory_format=torch.contiguous_format)
        q = q.mul_(d_k**-0.5).view(key_heads, -1, d_k)  # (key_heads, group block_q, d_k)
        top = torch.full((*q.shape[:2], 1), never, **like)
        total, out = torch.zeros(top.shape, **like), torch.zeros(*q.shape[:2], d_v, **like)
        for columns in spans(m, block[1]):
            if (rows.start, columns.start) in forbidden:
                top = tile(q, top, total, out, rows, columns)
        output[:, :, rows] = out.div_(total).view(key_heads, group, -1, d_v)
        if return_lse:
            lse[:, :, rows] = top.add_(total.log()).view(key_heads, group, -1)

    for rows in spans(n, block[0]):
        block_of_queries(rows)
    return (output, lse) if return_lse else output


def blockwise_backward(query, key, value, output, lse, grad, *, block, forbidden):
    key_heads, group, n, d_k = query.shape
    m, d_v = value.shape[-2:]
    like = {"dtype": query.dtype, "device": query.device}
    delta = torch.empty(key_heads, group, n, **like)
    d_query, d_key, d_value = (torch.empty(x.shape, **like) for x in (query, key, value))
    for rows in spans(n, block[0]):
        delta[:, :, rows] = (grad[:, :, rows] * output[:, :, rows]).sum(-1)
    d_query.zero_()

    def tile(k, v, k_grad, v_grad, rows, columns):
        q = query[:, :, rows].clone().view(key_heads, -1, d_k)
        g = grad[:, :, rows].clone().view(key_heads, -1, d_v)
        powers = q @ k.mT  # (key_heads, group block_q, block_k)
        by_query = powers.view(key_heads, group, -1, powers.shape[-1])
        by_query.masked_fill_(forbidden[rows.start, columns.start], -torch.inf)
        by_query.sub_(lse[:, :, rows, None]).exp_()
        v_grad.baddbmm_(powers.mT, g)
        d_scores = (g @ v.mT).view(by_query.shape)
        d_scores.sub_(delta[:, :, rows, None]).mul_(by_query)
        for member in range(group):
            d_query[:, member, rows].baddbmm_(d_scores[:, member], k)
        k_grad.baddbmm_(d_scores.view(powers.shape).mT, q)

    def block_of_keys(columns):
        k, v = key[:, columns] * d_k**-0.5, value[:, columns].clone()
        k_grad, v_grad = torch.zeros(k.shape, **like), torch.zeros(v.shape, **like)
        for rows in spans(n, block[0]):
            if (rows.start, columns.start) in forbidden:
                tile(k, v, k_grad, v_grad, rows, columns)
        d_key[:, columns] = k_grad.mul_(d_k**-0.5)
        d_value[:, columns] = v_grad

    for columns in spans(m, block[1]):
        block_of_keys(columns)
    return d_query, d_key, d_value


def linear(query, key, value):
    state = key.mT @ value
    norm = key.sum(-2, keepdim=True)
    total = (query * norm).sum(-1, keepdim=True)
    output = query @ state
    return output.div_(total)


def multihead(x, layers, sizes, core):
    """One sequence: with a batch before them, heads would not be views that bmm can take."""
    to_query, to_key, to_value, to_output, *to_gates = layers

    def heads(number, layer):
        return layer(x).view(len(x), number, -1).transpose(0, 1)  # (heads, n, d)

    def attend():
        return core(
            heads(sizes.num_heads, to_query).unflatten(0, (sizes.kv_heads, -1)),
            heads(sizes.kv_heads, to_key),
            heads(sizes.kv_heads, to_value),
        )

    output = attend().flatten(0, 1)  # (heads, n, d_v)
    for to_gate in to_gates:
        output = output * torch.sigmoid(heads(sizes.num_heads, to_gate))
    output = output.transpose(0, 1).reshape(len(x), -1)  # (n, heads d_v)
    return to_output(output)


def feedforward(x, first, second):
    hidden = first(x)
    hidden = torch.relu(hidden)
    return second(hidden)
