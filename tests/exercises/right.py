"""Other ways to be right, which no check may take for wrong: functions, or what they return."""

import functools
import math

import torch


def softmax_in_float64(scores):
    shifted = scores.double() - scores.max(dim=-1, keepdim=True).values
    return (shifted.exp() / shifted.exp().sum(-1, keepdim=True)).to(scores.dtype)


def context_vector_in_loops(inputs, position):
    powers = [math.exp(float(inputs[position] @ word)) for word in inputs]
    return sum(power / sum(powers) * word for power, word in zip(powers, inputs, strict=True))


def attention_by_einsum(query, key, value):
    scores = torch.einsum("...nd,...md->...nm", query, key)
    return torch.einsum("...nm,...mv->...nv", scores.softmax(-1), value)


def scaled_by_both_fourth_roots(query, key, value, scale=None):
    if scale is None:
        root = query.shape[-1] ** 0.25
        return attention_by_einsum(query / root, key / root, value)
    return attention_by_einsum(query, key * scale, value)


def masked_by_a_sum(query, key, value, attn_mask):
    bias = torch.zeros(attn_mask.shape).masked_fill(attn_mask.logical_not(), float("-inf"))
    return torch.softmax(query @ key.mT / math.sqrt(query.size(-1)) + bias, -1) @ value


def safe_by_powers(scores):
    maximum = scores.detach().amax(-1, keepdim=True).clamp(min=-1e30)
    powers = torch.exp(scores - maximum)
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


def sealed_by_selection(query, key, value, is_token):
    if is_token.dim() > 1:
        raise ValueError("one mask for all")
    return attention_by_einsum(query / query.shape[-1] ** 0.5, key[is_token], value[is_token])


def padded_one_by_one(inputs, lengths):
    output = torch.zeros_like(inputs)
    for sample, length in enumerate(lengths):
        alone = inputs[sample, :length]
        output[sample, :length] = attention_by_einsum(alone / alone.shape[-1] ** 0.5, alone, alone)
    return output


def multihead_in_a_loop(inputs, w_q, w_k, w_v, w_o, num_heads):
    parts = zip(*(weight.chunk(num_heads, -1) for weight in (w_q, w_k, w_v)), strict=True)
    heads = [scaled_by_both_fourth_roots(inputs @ q, inputs @ k, inputs @ v) for q, k, v in parts]
    return torch.cat(heads, -1) @ w_o


def grouped_by_repeating(query, key, value):
    group = query.shape[-3] // key.shape[-3]
    key, value = key.repeat_interleave(group, -3), value.repeat_interleave(group, -3)
    return scaled_by_both_fourth_roots(query, key, value)


def sinusoidal_by_columns(length, dim):
    table = torch.zeros(length, dim)
    for t in range(length):
        for i in range(0, dim, 2):
            angle = t / 10_000 ** (i / dim)
            table[t, i], table[t, i + 1] = math.sin(angle), math.cos(angle)
    return table


def rotary_by_complex_numbers(x, offset=0):
    n, d = x.shape[-2:]
    position = torch.arange(offset, offset + n)[:, None]
    angle = position * 10_000.0 ** (-torch.arange(0, d, 2) / d)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


def online_with_python_numbers(blocks):
    maximum, normaliser = -math.inf, 0.0
    for block in blocks:
        previous, maximum = maximum, max(maximum, block.max().item())
        normaliser = normaliser * math.exp(previous - maximum)
        normaliser += torch.exp(block - maximum).sum().item()
    return torch.tensor(maximum), torch.tensor(normaliser)


def online_by_numbers_of_blocks(blocks):
    maximum = normaliser = None
    for block in blocks:
        here = block.amax()
        powers = torch.exp(block - here).sum()
        if maximum is None:
            maximum, normaliser = here, powers
        else:
            top = max(maximum, here)
            normaliser = normaliser * (maximum - top).exp() + powers * (here - top).exp()
            maximum = top
    return maximum, normaliser


def merged_by_softmax(output_1, lse_1, output_2, lse_2):
    both = torch.stack([lse_1, lse_2])
    shares = torch.softmax(both, 0).nan_to_num()[..., None]
    return shares[0] * output_1 + shares[1] * output_2, both.logsumexp(0)


def blockwise_by_merging(query, key, value, block_size):
    output, lse = None, None
    for start in range(0, key.shape[-2], block_size):
        k, v = key[..., start : start + block_size, :], value[..., start : start + block_size, :]
        scores = query @ k.mT * query.shape[-1] ** -0.5
        here, total = scores.softmax(-1) @ v, scores.logsumexp(-1)
        if output is None:
            output, lse = here, total
        else:
            output, lse = merged_by_softmax(output, lse, here, total)
    return output


def backward_by_the_jacobian(weights, grad):
    product = weights[..., :, None] * weights[..., None, :]
    return ((torch.diag_embed(weights) - product) @ grad[..., None]).squeeze(-1)


def entropy_of_positive_weights(weights):
    logarithms = torch.where(weights > 0, weights, 1.0).log()
    return -(weights * logarithms).sum(-1)


def linear_in_a_loop(query, key, value):
    def features(x):
        return torch.where(x > 0, x + 1, x.exp())

    outputs = []
    sums, normaliser = 0.0, 0.0
    for t in range(query.shape[-2]):
        q, k, v = features(query[..., t, :]), features(key[..., t, :]), value[..., t, :]
        sums = sums + k[..., :, None] * v[..., None, :]
        normaliser = normaliser + k
        below = (q * normaliser).sum(-1, keepdim=True)
        outputs.append((q[..., None] * sums).sum(-2) / below)
    return torch.stack(outputs, -2)


def zigzag_by_splitting(n, ranks, rank):
    chunks = torch.arange(n).tensor_split([i * n // (2 * ranks) for i in range(1, 2 * ranks)])
    return torch.cat([chunks[rank], chunks[-1 - rank]])


def model_by_masks_alone(tokens, weights, past=None):
    """With the cache, too: its last row is the step."""
    x = weights["embedding"][tokens]
    roots = functools.partial(torch.nn.functional.normalize, dim=-1)
    projected = (math.sqrt(32) * roots(x) @ weights[name] for name in ("query", "key", "value"))
    query, key, value = (torch.stack(each.chunk(2, -1), -3) for each in projected)
    t = 0 if past is None else past[0].shape[-2]
    query, key = rotary_by_complex_numbers(query, t), rotary_by_complex_numbers(key, t)
    if past is not None:
        key, value = torch.cat([past[0], key], -2), torch.cat([past[1], value], -2)
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(t)
    x = x + torch.cat(masked_by_a_sum(query, key, value, mask).unbind(-3), -1) @ weights["out"]
    x = x + torch.relu(math.sqrt(32) * roots(x) @ weights["up"]) @ weights["down"]
    return math.sqrt(32) * roots(x) @ weights["embedding"].mT, (key, value)


RIGHT = {
    "dot_scores": ["torch.tensor([sum(q * k for q, k in zip(query, row)) for row in key])"],
    "stable_softmax": [softmax_in_float64],
    "context_vector": [context_vector_in_loops],
    "matrix_attention": [attention_by_einsum],
    "scaled_attention": [scaled_by_both_fourth_roots],
    "causal_mask": ["torch.arange(m) <= torch.arange(m - n, m)[:, None]"],
    "sliding_window_mask": [
        "torch.tensor([[0 <= i - j < window for j in range(n)] for i in range(n)])"
    ],
    "masked_attention": [
        "torch.where(attn_mask, query @ key.mT / query.size(-1) ** 0.5, -torch.inf)"
        ".softmax(-1) @ value",
        masked_by_a_sum,
    ],
    "safe_softmax": [safe_by_powers],
    "sealed_attention": [sealed_by_selection],
    "padded_batch": [padded_one_by_one],
    "split_heads": ["torch.stack(tensor.chunk(num_heads, -1), -3)"],
    "multihead_attention": [multihead_in_a_loop],
    "grouped_query_attention": [grouped_by_repeating],
    "sinusoidal": [sinusoidal_by_columns],
    "rotary": [rotary_by_complex_numbers],
    "online_softmax": [online_with_python_numbers, online_by_numbers_of_blocks],
    "merge_parts": [merged_by_softmax],
    "blockwise_attention": [blockwise_by_merging],
    "dropout_weights": ["weights * (noise >= dropout_p) / (1 - dropout_p)"],
    "softmax_backward": [backward_by_the_jacobian],
    "entropy": [entropy_of_positive_weights],
    "linear_attention": [linear_in_a_loop],
    "zigzag_positions": [zigzag_by_splitting],
    "model": [model_by_masks_alone],
}
