"""How PyTorch's own attention is called for each task."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention, noop_mask
from torch.nn.utils.rnn import pad_sequence

from attnref.bench.methods import Registry
from attnref.bench.problems import BLOCK_SIZE, WINDOW, Problem, recurrence

pytorch = Registry()

Run = Callable[[], Tensor]


@pytorch.case("sdpa", "dense", "causal", "window", "blocks", "decode", "drafts", "latent", "paged")
def sdpa(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    mask = None
    if problem.mask is not None and not problem.is_causal:
        mask = problem.mask.dense(query.device)  # (n, n)
    shared = query.shape[1] != key.shape[1]
    return lambda: F.scaled_dot_product_attention(
        query, key, value, mask, is_causal=problem.is_causal, enable_gqa=shared
    )


@pytorch.case("sdpa-unrestricted", "window", "blocks", "chosen")
def sdpa_unrestricted(problem: Problem) -> Run:
    # Another function, there for its time alone: what a sparse mask should be able to save.
    query, key, value = problem.query, problem.key, problem.value
    causal = problem.task != "blocks"
    return lambda: F.scaled_dot_product_attention(query, key, value, is_causal=causal)


@pytorch.case("sdpa-steps", "drafts")
def sdpa_steps(problem: Problem) -> Run:
    # A node at a time, which is what drafts save; to leave keys out they would have to be copied.
    assert problem.mask is not None
    query, key, value = problem.query, problem.key, problem.value
    rows = torch.split(problem.mask.dense(query.device), 1)  # (1, n) each
    shared = query.shape[1] != key.shape[1]

    def run() -> Tensor:
        steps = zip(torch.split(query, 1, dim=-2), rows, strict=True)
        outputs = [
            F.scaled_dot_product_attention(one, key, value, row, enable_gqa=shared)
            for one, row in steps
        ]
        return torch.cat(outputs, dim=-2)  # (1, heads, nodes, d)

    return run


@pytorch.case("sdpa", "packed")
def sdpa_padded(problem: Problem) -> Run:
    # Its copies are timed, so that gradients reach the same leaves; they are a small part.
    lengths = list(problem.lengths or ())
    place = torch.arange(max(lengths), device=problem.query.device)
    real = place < torch.tensor(lengths, device=place.device)[:, None]  # (sequences, longest)
    sides = (problem.query, problem.key, problem.value)

    def pad(side: Tensor) -> Tensor:
        tokens = torch.split(side[0].transpose(0, 1), lengths)  # (n_i, heads, d) each
        return pad_sequence(list(tokens), batch_first=True).transpose(1, 2)

    def run() -> Tensor:
        query, key, value = map(pad, sides)  # (sequences, heads, longest, d)
        output = F.scaled_dot_product_attention(query, key, value, real[:, None, None])
        return output.transpose(1, 2)[real].transpose(0, 1)[None]  # (1, heads, n, d)

    return run


@pytorch.case("sdpa-made", "latent")
def sdpa_made(problem: Problem) -> Run:
    # Keys and values of all heads are made of the latents for each step.
    query, latents = problem.query, problem["latent"][:, None]

    def run() -> Tensor:
        key, value = (latents @ up.mT for up in (problem["key_up"], problem["value_up"]))
        return F.scaled_dot_product_attention(query, key, value)

    return run


@pytorch.case("sdpa-key", "sink")
def sdpa_key(problem: Problem) -> Run:
    # One more key and value, of zeros, in front; the score of the sink is in the mask. The copies
    # are timed: a model would make them at each call.
    query, key, value, sink = problem.query, problem.key, problem.value, problem["sink"]
    n, m = query.shape[-2], key.shape[-2]
    later = torch.ones(n, m, dtype=torch.bool, device=query.device).triu(1)
    zero = torch.zeros_like(key[..., :1, :])
    seen = torch.zeros(n, m, dtype=query.dtype, device=query.device).masked_fill(later, -torch.inf)

    def run() -> Tensor:
        first = sink[:, None, None].expand(-1, n, 1)
        mask = torch.cat([first, seen.expand(len(sink), -1, -1)], -1)  # (heads, n, m + 1)
        keys, values = (torch.cat([zero, x], -2) for x in (key, value))
        return F.scaled_dot_product_attention(query, keys, values, mask[None])

    return run


@pytorch.case("recurrence", "delta")
def token_recurrence(problem: Problem) -> Run:
    dtype = torch.promote_types(problem.query.dtype, torch.float32)
    return lambda: recurrence(problem, dtype).to(problem.query.dtype)


@pytorch.case("sdpa-table", "distance")
def sdpa_table(problem: Problem) -> Run:
    # The bias of all pairs, made for each call: in training, each step has another.
    query, key, value, bias = problem.query, problem.key, problem.value, problem["bias"]
    m = key.shape[-2]

    def run() -> Tensor:
        table = bias.unfold(-1, m, 1).flip(-2)  # (heads, n, m)
        return F.scaled_dot_product_attention(query, key, value, table)

    return run


@pytorch.case("sdpa-twice", "differential")
def sdpa_twice(problem: Problem) -> Run:
    value: Tensor = problem.value
    lambd: float = problem["lambd"]

    def run() -> Tensor:
        first, second = (
            F.scaled_dot_product_attention(q, k, value)
            for q, k in zip(problem.query.chunk(2, -1), problem.key.chunk(2, -1), strict=True)
        )
        return first - lambd * second

    return run


@pytorch.case("sdpa-gathered", "paged")
def sdpa_gathered(problem: Problem) -> Run:
    # All sequences are put together as a padded cache for each step.
    query, pools = problem.query, (problem["key"], problem["value"])
    table = problem["block_table"].clamp(min=0)
    place = torch.arange(table.shape[1] * pools[0].shape[1], device=query.device)
    real = place < torch.tensor(problem.lengths, device=query.device)[:, None]
    shared = query.shape[1] != problem.key.shape[1]

    def run() -> Tensor:
        key, value = (pool[table].flatten(1, 2).transpose(1, 2) for pool in pools)
        return F.scaled_dot_product_attention(
            query, key, value, real[:, None, None], enable_gqa=shared
        )

    return run


@pytorch.case("sdpa-loop", "paged")
def sdpa_loop_over_pages(problem: Problem) -> Run:
    pools = problem["key"], problem["value"]
    shared = problem.query.shape[1] != problem.key.shape[1]
    tables = [row[row >= 0] for row in problem["block_table"]]

    def run() -> Tensor:
        outputs = []
        for query, table, length in zip(problem.query, tables, problem.lengths or (), strict=True):
            key, value = (
                pool[table].flatten(0, 1)[:length].transpose(0, 1)[None] for pool in pools
            )
            outputs.append(
                F.scaled_dot_product_attention(query[None], key, value, enable_gqa=shared)
            )
        return torch.cat(outputs)

    return run


@pytorch.case("sdpa-loop", "packed")
def sdpa_loop(problem: Problem) -> Run:
    lengths = list(problem.lengths or ())
    sides = (problem.query, problem.key, problem.value)

    def run() -> Tensor:
        sequences = zip(*(torch.split(side, lengths, dim=2) for side in sides), strict=True)
        return torch.cat([F.scaled_dot_product_attention(*parts) for parts in sequences], dim=2)

    return run


@pytorch.case("sdpa-nested", "packed")
def sdpa_nested(problem: Problem) -> Run:
    ends = torch.tensor((0, *(problem.lengths or ()))).cumsum(0).to(problem.query.device)
    sides = (problem.query, problem.key, problem.value)

    def run() -> Tensor:
        query, key, value = (
            torch.nested.nested_tensor_from_jagged(tokens, ends).transpose(1, 2)
            for tokens in (side[0].transpose(0, 1).contiguous() for side in sides)
        )
        output = F.scaled_dot_product_attention(query, key, value)
        return output.transpose(1, 2).values().transpose(0, 1)[None]

    return run


@pytorch.case("flex", "dense", "causal", "window", "blocks", "packed")
def flex(problem: Problem) -> Run:
    query, key, value = problem.query, problem.key, problem.value
    n, device = query.shape[-2], query.device
    ids = torch.zeros(n, dtype=torch.long, device=device)
    if problem.lengths is not None:
        ids = torch.repeat_interleave(torch.tensor(problem.lengths, device=device))
    layout: Tensor | None = problem.given.get("layout")

    def causal_mask(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j <= i

    def window_mask(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (i - j < WINDOW)

    def blocks_mask(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        assert layout is not None
        return layout[i // BLOCK_SIZE, j // BLOCK_SIZE]

    def packed_mask(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return ids[i] == ids[j]

    rules = {
        "dense": noop_mask,  # without any, it takes all keys for one block
        "causal": causal_mask,
        "window": window_mask,
        "blocks": blocks_mask,
        "packed": packed_mask,
    }
    mask = create_block_mask(rules[problem.task], None, None, n, n, device)
    # After some lengths the compiler would stop and run it uncompiled.
    torch.compiler.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(query, key, value, block_mask=mask)


@pytorch.case("flex", "sink")
def flex_sink(problem: Problem) -> Run:
    # On a processor it does not tell its log-sum-exp; so the sink is a key in front, here too.
    query, key, value, sink = problem.query, problem.key, problem.value, problem["sink"]
    zero = torch.zeros_like(key[..., :1, :])

    def rule(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j <= i + 1

    def score(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.where(j == 0, sink[h].to(score.dtype), score)

    n, m = query.shape[-2], key.shape[-2] + 1
    mask = create_block_mask(rule, None, None, n, m, query.device)
    torch.compiler.reset()
    compiled = torch.compile(flex_attention, dynamic=False)

    def run() -> Tensor:
        keys, values = (torch.cat([zero, x], -2) for x in (key, value))
        output: Tensor = compiled(query, keys, values, score_mod=score, block_mask=mask)
        return output

    return run


@pytorch.case("torch-multihead", "layer")
def torch_multihead(problem: Problem) -> Run:
    layer, tokens = problem.layer, problem.query
    assert layer is not None
    return lambda: layer(tokens, tokens, tokens, need_weights=False)[0]
