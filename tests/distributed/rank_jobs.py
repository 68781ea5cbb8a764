"""What ranks do in the tests: the same on each of them, on its own part."""

import contextlib
import importlib
import os
import time
import types
from dataclasses import astuple

import torch
import torch.distributed as dist

import attnref
from attnref import cost, distributed, masks
from attnref.bench.memory import peak_bytes
from attnref.bench.ranks.cases import CASES, Part
from attnref.bench.ranks.plan import RankSettings
from attnref.bench.ranks.worker import Worker
from attnref.cost import Operations
from attnref.distributed import _blocks, gather, shard
from attnref.layouts import rank_positions
from attnref.softmax import Partial, merge
from attnref.variants import _tiled
from tests.cost.counter import Counter

D_K, D_V = 5, 7
CPU = torch.device("cpu")


def draw(*shapes, dtype=torch.float64, seed=0):
    """The same numbers on all ranks."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*x, generator=generator, dtype=torch.float64).to(dtype) for x in shapes]


def inputs(n, m=None, *, lead=(2, 6), key_lead=(2, 3), d_k=D_K, d_v=D_V, dtype=torch.float64):
    m = n if m is None else m
    out = (*torch.broadcast_shapes(lead[:-1], key_lead[:-1]), *lead[-1:])
    shapes = (*lead, n, d_k), (*key_lead, m, d_k), (*key_lead, m, d_v), (*out, n, d_v)
    *tensors, weight = draw(*shapes, dtype=dtype)
    return [x.requires_grad_() for x in tensors], weight


def parts_of(tensors, **cut):
    return [shard(x.detach(), **cut).requires_grad_() for x in tensors]


def mask_of(name, n):
    """Masks over the whole sequence, by name: a rule of the tests could not be sent."""
    return {
        None: lambda: None,
        "window": lambda: masks.sliding_window(n, window=3),
        "causal window": lambda: masks.sliding_window(n, window=5, is_causal=True),
        "documents": lambda: masks.packed([n // 3, 0, n - n // 3]),
        "padding": lambda: masks.padding([n, n // 2], n),
        "nothing": lambda: masks.Mask((n, n), lambda i, j: (i < 0) & (j < 0)),
        "far": lambda: masks.Mask((n, n), lambda i, j: (i - j) % n == n // 2),
    }[name]()


_meshes = {}


def mesh_of(shape):
    """Made once, for its groups stay."""
    if shape not in _meshes:
        names = ("ring", "heads")
        _meshes[shape] = dist.init_device_mesh("cpu", shape, mesh_dim_names=names)
    return _meshes[shape]


def matches_reference(
    name, n, m=None, *, mask=None, layout="zigzag", is_causal=False, mesh=None, **sizes
):
    """Values of this rank's queries and gradients of its parts, within roundings of float64.

    Eight ranks, whose tiles are many, get fewer heads than the others, unless told how many.
    """
    if dist.get_world_size() == 8:
        sizes = {"lead": (2, 2), "key_lead": (2, 1)} | sizes
    whole, weight = inputs(n, m, **sizes)
    attn_mask = mask_of(mask, n)
    dense = None if attn_mask is None else attn_mask.dense()
    options = {"is_causal": is_causal, "enable_gqa": True, "scale": 0.7}
    expected = attnref.scaled_dot_product_attention(*whole, dense, **options)
    truths = torch.autograd.grad(expected, whole, weight)
    cut = {"layout": layout}
    if mesh is not None:
        cut["group"] = options["mesh"] = mesh_of(mesh)
    parts = parts_of(whole, **cut)
    function = getattr(distributed, name)
    ours = function(*parts, attn_mask=attn_mask, layout=layout, **options)
    close = {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(ours, shard(expected, **cut), **close)
    assert torch.equal(gather(shard(expected, **cut), **cut), expected)
    found = torch.autograd.grad(ours, parts, shard(weight, **cut))
    for one, truth in zip(found, truths, strict=True):
        torch.testing.assert_close(one, shard(truth, **cut), **close)
    return True


def minimal_matches_reference(name, n):
    """The output of this rank's queries, of a length that all ranks share."""
    (query, key, value), _ = inputs(n, lead=(4,), key_lead=(4,))
    whole = attnref.scaled_dot_product_attention(query, key, value)
    module = importlib.import_module(f"attnref.minimal.{name}")
    parts = parts_of((query, key, value), layout="contiguous")
    with torch.no_grad():
        ours = getattr(module, f"{name}_attention")(*parts)
    torch.testing.assert_close(ours, shard(whole.detach(), layout="contiguous"))
    return True


def errors(name, n, dtype, **options):
    """How far this rank's part and PyTorch's own path are from float64: values, then gradients."""
    whole, weight = inputs(n, lead=(2,), key_lead=(2,), d_k=64, d_v=64, dtype=dtype)
    doubles = [x.detach().double().requires_grad_() for x in whole]
    kernel = torch.nn.functional.scaled_dot_product_attention
    results = []
    for tensors, function in ((doubles, kernel), (whole, kernel)):
        output = function(*(x[None] for x in tensors), is_causal=True)[0]
        cotangent = weight.to(output.dtype)
        results.append([output, *torch.autograd.grad(output, tensors, cotangent)])
    parts = parts_of(whole)
    output = getattr(distributed, name)(*parts, is_causal=True, **options)
    ours = [output, *torch.autograd.grad(output, parts, shard(weight))]
    assert output.dtype == dtype
    exact, theirs = ([shard(x) for x in result] for result in results)
    return [
        [float((x - truth).square().sum()) for x, truth in zip(result, exact, strict=True)]
        for result in (ours, theirs)
    ]


class Sent:
    """Bytes of the tensors that this rank hands to torch.distributed for others, by dtype."""

    def __enter__(self):
        self.bytes, self.messages = {}, []
        self.kept = dist.batch_isend_irecv, dist.all_gather, dist.all_to_all_single
        dist.batch_isend_irecv = self.batch_isend_irecv
        dist.all_gather = self.all_gather
        dist.all_to_all_single = self.all_to_all_single
        return self

    def __exit__(self, *_):
        dist.batch_isend_irecv, dist.all_gather, dist.all_to_all_single = self.kept

    def count(self, tensor, times=1):
        size = tensor.numel() * tensor.itemsize * times
        self.bytes[tensor.dtype] = self.bytes.get(tensor.dtype, 0) + size

    def batch_isend_irecv(self, operations):
        for one in operations:
            if one.op is dist.isend:
                assert one.peer != dist.get_rank()
                self.count(one.tensor)
                self.messages.append((one.peer, tuple(one.tensor.shape)))
        return self.kept[0](operations)

    def all_gather(self, found, mine, group=None):
        self.count(mine, len(found) - 1)
        return self.kept[1](found, mine, group=group)

    def all_to_all_single(self, arriving, leaving, arrives, leaves, group=None):
        own = leaves[dist.get_rank(group)]
        self.count(leaving[: leaving.numel() - own])
        return self.kept[2](arriving, leaving, arrives, leaves, group=group)


def bytes_sent(
    name, n, *, dtype=torch.float64, mask=None, heads=(6, 3), is_causal=False, mesh=None, **options
):
    """Of numbers forward, of numbers backward, and of what else is said in both."""
    whole, weight = inputs(n, lead=(2, heads[0]), key_lead=(2, heads[1]), dtype=dtype)
    cut = {"layout": options.get("layout", "zigzag")}
    if mesh is not None:
        cut["group"] = options["mesh"] = mesh_of(mesh)
    parts, part_weight = parts_of(whole, **cut), shard(weight, **cut)
    options |= {"attn_mask": mask_of(mask, n), "is_causal": is_causal}
    with replace_functions(_blocks, **NOTHING):  # what is sent does not depend on what is computed
        with Sent() as forward:
            output = getattr(distributed, name)(*parts, enable_gqa=True, **options)
        with Sent() as backward:
            torch.autograd.grad(output, parts, part_weight)
    numbers = [
        sum(size for kind, size in sent.bytes.items() if kind.is_floating_point)
        for sent in (forward, backward)
    ]
    words = [sent.bytes.get(torch.int64, 0) for sent in (forward, backward)]
    return *numbers, *words, forward.messages


def pairs_computed(name, n, *, mask=None, layout="zigzag", is_causal=True):
    """How many allowed pairs this rank computed, counted in its tiles."""
    found = [0]

    def counted(tiles, *rest):
        tiles = list(tiles)
        found[0] += sum(map(pairs_of, tiles))
        return _tiled.forward(tiles, *rest)

    whole, _ = inputs(n, lead=(), key_lead=())
    with replace_functions(_blocks, engine=engine(forward=counted)):
        options = {"layout": layout, "is_causal": is_causal, "attn_mask": mask_of(mask, n)}
        getattr(distributed, name)(*parts_of(whole, layout=layout), **options)
    return found[0]


def peak(name, n, *, d=8, heads=2, **options):
    """Most bytes that a call with its backward pass holds beside its arguments, on rank 1."""
    whole, _ = inputs(n, lead=(heads,), key_lead=(heads,), d_k=d, d_v=d, dtype=torch.float32)
    parts = parts_of(whole)

    def run():
        output = getattr(distributed, name)(*parts, **options)
        torch.autograd.grad(output.sum(), parts)

    run()  # what is made once is not of this call
    if dist.get_rank() == 1:
        return peak_bytes(run, CPU)
    return run()


def attend(name="ring_attention", n=13, *, rank=None, change=None, late=0.0, **options):
    """A call in which one rank does otherwise; what it raises is the answer."""
    whole, weight = inputs(n)
    parts = parts_of(whole)
    options |= {"enable_gqa": True}
    if dist.get_rank() == rank:
        time.sleep(late)
        if change is not None:
            parts, options = change(parts, options)
    output = getattr(distributed, name)(*parts, **options)
    torch.autograd.grad(output, parts, shard(weight).to(output.dtype))
    return True


def to_float32(parts, options):
    return [x.float() for x in parts], options


def fewer_heads(parts, options):
    return [parts[0], *(x[:, :1] for x in parts[1:])], options


def drop_row(parts, options):
    return [x[..., 1:, :] for x in parts], options


def drop_component(parts, options):
    return [parts[0][..., :-1], *parts[1:]], options


def other_window(parts, options):
    return parts, options | {"attn_mask": masks.sliding_window(16, window=4, is_causal=True)}


def same_window(parts, options):
    """That of three keys, put together of other masks."""
    return parts, options | {"attn_mask": masks.sliding_window(16, window=5) & masks.causal(16)}


def own_rule(parts, options):
    """Of one key too many, by a rule that nobody can read."""
    rule = masks.Mask((16, 16), lambda i, j: (j <= i) & (i - j <= 3))
    return parts, options | {"attn_mask": rule}


def add_causality(parts, options):
    return parts, options | {"is_causal": True}


def set_striped(parts, options):
    return parts, options | {"layout": "striped"}


def detach(parts, options):
    return [x.detach() for x in parts], options


def another_function(rank):
    """One rank gathers while the others attend."""
    whole, _ = inputs(13)
    parts = parts_of(whole)
    if dist.get_rank() == rank:
        return gather(parts[0])
    return distributed.ring_attention(*parts, enable_gqa=True)


def backward_in_another_order(rank):
    """One rank asks for the gradients of its first call first, the others of their second."""
    whole, _ = inputs(13)
    parts = parts_of(whole)
    outputs = [distributed.ring_attention(*parts, enable_gqa=True).sum() for _ in range(2)]
    for output in outputs if dist.get_rank() == rank else outputs[::-1]:
        torch.autograd.grad(output, parts)


def round_trip(n, layout, dim):
    """A tensor cut and put together; the gradient of a part, from all ranks."""
    shape = [3, 4]
    shape.insert(dim % 3, n)
    (whole,) = draw(tuple(shape))
    part = shard(whole, dim=dim, layout=layout)
    ranges = rank_positions(n, ranks=dist.get_world_size(), rank=dist.get_rank(), layout=layout)
    own = [i for part in ranges for i in part]
    assert torch.equal(part, whole.index_select(dim, torch.tensor(own, dtype=torch.int64)))
    assert torch.equal(distributed.positions(n, layout=layout), torch.tensor(own).long())
    part.requires_grad_()
    found = gather(part, dim=dim, layout=layout)
    assert torch.equal(found, whole)
    (weight,) = draw(found.shape, seed=1 + dist.get_rank())
    (gradient,) = torch.autograd.grad(found, part, weight)
    weights = [draw(found.shape, seed=1 + rank)[0] for rank in range(dist.get_world_size())]
    expected = shard(torch.stack(weights).sum(0), dim=dim, layout=layout)
    torch.testing.assert_close(gradient, expected, rtol=1e-14, atol=1e-14)


def die(rank, before_backward=False):
    """One rank ends without a word, before the call or between its two passes."""
    whole, weight = inputs(13)
    parts = parts_of(whole)
    if dist.get_rank() == rank and not before_backward:
        os._exit(9)
    output = distributed.ring_attention(*parts, enable_gqa=True)
    if dist.get_rank() == rank:
        os._exit(9)
    torch.autograd.grad(output, parts, shard(weight))


class Counted(Counter):
    """Counts what this rank computes, and what it holds; not what torch.distributed does."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d":
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def operations(self, func, args, kwargs, made):
        if not any(x.is_floating_point() for x in made):
            return Operations()  # arithmetic of indices and of what ranks agree on
        return super().operations(func, args, kwargs, made)


@contextlib.contextmanager
def replace_functions(module, **functions):
    kept = {name: getattr(module, name) for name in functions}
    for name, function in functions.items():
        setattr(module, name, function)
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(module, name, function)


def engine(**functions):
    """The engine of tiles, with some functions in the place of its own."""
    return types.SimpleNamespace(**(vars(_tiled) | functions))


def no_gradients(tiles, scale, grad, inputs, found, d_query):
    return d_query, *(torch.zeros_like(x, dtype=grad.dtype) for x in inputs[1:3])


# In the place of what a tile computes: nothing, and numbers of the right kind to be sent.
NOTHING = {
    "_prepare": lambda tiles, dtype, *tensors: _tiled.Inputs(
        *tensors
    ),  # which converts half precision
    "_sum_query_heads": lambda tiles, gradient, like: gradient,
    "engine": engine(forward=lambda *given: given[-1], backward=no_gradients),
}


def pairs_of(tile):
    """Allowed in a tile."""
    n, m = (x.stop - x.start if isinstance(x, slice) else len(x) for x in tile[:2])
    allowed = torch.ones(n, m, dtype=torch.bool)
    allowed = allowed.tril() if tile.is_causal else allowed
    return int((allowed if tile.bias is None else allowed & (tile.bias == 0)).sum())


def tile_sizes(tile, query, key, value):
    """Of a tile as the chapters of cost take them."""
    batch, heads, _, d_k = query.shape
    n, m = (x.stop - x.start for x in tile[:2])
    return cost.Sizes(
        n=n, m=m, d_k=d_k, d_v=value.shape[-1], batch=batch, num_heads=heads, num_kv_heads=3
    )


def measure_spending(name, n, *, dtype=torch.float64, layout="zigzag", is_causal=False, **options):
    """What a rank computes and holds: of tiles by their cost, of all around them as it happens."""
    tiles = [Operations(), Operations()]

    def forward(own, scale, inputs, found):
        for tile in own:
            sizes = tile_sizes(tile, *inputs[:3])
            tiles[0] += cost.of("fused", sizes, pairs=pairs_of(tile)).operations
            seen = Partial(*(x[..., tile.rows, :] for x in found))
            for old, new in zip(
                seen, merge(seen, Partial(*map(torch.zeros_like, seen))), strict=True
            ):
                old.copy_(new)
        return found

    def backward(own, scale, grad, inputs, found, d_query):
        pulled = no_gradients(own, scale, grad, inputs, found, d_query)
        for tile in own:
            sizes, pairs = tile_sizes(tile, *inputs[:3]), pairs_of(tile)
            block = (sizes.n, sizes.m)
            whole = cost.of("blockwise", sizes, block=block, backward=True).operations
            heads, lost = sizes.batch * sizes.num_heads, sizes.n * sizes.m - pairs
            each = Operations(2 * (3 * sizes.d_k + 2 * sizes.d_v), 3, 1) * (heads * lost)
            difference = zip(astuple(whole), astuple(each), strict=True)
            tiles[1] += Operations(*(a - b for a, b in difference))
            for total, part in zip(pulled, (tile.rows, tile.columns, tile.columns), strict=True):
                total[..., part, :] += torch.zeros_like(total[..., part, :])
        return pulled

    whole, weight = inputs(n, lead=(2, 6), key_lead=(2, 3), dtype=dtype)
    parts, part_weight = parts_of(whole, layout=layout), shard(weight, layout=layout)
    options |= {"layout": layout, "is_causal": is_causal, "enable_gqa": True}
    function = getattr(distributed, name)
    counted = NOTHING | {"engine": engine(forward=forward, backward=backward)}
    with replace_functions(_blocks, **counted):
        with Counted() as forward:
            output = function(*parts, **options)
        with Counted() as backward:
            torch.autograd.grad(output, parts, part_weight)
        del output
    done = [
        tile + counter.cost.operations
        for tile, counter in zip(tiles, (forward, backward), strict=True)
    ]
    with replace_functions(_blocks, **NOTHING):
        with Counted() as forward, torch.no_grad():
            function(*parts, **options)
        with Counted() as both:
            torch.autograd.grad(function(*parts, **options), parts, part_weight)
    return [astuple(x) for x in done], [x.cost.peak_bytes for x in (forward, both)]


def own_positions(n, ranks, rank, layout):
    return {i for part in rank_positions(n, ranks=ranks, rank=rank, layout=layout) for i in part}


def decode(n, lengths, *, mask=False, dtype=torch.float64):
    """New tokens to a cache whose keys are divided unevenly, and the bytes that are sent."""
    m, size = sum(lengths), dist.get_world_size()
    shapes = (2, 6, n, D_K), (2, 3, m, D_K), (2, 3, m, D_V)
    query, key, value = draw(*shapes, dtype=dtype)
    start = sum(lengths[: dist.get_rank()])
    own = slice(start, start + lengths[dist.get_rank()])
    allowed = torch.arange(m) <= torch.arange(n)[:, None] + m - n  # (n, m)
    allowed = allowed if mask else torch.ones_like(allowed)
    expected = attnref.scaled_dot_product_attention(query, key, value, allowed, enable_gqa=True)
    keys = key[..., own, :], value[..., own, :]
    options = {"enable_gqa": True, "attn_mask": allowed[:, own] if mask else None}
    with Sent() as sent:
        found = distributed.split_kv_attention(query, *keys, **options)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    sizes = cost.Sizes(n=n, m=m, d_k=D_K, d_v=D_V, batch=2, num_heads=6, dtype=dtype)
    assert sum(sent.bytes.values()) == cost.sent("split_kv", sizes, ranks=size).forward
    return found, sum(sent.bytes.values())


def pytorch_ring(n, is_causal):
    """PyTorch's own ring, given the kernel of a processor; its balanced parts are zigzag."""
    from torch.distributed.tensor.experimental._context_parallel import _attention as theirs

    layout = "zigzag" if is_causal else "contiguous"
    whole, weight = inputs(n, lead=(2, 3), key_lead=(2, 3), d_v=D_K)
    parts, grad = parts_of(whole, layout=layout), shard(weight, layout=layout)
    forward, backward = (
        getattr(torch.ops.aten, f"_scaled_dot_product_flash_attention_for_cpu{way}")
        for way in ("", "_backward")
    )
    ring = dist.group.WORLD, 2
    options = {"enable_load_balance": is_causal, "convert_to_f32": False}
    options["rotate_method"] = theirs._RotateMethod.ALL_TO_ALL  # or it would gather all keys
    with replace_functions(theirs._cp_options, **options), torch.no_grad():
        output, lse, *_ = theirs._templated_ring_attention(
            *ring, forward, *parts, is_causal=is_causal
        )
        known = "grad_out", *parts, output, lse
        gradients = theirs._templated_ring_attention_backward(
            *ring, backward, grad, *known, is_causal=is_causal, dropout_p=0.0
        )
    ours = distributed.ring_attention(*parts, layout=layout, is_causal=is_causal)
    close = {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(ours, output, **close)
    found = torch.autograd.grad(ours, parts, grad)
    torch.testing.assert_close([*found], [*gradients[:3]], **close)
    return True


def differ_on_a_mesh(rank):
    mesh = mesh_of((2, 2))
    whole, _ = inputs(13, lead=(2, 4), key_lead=(2, 2))
    parts = parts_of(whole, group=mesh)
    options = {"enable_gqa": True, "is_causal": dist.get_rank() == rank}
    return distributed.mesh_attention(*parts, mesh=mesh, **options)


def case_of(name, n, dtype=torch.float64):
    """A case of the benchmark, the whole sequence, and this rank's part of it."""
    whole, weight = inputs(n, lead=(1, 4), key_lead=(1, 4), d_v=D_K, dtype=dtype)
    layout = CASES[name].layout
    part = Part(*parts_of(whole, layout=layout), n, layout)
    return CASES[name], whole, part, weight


def case_is_attention(name, n):
    case, whole, part, weight = case_of(name, n)
    expected = attnref.scaled_dot_product_attention(*whole, is_causal=True)
    truths = expected, *torch.autograd.grad(expected, whole, weight)
    cut = {"layout": case.layout}
    output = case.prepare(part)()
    leaves = part.query, part.key, part.value
    found = output, *torch.autograd.grad(output, leaves, shard(weight, **cut))
    # PyTorch's ring adds up in float32.
    within = 1e-5 if name == "pytorch_ring" else 1e-12
    for one, truth in zip(found, truths, strict=True):
        torch.testing.assert_close(one, shard(truth, **cut), rtol=within, atol=within)
    return True


def bytes_of_messages(name, n):
    """Of the messages that the benchmark times alone, and of numbers in the call itself."""
    case, _, part, _ = case_of(name, n)
    with Sent() as alone:
        case.messages(part)()
    with Sent() as call, torch.no_grad():
        case.prepare(part)()
    return [
        sum(size for kind, size in sent.bytes.items() if kind.is_floating_point)
        for sent in (alone, call)
    ]


def run_sample(name):
    """What a rank of the benchmark finds and takes, messages included."""
    settings = RankSettings(ranks=[dist.get_world_size()], heads=2, head_dim=8)
    worker = Worker(settings, dist.get_rank())
    worker.draw(28)
    with torch.no_grad():
        return worker.prepare(name, 1), worker.sample(name, 1, 2)
