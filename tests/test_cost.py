"""Costs are counted here, not computed: programs run under a counter of what they really do."""

import math
import re
import weakref
from functools import partial

import numpy as np
import pytest
import torch
from torch._decomp import decomposition_table
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

import attnref
from attnref import cost, masks
from attnref.cost import Cost, Operations, Sizes
from attnref.multihead import MultiHeadAttention
from attnref.positions import rotary

aten = torch.ops.aten
PRODUCTS = {aten.mm, aten.bmm, aten.addmm, aten.baddbmm_}
ONE_A_RESULT = {
    *(aten.add, aten.add_, aten.sub, aten.sub_, aten.mul, aten.mul_, aten.div, aten.div_),
    *(aten.maximum, aten.relu),
}
ONE_AN_ARGUMENT = {aten.sum, aten.amax}
EXPONENTIALS = {aten.exp, aten.exp_, aten.log}
# Of one kernel's memory traffic, but of several operations: PyTorch's own decomposition tells.
COMPOUND = {aten._softmax, aten._softmax_backward_data, aten.logsumexp}
NOT_OPERATIONS = {
    *(aten.empty, aten.full, aten.zeros, aten.zero_, aten.zeros_like, aten.ones),
    *(aten.scalar_tensor, aten.clone, aten.copy_, aten._to_copy, aten.to, aten.cat, aten.index),
    *(aten.where, aten.masked_fill, aten.masked_fill_, aten.abs, aten.isnan),
    *(aten.eq, aten.ne, aten.gt, aten.all, aten.any, aten.bitwise_and, aten.bitwise_or),
    *(aten.bitwise_not, aten.tril),
}
ONLY_WRITTEN = {aten.zero_, aten.copy_}  # their first argument is not read


class Counter(TorchDispatchMode):
    """Counts what every kernel does: arithmetic, bytes read and written, bytes alive.

    With ``arguments`` only main memory has traffic, which is these tensors and those made by
    ``torch.empty``; everything else stands for what a tile holds on the chip.
    """

    def __init__(self, *arguments):
        super().__init__()
        self.cost = Cost()
        self.live = 0
        self.main = {storage_id(tensor) for tensor in arguments}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        read = {id(tensor): tensor for tensor in tensors((args, kwargs))}
        made = tensors(result)
        owned = {storage_id(tensor) for tensor in read.values()}
        changes = func._schema.is_mutable
        if not changes and made and all(storage_id(tensor) in owned for tensor in made):
            return result  # a view
        kernel = func.overloadpacket
        self.allocate([tensor for tensor in made if storage_id(tensor) not in owned])
        if kernel is aten.empty:
            if self.main:
                self.main |= {storage_id(tensor) for tensor in made}
            return result
        if kernel in ONLY_WRITTEN:
            del read[id(args[0])]
        self.cost += Cost(
            self.operations(func, args, kwargs or {}, made),
            sum(map(self.traffic, read.values())),
            sum(map(self.traffic, made)),
        )
        return result

    def operations(self, func, args, kwargs, made):
        kernel, (out,) = func.overloadpacket, made
        if kernel in COMPOUND:
            with Counter() as parts:
                decomposition_table[func](*args, **kwargs)
            return parts.cost.operations
        if kernel in PRODUCTS:
            return Operations(matmul=2 * out.numel() * args[-2].shape[-1])
        if kernel in ONE_A_RESULT:
            return Operations(elementwise=out.numel() * out.is_floating_point())
        if kernel in ONE_AN_ARGUMENT:
            return Operations(elementwise=args[0].numel())
        if kernel in EXPONENTIALS:
            return Operations(exponentials=out.numel())
        assert kernel in NOT_OPERATIONS, f"{func} has no rule of counting"
        return Operations()

    def traffic(self, tensor):
        if self.main and storage_id(tensor) not in self.main:
            return 0
        # A broadcast dimension has a stride of 0: the same number, read once.
        sizes = zip(tensor.shape, tensor.stride(), strict=True)
        return tensor.itemsize * math.prod(size for size, stride in sizes if stride)

    def allocate(self, made):
        for storage in {storage_id(tensor): tensor.untyped_storage() for tensor in made}.values():
            self.live += storage.nbytes()
            weakref.finalize(storage, self.free, storage.nbytes())
        self.cost += Cost(peak_bytes=self.live)

    def free(self, number):
        self.live -= number


def storage_id(tensor):
    return tensor.untyped_storage()._cdata


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Number:
    """A float that counts what is done with it: a second counter, which knows no kernels."""

    done = Operations()

    def __init__(self, value):
        self.value = value

    @classmethod
    def count(cls, value, **operation):
        cls.done += Operations(**operation)
        return cls(value)

    def __add__(self, other):
        return self.count(self.value + other.value, elementwise=1)

    def __sub__(self, other):
        return self.count(self.value - other.value, elementwise=1)

    def __mul__(self, other):
        return self.count(self.value * other.value, elementwise=1)

    def __truediv__(self, other):
        return self.count(self.value / other.value, elementwise=1)

    def maximum(self, other):
        return self.count(max(self.value, other.value), elementwise=1)

    def exp(self):
        return self.count(math.exp(self.value), exponentials=1)


# --- the programs of the docstrings: (key_heads, group, length, d), the batch among the heads


def plain(query, key, value, forbidden=None):
    key_heads, group, n, d_k = query.shape
    scores = query.reshape(key_heads, group * n, d_k) @ key.mT  # (key_heads, group n, m)
    scores = scores * d_k**-0.5
    if forbidden is not None:
        shape = scores.shape
        scores = scores.view(-1, *forbidden.shape).masked_fill(forbidden, -torch.inf).view(shape)
    scores = torch.softmax(scores, dim=-1)
    return (scores @ value).view(key_heads, group, n, -1)


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
    to_query, to_key, to_value, to_output = layers

    def heads(number, layer):
        return layer(x).view(len(x), number, -1).transpose(0, 1)  # (heads, n, d)

    def attend():
        return core(
            heads(sizes.num_heads, to_query).unflatten(0, (sizes.kv_heads, -1)),
            heads(sizes.kv_heads, to_key),
            heads(sizes.kv_heads, to_value),
        )

    output = attend().flatten(0, 1).transpose(0, 1).reshape(len(x), -1)  # (n, heads d_v)
    return to_output(output)


def feedforward(x, first, second):
    hidden = first(x)
    hidden = torch.relu(hidden)
    return second(hidden)


# --- what they are counted on


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


def exact(query, key, value, allowed=None):
    return attnref.scaled_dot_product_attention(query, key[:, None], value[:, None], allowed)


# --- softmax attention


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "key_heads"), HEADS)
@pytest.mark.parametrize("masked", [False, True])
def test_plain(heads, key_heads, masked, dtype, device, generator):
    sizes = Sizes(**ALL, num_heads=heads, num_kv_heads=key_heads, dtype=dtype)
    query, key, value, _ = inputs(sizes, generator)
    forbidden = ~dense_window(sizes.n, sizes.m, (2, 5), device) if masked else None
    with Counter() as counter:
        plain(query, key, value, forbidden)
    assert counter.cost == cost.plain(sizes, masked=masked)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "key_heads"), HEADS)
@pytest.mark.parametrize("masked", [False, True])
def test_plain_and_its_gradients(heads, key_heads, masked, dtype, device, generator):
    sizes = Sizes(**ALL, num_heads=heads, num_kv_heads=key_heads, dtype=dtype)
    query, key, value, grad = inputs(sizes, generator)
    forbidden = ~dense_window(sizes.n, sizes.m, (2, 5), device) if masked else None
    arguments = [tensor.requires_grad_() for tensor in (query, key, value)]
    with Counter() as counter:
        output = plain(*arguments, forbidden)
        torch.autograd.grad(output, arguments, grad)
    counted = cost.plain(sizes, masked=masked) + cost.plain_backward(sizes, masked=masked)
    assert counter.cost == counted


@pytest.mark.parametrize("sizes", [Sizes(n=3, m=2, d_k=11, d_v=13), Sizes(n=19, m=2, d_k=3, d_v=1)])
def test_plain_where_the_scores_are_the_smaller_part(sizes, generator):
    """Then the output, or the gradients, set the peak."""
    *arguments, grad = inputs(sizes, generator)
    for tensor in arguments:
        tensor.requires_grad_()
    with Counter() as counter:
        output = plain(*arguments)
        torch.autograd.grad(output, arguments, grad)
    assert counter.cost == cost.plain(sizes) + cost.plain_backward(sizes)
    with Counter() as counter, torch.no_grad():
        plain(*arguments)
    assert counter.cost == cost.plain(sizes)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("heads", "key_heads"), HEADS)
def test_fused(heads, key_heads, window, device, generator):
    sizes = Sizes(**ALL, num_heads=heads, num_kv_heads=key_heads, dtype=torch.float64)
    query, key, value, _ = inputs(sizes, generator)
    allowed = dense_window(sizes.n, sizes.m, window, device)
    output, operations = row_by_row(query, key, value, allowed)
    torch.testing.assert_close(output, exact(query, key, value, allowed), rtol=1e-12, atol=1e-12)
    counted = cost.fused(sizes, pairs=int(allowed.sum()))
    assert counted.operations == operations
    assert counted.bytes_read == query.nbytes + key.nbytes + value.nbytes
    assert counted.bytes_written == counted.peak_bytes == output.nbytes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("heads", "key_heads"), HEADS)
def test_blockwise_and_its_gradients(heads, key_heads, window, dtype, device, generator):
    sizes = Sizes(**ALL, num_heads=heads, num_kv_heads=key_heads, dtype=dtype)
    *arguments, grad = inputs(sizes, generator)
    allowed = dense_window(sizes.n, sizes.m, window, device)
    step = {"block": BLOCK, "window": window}
    program = {"block": BLOCK, "forbidden": met_tiles(allowed, BLOCK)}
    with Counter(*arguments) as counter:
        blockwise(*arguments, **program)
    assert counter.cost == cost.blockwise(sizes, **step)

    with Counter(*arguments, grad) as counter:
        output, lse = blockwise(*arguments, **program, return_lse=True)
        gradients = blockwise_backward(*arguments, output, lse, grad, **program)
    forward = cost.blockwise(sizes, **step, return_lse=True)
    assert counter.cost == forward + cost.blockwise_backward(sizes, **step)

    if dtype == torch.float64:  # what was counted is attention
        expected = exact(*(tensor.requires_grad_() for tensor in arguments), allowed)
        torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
        for ours, theirs in zip(
            gradients, torch.autograd.grad(expected, arguments, grad), strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def scalar_attention(query, key, value, scale):
    """The textbook formula on single numbers, where every operation is seen."""
    zero, output = Number(0.0), []
    for q in query:
        scores = [sum((a * b for a, b in zip(q, k, strict=True)), zero) * scale for k in key]
        top = Number(-math.inf)
        for score in scores:
            top = top.maximum(score)
        powers = [(score - top).exp() for score in scores]
        total = sum(powers, zero)
        weights = [power / total for power in powers]
        columns = zip(*value, strict=True)
        output.append(
            [sum((p * v for p, v in zip(weights, c, strict=True)), zero) for c in columns]
        )
    return output


def scalar_linear(query, key, value):
    """Linear attention as a recurrence, causal: the state takes in one token at a time."""
    zero, output = Number(0.0), []
    state = [[zero] * len(value[0]) for _ in key[0]]
    norm = [zero] * len(key[0])
    for q, k, v in zip(query, key, value, strict=True):
        norm = [a + b for a, b in zip(norm, k, strict=True)]
        state = [
            [s + a * b for s, b in zip(row, v, strict=True)]
            for row, a in zip(state, k, strict=True)
        ]
        total = sum((a * b for a, b in zip(q, norm, strict=True)), zero)
        sums = (
            sum((a * b for a, b in zip(q, c, strict=True)), zero) for c in zip(*state, strict=True)
        )
        output.append([number / total for number in sums])
    return output


def numbers(tensor):
    return [[Number(number) for number in row] for row in tensor.tolist()]


def test_plain_on_single_numbers(monkeypatch, generator):
    """A counter that knows no kernels agrees: d numbers are d additions from an accumulator."""
    monkeypatch.setattr(Number, "done", Operations())
    sizes = Sizes(**ALL, dtype=torch.float64)
    query, key, value, _ = inputs(sizes, generator)
    output = scalar_attention(*map(numbers, (query[0, 0], key[0], value[0])), Number(5**-0.5))
    expected = [[number.value for number in row] for row in output]
    torch.testing.assert_close(
        exact(query, key, value)[0, 0].cpu(), torch.tensor(expected, dtype=torch.float64)
    )
    counted = cost.plain(sizes).operations
    assert Number.done.exponentials == counted.exponentials
    assert Number.done.elementwise == counted.matmul + counted.elementwise


@pytest.mark.parametrize("dtype", [torch.bfloat16, *DTYPES])
@pytest.mark.parametrize("mask", [None, "bool", "causal", "float"])
def test_reference(mask, dtype, device, generator):
    sizes = Sizes(**ALL, batch=2, num_heads=6, num_kv_heads=3, dtype=dtype)
    shapes = (2, 6, 13, 5), (2, 3, 17, 5), (2, 3, 17, 7)
    query, key, value = (
        torch.randn(shape, device=device, generator=generator).to(dtype) for shape in shapes
    )
    attn_mask = {
        "bool": dense_window(13, 17, (2, 5), device),
        "float": torch.zeros(13, 17, device=device),
    }.get(mask)
    options = {"is_causal": mask == "causal", "enable_gqa": True}
    with Counter() as counter, FlopCounterMode(display=False) as flops:
        attnref.scaled_dot_product_attention(query, key, value, attn_mask, **options)
    counted = cost.reference(sizes, float_mask=mask == "float")
    assert counter.cost.operations == counted
    assert flops.get_total_flops() == counted.matmul
    assert counted.matmul > cost.plain(sizes).operations.matmul  # NaN is traced


# --- which pairs


def test_allowed_pairs_and_tiles_by_enumeration():
    limits = [None, *range(-3, 5)]
    windows = [(a, b) for a in limits for b in limits if None in (a, b) or a + b >= 0]
    for n, m, (left, right) in [(n, m, w) for n in (1, 3, 7) for m in (1, 5) for w in windows]:
        allowed = np.array(
            [
                [(left is None or j >= i - left) and (right is None or j <= i + right)
                 for j in range(m)]
                for i in range(n)
            ]
        )  # fmt: skip
        assert cost.allowed_pairs(n, m, window=(left, right)) == allowed.sum()
        for block in [(1, 1), (2, 3), (3, 2), (9, 9)]:
            met = [
                (range(n)[rows], range(m)[columns])
                for rows in spans(n, block[0])
                for columns in spans(m, block[1])
                if allowed[rows, columns].any()
            ]
            loads = {(rows, j) for rows, columns in met for j in columns}
            assert cost.tiles(n, m, block=block, window=(left, right)) == cost.Tiles(
                count=len(met),
                pairs=sum(len(rows) * len(columns) for rows, columns in met),
                rows=sum(len(rows) for rows, _ in met),
                columns=len(loads),
            )


@pytest.mark.parametrize(("n", "m"), [(13, 13), (13, 17), (17, 13)])
def test_causal_windows_are_the_masks_of_the_package(n, m):
    for alignment, offset in [("top-left", 0), ("bottom-right", m - n)]:
        dense = masks.causal(n, m, alignment=alignment).dense()
        assert cost.allowed_pairs(n, m, window=(None, offset)) == int(dense.sum())


@pytest.mark.claim("mask-alone-saves-nothing")
def test_a_mask_alone_saves_nothing_and_skipping_tiles_does():
    """Causal attention is said to halve the work; a dense kernel with a mask does all of it."""
    q = torch.zeros(1, 1, 256, 64)
    mask = masks.causal(256).dense()

    def done(attend, *arguments, **options):
        with FlopCounterMode(display=False) as counter:
            attend(*arguments, **options)
        return counter.get_total_flops()

    ours = attnref.scaled_dot_product_attention
    assert done(ours, q, q, q, mask) == done(ours, q, q, q) > 0
    with sdpa_kernel(SDPBackend.MATH):
        for options in ({}, {"is_causal": True}, {"attn_mask": mask}):
            whole = done(torch.nn.functional.scaled_dot_product_attention, q, q, q, **options)
            assert whole == 2 * 2 * 256**2 * 64
    n, block = 4096, (128, 128)  # 32 blocks
    sizes = Sizes(n=n, m=n, d_k=64, d_v=64)
    masked = cost.plain(sizes, masked=True)
    assert masked.operations == cost.plain(sizes).operations
    assert masked.bytes_moved > cost.plain(sizes).bytes_moved
    half = cost.blockwise(sizes, block=block, window=(None, 0)).operations.matmul
    assert half / masked.operations.matmul == 1 / 2 + 1 / (2 * 32)
    pairs = cost.allowed_pairs(n, n, window=(None, 0))
    assert pairs / n**2 == 1 / 2 + 1 / (2 * n)


def test_pairs_of_any_other_mask():
    """Query i sees i and i - 2^k: 385 pairs for 64 positions, of 4096."""
    distance = np.arange(64)[:, None] - np.arange(64)
    dyadic = np.isin(distance, [0, *(2**k for k in range(6))])
    assert dyadic.sum() == 385
    sizes = Sizes(n=64, m=64, d_k=8, d_v=8)
    sparse = cost.fused(sizes, pairs=int(dyadic.sum()))
    assert sparse.operations.matmul * 4096 == cost.fused(sizes).operations.matmul * 385


@pytest.mark.claim("share-of-a-padded-batch")
@pytest.mark.claim("padding-waste")
def test_useful_share_of_a_padded_batch():
    lengths = [512] + 31 * [32]
    real = masks.padding(lengths, 512).dense()[:, 0, 0]  # (b, m)
    slots, scores = cost.useful_share(lengths)
    assert slots == real.float().mean().item()
    assert scores == (real.sum(-1) ** 2).sum().item() / (32 * 512**2)
    assert (round(100 * slots, 1), round(100 * scores, 1)) == (9.2, 3.5)


# --- linear attention


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [(13, 17), (5, 2)])
@pytest.mark.parametrize("widths", [(5, 7), (11, 3)])
def test_linear(lengths, widths, dtype, generator):
    sizes = Sizes(
        n=lengths[0], m=lengths[1], d_k=widths[0], d_v=widths[1], batch=2, num_heads=3, dtype=dtype
    )
    query, key, value, _ = inputs(sizes, generator)
    with Counter() as counter:
        linear(query[:, 0], key, value)
    assert counter.cost == cost.linear(sizes)


def test_linear_causal_on_single_numbers(monkeypatch, generator):
    monkeypatch.setattr(Number, "done", Operations())
    sizes = Sizes(n=13, m=13, d_k=5, d_v=7)
    query, key, value, _ = inputs(sizes, generator)
    scalar_linear(*map(numbers, (query[0, 0].exp(), key[0].exp(), value[0])))
    assert Number.done.total == cost.linear(sizes).operations.total


# --- layers


def linear_layers(shapes, like, bias=True):
    options = {"bias": bias, "dtype": like.dtype, "device": like.device}
    layers = [torch.nn.Linear(*shape, **options).requires_grad_(False) for shape in shapes]
    return layers, sum(number.numel() for layer in layers for number in layer.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("num_kv_heads", [6, 2])
@pytest.mark.parametrize(("embed_dim", "d_v"), [(11, 7), (97, 2)])
def test_multihead(embed_dim, d_v, num_kv_heads, bias, dtype, generator):
    sizes = Sizes(n=13, m=13, d_k=5, d_v=d_v, num_heads=6, num_kv_heads=num_kv_heads, dtype=dtype)
    x = torch.randn(13, embed_dim, dtype=dtype, generator=generator, device=generator.device)
    widths = [6 * 5, num_kv_heads * 5, num_kv_heads * d_v]
    shapes = [*((embed_dim, width) for width in widths), (6 * d_v, embed_dim)]
    layers, parameters = linear_layers(shapes, x, bias)
    assert cost.multihead_parameters(sizes, embed_dim, bias=bias) == parameters

    causal = met_tiles(dense_window(13, 13, (None, 0), x.device), BLOCK)
    core = partial(blockwise, block=BLOCK, forbidden=causal)
    arguments = inputs(sizes, generator)[:3]
    with Counter() as alone:
        core(*arguments)
    with Counter() as counter:
        multihead(x, layers, sizes, core)
    assert counter.cost == cost.multihead(sizes, embed_dim, alone.cost, bias=bias)
    if num_kv_heads == 6:
        with Counter() as counter:
            multihead(x, layers, sizes, plain)
        assert counter.cost == cost.multihead(sizes, embed_dim, cost.plain(sizes), bias=bias)


def test_multihead_of_the_package(device, generator):
    sizes = Sizes(n=13, m=13, d_k=5, d_v=7, batch=2, num_heads=6, num_kv_heads=3)
    layer = MultiHeadAttention(
        11, 6, num_kv_heads=3, head_dim=5, value_head_dim=7, generator=generator, device=device
    )
    with FlopCounterMode(display=False) as flops:
        layer(torch.randn(2, 13, 11, generator=generator, device=device), is_causal=True)
    spent = cost.multihead(sizes, 11, Cost(cost.reference(sizes)))
    assert flops.get_total_flops() == spent.operations.matmul
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    assert parameters == cost.multihead_parameters(sizes, 11)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("embed_dim", "hidden"), [(11, 43), (43, 11)])
def test_feedforward(embed_dim, hidden, bias, generator):
    x = torch.randn(13, embed_dim, generator=generator, device=generator.device)
    layers, parameters = linear_layers([(embed_dim, hidden), (hidden, embed_dim)], x, bias)
    with Counter() as counter:
        feedforward(x, *layers)
    assert counter.cost == cost.feedforward(13, embed_dim, hidden, bias=bias)
    assert cost.feedforward_parameters(embed_dim, hidden, bias=bias) == parameters


def count_products(layer, *arguments, backward):
    """Operations in products, by PyTorch's own counter, in the core and elsewhere."""
    with FlopCounterMode(display=False) as flops:
        output = layer(*arguments)
        output = output[0] if isinstance(output, tuple) else output
        if backward:
            output.sum().backward()
    core = flops.get_flop_counts()["Global"][aten.bmm]
    return core, flops.get_total_flops() - core


@pytest.mark.claim("layer-operations-exact")
@pytest.mark.claim("training-is-three-forwards")
@pytest.mark.parametrize("times", [1, 3])
def test_layers_of_pytorch(times):
    """A whole encoder layer, forward and trained; on no device, so that its size is no matter."""
    sizes = Sizes(n=23, m=23, d_k=3, d_v=3, batch=2, num_heads=5)
    layer = torch.nn.TransformerEncoderLayer(15, 5, 59, batch_first=True, device="meta")
    x = torch.empty(2, 23, 15, device="meta", requires_grad=True)
    core = cost.plain(sizes) + (cost.plain_backward(sizes) if times == 3 else Cost())
    around = cost.multihead(sizes, 15, Cost()) + cost.feedforward(2 * 23, 15, 59)
    assert count_products(layer, x, backward=times == 3) == (
        core.operations.matmul,
        times * around.operations.matmul,
    )
    norms = 2 * 2 * 15
    assert cost.multihead_parameters(sizes, 15) + cost.feedforward_parameters(15, 59) == (
        sum(parameter.numel() for parameter in layer.parameters()) - norms
    )


@pytest.mark.claim("core-share-of-a-layer")
@pytest.mark.parametrize(
    ("n", "embed_dim", "num_heads", "against", "share"),
    [
        (512, 768, 12, "layer", 0.1),  # BERT-base
        (2 * 768, 768, 12, "projections", 0.5),
        (2 * 12288, 12288, 96, "projections", 0.5),
        (6 * 768, 768, 12, "layer", 0.5),
        (6 * 12288, 12288, 96, "layer", 0.5),
    ],
)
def test_core_against_the_rest_of_the_layer(n, embed_dim, num_heads, against, share):
    """The layer is said to cost O(n² d): at n = 512 nine tenths of it do not."""
    layer = {
        "layer": torch.nn.TransformerEncoderLayer(
            embed_dim, num_heads, 4 * embed_dim, batch_first=True, device="meta"
        ),
        "projections": torch.nn.MultiheadAttention(
            embed_dim, num_heads, batch_first=True, device="meta"
        ),
    }[against]
    x = torch.empty(1, n, embed_dim, device="meta")
    core, rest = count_products(layer, *[x] * (1 if against == "layer" else 3), backward=False)
    assert core == share * (core + rest)

    head_dim = embed_dim // num_heads
    sizes = Sizes(n=n, m=n, d_k=head_dim, d_v=head_dim, num_heads=num_heads)
    around = cost.multihead(sizes, embed_dim, Cost()).operations.matmul
    assert around == 8 * n * embed_dim**2
    if against == "layer":
        around += cost.feedforward(n, embed_dim, 4 * embed_dim).operations.matmul
    assert (cost.plain(sizes).operations.matmul, around) == (core, rest)


@pytest.mark.claim("wider-keys-alone")
@pytest.mark.claim("raising-d-k-alone")
def test_doubling_d_k_alone():
    """Only W_Q, W_K and the scores grow: half as much again, not twice."""
    before, after = (Sizes(n=512, m=512, d_k=d_k, d_v=64, num_heads=8) for d_k in (64, 128))
    parameters = [cost.multihead_parameters(sizes, 512, bias=False) for sizes in (before, after)]
    assert parameters == [1_048_576, 1_572_864]
    work = [
        cost.multihead(sizes, 512, cost.plain(sizes)).operations.matmul for sizes in (before, after)
    ]
    assert work == [1_610_612_736, 2_415_919_104]
    exponentials = [cost.plain(sizes).operations.exponentials for sizes in (before, after)]
    assert exponentials[0] == exponentials[1]


# --- what is compared


@pytest.mark.claim("linear-pays-beyond-the-width")
def test_linear_is_cheaper_only_beyond_n_equal_d(generator):
    """O(n) hides d²: short sequences cost linear attention more than the quadratic one."""

    def products(n, program):
        sizes = Sizes(n=n, m=n, d_k=64, d_v=64)
        query, key, value, _ = (tensor.to("meta") for tensor in inputs(sizes, generator))
        with Counter() as counter:
            program(query, key, value)
        return counter.cost.operations.matmul

    def first(query, key, value):
        linear(query[:, 0], key, value)

    assert (products(32, first), products(32, plain)) == (524_288, 262_144)
    assert products(64, first) == products(64, plain)
    assert 64 * products(4096, first) == products(4096, plain)
    for n in (32, 64, 4096):
        sizes = Sizes(n=n, m=n, d_k=64, d_v=64)
        assert cost.linear(sizes).operations.matmul == products(n, first)
        assert cost.plain(sizes).operations.matmul == products(n, plain)


@pytest.mark.claim("loop-does-the-same-work")
def test_one_row_at_a_time_is_the_same_work():
    """Matrix products are quicker than a loop by parallelism, not by doing less."""
    query, key, value = torch.zeros(3, 1, 13, 5), torch.zeros(3, 17, 5), torch.zeros(3, 17, 7)
    with Counter() as whole:
        plain(query, key, value)
    with Counter() as loop:
        for i in range(13):
            plain(query[..., i : i + 1, :], key, value)
    assert loop.cost.operations == whole.cost.operations
    assert loop.cost.bytes_read > whole.cost.bytes_read  # every key, thirteen times
    assert (
        loop.cost.operations == cost.plain(Sizes(n=13, m=17, d_k=5, d_v=7, num_heads=3)).operations
    )


@pytest.mark.claim("decoding-does-the-causal-pairs")
def test_decoding_with_a_cache_is_the_work_of_the_causal_pairs():
    def sizes(n, m):
        return Sizes(n=n, m=m, d_k=64, d_v=32, num_heads=8, num_kv_heads=2, dtype=torch.float16)

    steps = sum((cost.fused(sizes(1, m)) for m in range(1, 98)), Cost())
    prefill = cost.fused(sizes(97, 97), pairs=cost.allowed_pairs(97, 97, window=(None, 0)))
    assert steps.operations == prefill.operations
    # Decoding reads the cache again for each token: one operation a number and byte of it,
    # times the query heads that share it.
    step, cache = cost.fused(sizes(1, 4096)), sizes(1, 4096).cache_bytes
    assert step.operations.matmul == 4 * cache
    assert steps.bytes_read - prefill.bytes_read == sum(
        sizes(1, m).cache_bytes for m in range(1, 97)
    )


def test_quadratic_memory_is_not_inherent():
    def beside_output(n):
        sizes = Sizes(n=n, m=n, d_k=64, d_v=64, dtype=torch.float64)
        output = n * 64 * 8
        return cost.blockwise(sizes, block=(64, 64)).peak_bytes - output

    assert beside_output(1024) == beside_output(8192)
    tall, flat = (cost.blockwise(Sizes(n=4096, m=4096, d_k=64, d_v=64), block=block)
                  for block in [(256, 64), (64, 256)])  # fmt: skip
    assert tall.bytes_read < flat.bytes_read


# --- what is kept


@pytest.mark.parametrize(("num_kv_heads", "bytes_"), [(64, 2_621_440), (8, 327_680), (1, 40_960)])
def test_cache_of_a_token(num_kv_heads, bytes_, device):
    layers = [
        [torch.zeros(num_kv_heads, 1, 128, dtype=torch.float16, device=device) for _ in "kv"]
        for _ in range(80)
    ]
    kept = sum(tensor.untyped_storage().nbytes() for layer in layers for tensor in layer)
    sizes = Sizes(
        n=1, m=1, d_k=128, d_v=128, num_heads=64, num_kv_heads=num_kv_heads, dtype=torch.float16
    )
    assert 80 * sizes.cache_bytes == kept == bytes_


def test_cache_of_many_tokens_and_unequal_widths():
    sizes = Sizes(n=1, m=17, d_k=5, d_v=7, batch=2, num_heads=6, num_kv_heads=3)
    key, value = torch.zeros(2, 3, 0, 5), torch.zeros(2, 3, 0, 7)
    for _ in range(17):
        key = torch.cat([key, torch.ones(2, 3, 1, 5)], dim=-2)
        value = torch.cat([value, torch.ones(2, 3, 1, 7)], dim=-2)
    assert sizes.cache_bytes == key.nbytes + value.nbytes


@pytest.mark.claim("latent-cache")
def test_latent_cache(randn):
    """512 latent and 64 rotary numbers a token, 1.76 % of 128 heads of keys and values.

    A step from such a cache is run: the keys and values of every head come out of it.
    """
    n, heads, d, latent_width, rotary_width = 5, 128, 128, 512, 64
    x = randn(n, 31, dtype=torch.float32)
    down, turn = randn(31, latent_width).float() / 31**0.5, randn(31, rotary_width).float()
    up_key, up_value = (randn(heads, latent_width, d).float() / latent_width**0.5 for _ in "kv")
    query = randn(heads, 1, d + rotary_width).float()

    def expanded(tokens, turned):
        keys = torch.cat([tokens @ up_key, turned.expand(heads, -1, -1)], dim=-1)
        return keys, tokens @ up_value  # (heads, n, d + 64), (heads, n, d)

    cache = torch.cat([x @ down, rotary(x @ turn)], dim=-1)  # what is kept of each token
    assert cache.shape[-1] == 576
    keys, values = expanded(x @ down, rotary(x @ turn))
    ours = expanded(*cache.split([latent_width, rotary_width], dim=-1))
    whole_output = attnref.scaled_dot_product_attention(query, keys, values)
    # Without the keys: the matrix that would make them goes to the query's side.
    absorbed = torch.cat([query[..., :d] @ up_key.mT, query[..., d:]], dim=-1)
    scale = (d + rotary_width) ** -0.5
    short = attnref.scaled_dot_product_attention(
        absorbed, cache, cache[:, :latent_width], scale=scale
    )
    torch.testing.assert_close(short @ up_value, whole_output, rtol=1e-4, atol=1e-4)
    assert torch.equal(ours[1], values)
    assert values.numel() + keys[..., :d].numel() == n * 32_768
    latent = Sizes(n=1, m=1, d_k=512 + 64, d_v=0, num_heads=128, num_kv_heads=1)
    whole = Sizes(n=1, m=1, d_k=128, d_v=128, num_heads=128)
    assert latent.cache_bytes == cache[0].nbytes
    assert whole.cache_bytes // 4 == 32_768
    assert round(100 * latent.cache_bytes / whole.cache_bytes, 2) == 1.76
    groups = Sizes(n=1, m=1, d_k=128, d_v=128, num_heads=128, num_kv_heads=1)
    assert latent.cache_bytes / groups.cache_bytes == 2.25


def test_state_against_cache(generator):
    sizes = Sizes(n=13, m=13, d_k=5, d_v=7, num_heads=3)
    _, key, value, _ = inputs(sizes, generator)
    state, norm = key.mT @ value, key.sum(-2)
    assert sizes.state_bytes == state.nbytes + norm.nbytes
    # The cache is larger from about d/2 tokens on.
    short, long = (Sizes(n=1, m=m, d_k=64, d_v=64) for m in (32, 33))
    assert short.cache_bytes < short.state_bytes == long.state_bytes < long.cache_bytes


@pytest.mark.claim("score-memory")
def test_memory_of_the_scores():
    expected = {2048: 0.25, 8192: 4, 32768: 64, 131072: 1024}
    for n, gibibytes in expected.items():
        sizes = Sizes(n=n, m=n, d_k=128, d_v=128, num_heads=32, dtype=torch.float16)
        query = torch.empty(32, n, 128, dtype=torch.float16, device="meta")
        assert sizes.score_bytes == (query @ query.mT).nbytes == gibibytes * 2**30


@pytest.mark.claim("returned-weights-are-held")
def test_returning_the_weights_keeps_the_largest_tensor():
    """A listing that returns its weights is no efficient attention: 8 times the output."""
    sizes = Sizes(n=512, m=512, d_k=64, d_v=64, num_heads=2)
    query = torch.empty(2, 512, 64)
    with Counter() as counter:
        weights = torch.softmax(query @ query.mT, dim=-1)
        output = weights @ query
    assert (weights.numel(), output.numel()) == (524_288, 65_536)
    assert sizes.score_bytes == weights.nbytes
    assert counter.cost.peak_bytes >= sizes.score_bytes
    assert cost.fused(sizes).peak_bytes == output.nbytes


# --- sums and errors


def test_costs_add_up():
    one = Cost(Operations(1, 2, 3), 4, 5, 6)
    other = Cost(Operations(10, 20, 30), 40, 50, 3)
    assert one + other == Cost(Operations(11, 22, 33), 44, 55, 6)
    assert one * 3 == one + one + one
    assert Cost() == Cost(Operations(0, 0, 0), 0, 0, 0)
    assert (one.operations.total, one.bytes_moved) == (6, 9)


SMALL = {"n": 2, "m": 3, "d_k": 5, "d_v": 7}


@pytest.mark.parametrize("name", ["n", "m", "d_k", "batch", "num_heads", "num_kv_heads"])
@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "4"])
def test_a_wrong_size_is_named(name, wrong):
    with pytest.raises(
        ValueError, match=f"^{name}: expected an integer of 1 or more, got"
    ) as error:
        Sizes(**{**SMALL, name: wrong})
    assert repr(wrong) in str(error.value)
    assert "Read it off the shape of a tensor." in str(error.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Sizes(n=2, m=3, d_k=5, d_v=-1), "d_v: expected an integer of 0 or more, got -1"),
        (
            lambda: Sizes(**SMALL, num_heads=6, num_kv_heads=4),
            "num_kv_heads: expected a divisor of num_heads = 6, got 4. Each key head serves",
        ),
        (
            lambda: cost.linear(Sizes(**SMALL, num_heads=6, num_kv_heads=3)),
            "num_kv_heads: expected 6, as many as num_heads, got 3. Each head has a state",
        ),
        (
            lambda: cost.fused(Sizes(**SMALL), pairs=7),
            "pairs: expected at most n m = 6, got 7. Count those of one head",
        ),
        (lambda: cost.fused(Sizes(**SMALL), pairs=-1), "pairs: expected an integer of 0 or more"),
        (lambda: cost.allowed_pairs(0, 3), "n: expected an integer of 1 or more, got 0"),
        (
            lambda: cost.allowed_pairs(2, 3, window=(1, -2)),
            "window: expected left + right of at least 0, got (1, -2). Query i sees the keys",
        ),
        (
            lambda: cost.blockwise(Sizes(**SMALL), block=(0, 4)),
            "block_q: expected an integer of 1 or more, got 0",
        ),
        (lambda: cost.useful_share([]), "sequences: expected an integer of 1 or more, got 0"),
        (lambda: cost.useful_share([3, 0]), "lengths: expected an integer of 1 or more, got 0"),
        (
            lambda: cost.multihead(Sizes(**SMALL), 0, Cost()),
            "embed_dim: expected an integer of 1 or more, got 0",
        ),
        (
            lambda: cost.multihead_parameters(Sizes(**SMALL), 0),
            "embed_dim: expected an integer of 1 or more, got 0",
        ),
        (lambda: cost.feedforward(1, 2, 0), "hidden: expected an integer of 1 or more, got 0"),
        (
            lambda: cost.feedforward_parameters(2, 0),
            "hidden: expected an integer of 1 or more, got 0",
        ),
    ],
)
def test_a_wrong_value_is_named(call, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        call()


def test_a_wrong_type_is_named():
    with pytest.raises(TypeError, match=r"^dtype: expected a torch.dtype, got 'float16'. Write"):
        Sizes(**SMALL, dtype="float16")
    with pytest.raises(
        TypeError,
        match=r"^window: expected \(left, right\) of integers or None, "
        r"got \(1.5, 0\). None is without limit; causal is \(None, 0\).",
    ):
        cost.allowed_pairs(2, 3, window=(1.5, 0))
