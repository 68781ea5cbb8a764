"""Wrong solutions, as changes of the right one: the check that must name each, then what differs.

Either pieces of the solution's text and what stands in their place, in pairs, or one expression
that is returned instead of everything.
"""

# What is changed more than once.
SOFTMAX = "torch.softmax(scores, dim=-1)"
ATTENTION = "torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value"
MASKED = ".masked_fill(~attn_mask, -torch.inf)"
RESCALED = " * torch.exp(previous - maximum)"
SPLIT = "torch.unflatten(inputs @ weight, -1, (num_heads, -1)).transpose(-3, -2)"
CUT = "torch.unflatten(gates, -1, (heads, -1)).transpose(-3, -2)"
JOINED = ".transpose(-3, -2).flatten(-2)"
SUM = "share_1 * output_1 + share_2 * output_2"
NEW = "torch.where(highest - top > 8, highest, top)"
FEATURES = "elu(query) + 1, elu(key) + 1"
DIFFERENCE = "(maps[0] - factor * maps[1])"
LARGEST = "scores.amax(-1, keepdim=True)"
MEANS = "query @ means.mT"

dot_scores = {
    "keeps the products": ("one_score_a_key: shape", "key * query"),
    "adds along the keys": ("one_score_a_key: shape", "(key * query).sum(0)"),
    "absolute value": ("sign", "(key @ query).abs()"),
    "cosine": ("length", "torch.cosine_similarity(key, query, dim=-1)"),
}

sum_normalise = {
    "divides by the largest": ("sums_to_one", "scores / scores.amax(-1, keepdim=True)"),
    "divides by their number": ("sums_to_one", "scores / scores.shape[-1]"),
    "softmax": ("ratios", "torch.softmax(scores, -1)"),
    "one sum for all rows": ("each_row", "scores / scores.sum()"),
    "sum of each column": ("each_row", "scores / scores.sum(0)"),
    "sum without its dimension": ("each_row: RuntimeError", "scores / scores.sum(-1)"),
}

stable_softmax = {
    "library": ("differences: shortcut", "scores.softmax(-1)"),
    "powers of two": ("differences", ".exp()", ".exp2()"),
    "one sum for all rows": ("each_row", "powers.sum(-1, keepdim=True)", "powers.sum()"),
    "maximum without its dimension": (
        "each_row: RuntimeError",
        LARGEST,
        "scores.amax(-1)",
    ),
    "formula as it stands": ("large_scores", f"scores - {LARGEST}", "scores"),
    "cut at a limit": ("large_scores", f"scores - {LARGEST}", "scores.clamp(max=80.0)"),
    "less the mean": ("spread_scores", "amax(", "mean("),
    "less the smallest": ("spread_scores", "amax(", "amin("),
    "less the largest of all": ("own_maximum", LARGEST, "scores.max()"),
}

context_vector = {
    "scores without softmax": ("average", SOFTMAX, "scores"),
    "powers without division": ("average", SOFTMAX, "torch.exp(scores)"),
    "counts from one": ("asker", "inputs[position]", "inputs[position - 1]"),
    "journey always asks": ("asker", "inputs[position]", "inputs[1]"),
    "leaves itself out": (
        "asker",
        "softmax(scores,",
        "softmax(scores.index_fill(0, torch.tensor(position), -torch.inf),",
    ),
    "divides by the sum": ("softmax_weights", SOFTMAX, "scores / scores.sum()"),
    "scaled": ("softmax_weights", "softmax(scores,", "softmax(scores / inputs.shape[-1] ** 0.5,"),
}

matrix_attention = {
    "library": (
        "roles: shortcut",
        "torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=1.0)",
    ),
    "averages the keys": ("roles", "@ value", "@ key"),
    "no softmax": ("roles", SOFTMAX, "scores"),
    "softmax along the queries": ("shares", "dim=-1", "dim=-2"),
    "softmax along the first dimension": ("shares", "dim=-1", "dim=0"),
    "scaled": ("numbers", "query @ key.mT", "query @ key.mT / query.shape[-1] ** 0.5"),
    "moves the batch": ("batch", "key.mT", "key.transpose(0, 1)"),
}

scaled_attention = {
    "no factor": ("square_root", "query.shape[-1] ** -0.5", "1.0"),
    "without the root": ("square_root", "query.shape[-1] ** -0.5", "1 / query.shape[-1]"),
    "times the root": ("square_root", "** -0.5", "** 0.5"),
    "after the softmax": (
        "square_root",
        "query * scale",
        "query",
        "torch.softmax",
        "scale * torch.softmax",
    ),
    "root of the number of keys": ("width", "query.shape[-1]", "key.shape[-2]"),
    "root of the width of values": ("width", "query.shape[-1]", "value.shape[-1]"),
    "ignores the scale": ("given_scale", "if scale is None:", "if True:"),
    "divides by the scale": ("given_scale", "query * scale", "query / scale", "** -0.5", "** 0.5"),
    "both factors": (
        "given_scale",
        "scale = query.shape[-1] ** -0.5",
        "scale = 1.0",
        "query * scale",
        "query * scale * query.shape[-1] ** -0.5",
    ),
    "takes zero for nothing": ("scale_of_zero", "if scale is None:", "if not scale:"),
}

causal_mask = {
    "without the diagonal": ("own_token", "diagonal=m - n", "diagonal=m - n - 1"),
    "True forbids": ("own_token", "torch.ones", "~torch.ones"),
    "numbers": ("own_token: dtype", ", dtype=torch.bool", ""),
    "everything": ("future", ".tril(diagonal=m - n)", ""),
    "upper triangle": ("future", ".tril(", ".triu("),
    "both begin together": ("cached", "diagonal=m - n", ""),
    "for a square only": ("cached: shape", "torch.ones(n, n, dtype=torch.bool).tril()"),
}

sliding_window_mask = {
    "without the own token": (
        "own_token",
        "distance >= 0",
        "distance > 0",
        "< window",
        "<= window",
    ),
    "True forbids": (
        "own_token",
        "distance >= 0",
        "distance < 0",
        "& (distance <",
        "| (distance >=",
    ),
    "both sides": ("future", "(distance >= 0) & (distance < window)", "distance.abs() < window"),
    "upper triangle": ("future", "distance >= 0", "distance <= 0", "< window", "> -window"),
    "one too many": ("count", "< window", "<= window"),
    "no lower end": ("count", " & (distance < window)", ""),
}

padding_mask = {
    "two dimensions": ("true_is_a_token: shape", "is_token[:, None, None, :]", "is_token"),
    "True is padding": ("true_is_a_token", "< lengths", ">= lengths"),
    "numbers": ("true_is_a_token: dtype", "None, None, :]", "None, None, :].float()"),
    "one too many": ("count", "< lengths", "<= lengths"),
    "from the end": ("count", "< lengths", ">= m - lengths"),
    "the longest for all": ("each_sample", "lengths[:", "lengths.max().expand(len(lengths))[:"),
    "the first for all": ("each_sample", "lengths[:", "lengths[:1].expand(len(lengths))[:"),
}

masked_attention = {
    "turned round": ("true_may_look", "~attn_mask", "attn_mask"),
    "after the softmax": (
        "sums_to_one",
        "scores.masked_fill(~attn_mask, -torch.inf)",
        "scores",
        SOFTMAX,
        "(torch.softmax(scores, dim=-1) * attn_mask)",
    ),
    "score of zero": ("forbidden_is_nothing", MASKED, " * attn_mask"),
    "tiny instead of very negative": ("forbidden_is_nothing", "-torch.inf", "1e-9"),
    "no mask": ("forbidden_is_nothing", MASKED, ""),
    "minus a milliard": ("very_negative_scores", "-torch.inf", "-1e9"),
    "written in place": (
        "broadcast: IndexError",
        "scores = scores.masked_fill(~attn_mask, -torch.inf)",
        "scores[~attn_mask] = -torch.inf",
    ),
}

biased_attention = {
    "wants a mask": ("no_mask: TypeError", "attn_mask: Tensor | None = None", "attn_mask: Tensor"),
    "asks for the dtype first": (
        "no_mask: AttributeError",
        "attn_mask is None",
        "attn_mask.dtype is None",
    ),
    "adds the bools": ("bools_forbid", "elif attn_mask.dtype == torch.bool:", "elif False:"),
    "True forbids": ("bools_forbid", "~attn_mask", "attn_mask"),
    "reads numbers as yes and no": (
        "numbers_are_added",
        "scores + attn_mask",
        "scores.masked_fill(~attn_mask.bool(), -torch.inf)",
    ),
    "multiplies": ("numbers_are_added", "scores + attn_mask", "scores * attn_mask"),
    "after the softmax": (
        "numbers_are_added",
        "scores = scores + attn_mask",
        "return (torch.softmax(scores, -1) + attn_mask) @ value",
    ),
    "finite minus infinity": ("minus_infinity", "+ attn_mask", "+ attn_mask.clamp(min=-1e9)"),
    "scales the mask too": (
        "added_after_the_scale",
        "+ attn_mask",
        "+ attn_mask / query.shape[-1] ** 0.5",
    ),
}

safe_softmax = {
    "not shifted": (
        "ordinary_rows",
        "scores.exp() / scores.exp().sum(-1, keepdim=True).clamp(min=1e-9)",
    ),
    "NaN": ("empty_row", "torch.softmax(scores, -1)"),
    "very negative numbers": ("empty_row", "torch.softmax(scores.clamp(min=-1e9), -1)"),
    "zeros for everybody": ("other_rows", "all(dim=-1, keepdim=True)", "all(dim=-1).any()"),
    "empties if all are empty": ("other_rows", "all(dim=-1, keepdim=True)", "all()"),
    "zeros for NaN": ("gradients", "torch.nan_to_num(torch.softmax(scores, -1))"),
    "chosen afterwards": (
        "gradients",
        "scores.masked_fill(empty, 0.0)",
        "scores",
        "weights.masked_fill(empty, 0.0)",
        "torch.where(empty, 0.0, weights)",
    ),
}

sealed_attention = {
    "score of zero": ("ordinary_numbers", ".masked_fill(~is_token[..., None, :], -torch.inf)", ""),
    "turned round": ("ordinary_numbers", "~is_token[..., None, :]", "is_token[..., None, :]"),
    "trusts in a weight of zero": ("nan_in_a_value", ".masked_fill(padding, 0.0)", ""),
    "multiplies by the mask": (
        "nan_in_a_value",
        "key.masked_fill(padding, 0.0)",
        "key",
        "value.masked_fill(padding, 0.0)",
        "value * ~padding",
    ),
    "adds minus infinity": (
        "nan_in_a_key",
        "key.masked_fill(padding, 0.0)",
        "key",
        "scores.masked_fill(~is_token[..., None, :], -torch.inf)",
        "scores + torch.where(is_token, 0.0, -torch.inf)[..., None, :]",
    ),
    "hides every NaN": ("visible_nan", ".masked_fill(padding, 0.0)", ".nan_to_num()"),
    "leaves the keys": ("gradients", "key.masked_fill(padding, 0.0)", "key"),
    "without gradient": ("gradients: no gradient", "query @", "query.detach() @"),
}

padded_batch = {
    "one long sentence": (
        "samples_apart",
        "scores = inputs",
        "inputs = inputs.flatten(0, 1)\n    scores = inputs",
        "is_token[:, None, :]",
        "is_token.flatten()",
        "return output",
        "return output.unflatten(0, is_token.shape)",
    ),
    "attends across the batch": (
        "samples_apart",
        "scores = inputs",
        "inputs = inputs.transpose(0, 1)\n    scores = inputs",
        "is_token[:, None, :]",
        "is_token.T[:, None]",
        "return output",
        "return output.transpose(0, 1)",
    ),
    "answers the padding": ("padding_gives_zeros", ".masked_fill(~is_token[:, :, None], 0.0)", ""),
    "forbids queries": (
        "padding_gives_zeros",
        ".masked_fill(~is_token[:, :, None], 0.0)",
        "",
        "[:, None, :]",
        "[:, :, None]",
    ),
    "sees the padding": (
        "padding_is_unseen",
        ".masked_fill(~is_token[:, None, :], -torch.inf)",
        "",
    ),
    "forbids queries and empties them": ("padding_is_unseen", "[:, None, :]", "[:, :, None]"),
    "the longest for all": (
        "own_length",
        "~is_token[:, None, :]",
        "torch.arange(n) >= lengths.max()",
    ),
}

split_heads = {
    "dealt out in turn": (
        "blocks_of_columns",
        "tensor.unflatten(-1, (-1, num_heads)).movedim(-1, -3)",
    ),
    "tokens before heads": ("blocks_of_columns: shape", ".transpose(-3, -2)", ""),
    "straight to the shape": (
        "tokens",
        "tensor.reshape(*tensor.shape[:-2], num_heads, tensor.shape[-2], -1)",
    ),
    "counted from the front": ("batch: shape", "transpose(-3, -2)", "transpose(0, 1)"),
}

multihead_attention = {
    "no output projection": ("out_projection", "joined @ out_weight", "joined"),
    "weights as in Linear": (
        "out_projection",
        "@ weight",
        "@ weight.T",
        "@ out_weight",
        "@ out_weight.T",
    ),
    "no heads": (
        "heads_apart",
        SPLIT,
        "inputs @ weight",
        "/ query.shape[-1]",
        "/ (query.shape[-1] / num_heads)",
        JOINED,
        "",
    ),
    "joined without the exchange": (
        "heads_apart",
        "heads.transpose(-3, -2).flatten(-2)",
        "heads.reshape(*inputs.shape[:-1], -1)",
    ),
    "scale of the whole": ("scale_of_a_head", "query.shape[-1]", "query_weight.shape[-1]"),
    "no room for a batch": (
        "batch: RuntimeError",
        SPLIT,
        "(inputs @ weight).view(len(inputs), num_heads, -1).transpose(0, 1)",
    ),
}

grouped_query_attention = {
    "first head for all": (
        "as_many",
        "@ key",
        "@ key[..., :1, :, :]",
        "@ value",
        "@ value[..., :1, :, :]",
    ),
    "mean of the heads": (
        "as_many",
        "@ key",
        "@ key.mean(-3, keepdim=True)",
        "@ value",
        "@ value.mean(-3, keepdim=True)",
    ),
    "not shared": ("neighbours_share: RuntimeError", ATTENTION),
    "dealt out in turn": (
        "neighbours_share",
        "(key.shape[-3], -1))",
        "(-1, key.shape[-3])).transpose(-4, -3)",
        ".flatten(-4, -3)",
        ".transpose(-4, -3).flatten(-4, -3)",
    ),
    "groups of two": (
        "any_group: RuntimeError",
        "(key.shape[-3], -1)",
        "(key.shape[-3], min(2, query.shape[-3] // key.shape[-3]))",
    ),
    "counted from the front": (
        "batch: RuntimeError",
        "(key.shape[-3], -1)",
        "(len(key), len(query) // len(key))",
    ),
}

decode_step = {
    "the past only": ("first_token", "keys.mT", "past_key.mT", "@ values", "@ past_value"),
    "output only": ("first_token: type", "@ values, keys, values", "@ values"),
    "newest first": (
        "newest_comes_last",
        "[past_key, key]",
        "[key, past_key]",
        "[past_value, value]",
        "[value, past_value]",
    ),
    "forgets the new token": (
        "newest_comes_last: shape",
        ", keys, values",
        ", *((past_key, past_value) if past_key.shape[-2] else (keys, values))",
    ),
    "the present only": ("sees_all", "keys.mT", "key.mT", "@ values", "@ value"),
    "causal from the beginning": (
        "sees_all",
        "keys.mT",
        "keys[..., :1, :].mT",
        "@ values",
        "@ values[..., :1, :]",
    ),
    "no scale": ("scale", " / query.shape[-1] ** 0.5", ""),
}

sinusoidal = {
    "sines, then cosines": ("first_row", "torch.stack", "torch.cat", ".flatten(-2)", ""),
    "cosine first": ("first_row", "angles.sin(), angles.cos()", "angles.cos(), angles.sin()"),
    "from position one": ("first_row", "torch.arange(length)", "torch.arange(1, length + 1)"),
    "degrees": ("fastest_pair", "angles = ", "angles = torch.pi / 180 * "),
    "frequency of each column": (
        "fastest_pair",
        "torch.arange(0, dim, 2, ",
        "torch.arange(dim, ",
        "torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)",
        "torch.where(torch.arange(dim) % 2 == 0, angles.sin(), angles.cos())",
    ),
    "half the exponent": ("frequencies", "torch.arange(0, dim, 2, ", "torch.arange(dim // 2, "),
    "twice the exponent": ("frequencies", "-torch.arange(0, ", "-2 * torch.arange(0, "),
}

rotary = {
    "from position one": ("position_zero", "(offset, offset + n)", "(offset + 1, offset + n + 1)"),
    "sine and cosine exchanged": ("position_zero", "cos, sin =", "sin, cos ="),
    "the other way": ("direction", "angle = position", "angle = -position"),
    "halves as pairs": (
        "pairs",
        "x[..., 0::2], x[..., 1::2]",
        "x.chunk(2, -1)",
        "torch.stack",
        "torch.cat",
        ".flatten(-2)",
        "",
    ),
    "half the exponent": ("pairs", "torch.arange(0, d, 2)", "torch.arange(d // 2)"),
    "no offset": ("offset", "(offset, offset + n)", "(n)"),
    "positions along the first dimension": (
        "heads",
        "n, d = x.shape[-2:]",
        "n, d = x.shape[0], x.shape[-1]",
        "position[:, None]",
        "position.view(n, *[1] * (x.dim() - 1))",
    ),
}

alibi_bias = {
    "prefers the far": ("distance", "* -distance", "* distance"),
    "distance with its sign": ("distance", ".abs()", ""),
    "heads from zero": ("distance", "torch.arange(1, num_heads + 1)", "torch.arange(num_heads)"),
    "without heads": ("distance: shape", "slope[:, None, None]", "2.0**-8"),
    "one slope for all": ("slopes", "head / num_heads)", "head / head)"),
    "slopes of eight heads": ("slopes", "head / num_heads)", "(head + 8 - num_heads) / 8)"),
}

online_softmax = {
    "not shifted": ("one_block", RESCALED, "", "block - maximum", "block"),
    "reads twice": (
        "one_block",
        "maximum = torch.tensor(-torch.inf)",
        "maximum = torch.stack([block.max() for block in blocks]).max()",
    ),
    "Python numbers": (
        "one_block: type",
        "return maximum, normaliser",
        "return maximum.item(), normaliser.item()",
    ),
    "library": (
        "one_block: shortcut",
        "(all := torch.cat(list(blocks))).max(), torch.exp(torch.logsumexp(all, 0) - all.max())",
    ),
    "own maximum of each block": (
        "falling",
        RESCALED,
        "",
        "block - maximum",
        "block - block.max()",
    ),
    "latest maximum": ("falling", "torch.maximum(maximum, block.max())", "block.max()"),
    "never rescales": ("rising", RESCALED, ""),
    "rescales the other way": (
        "rising",
        "previous - maximum",
        "(maximum - previous).nan_to_num(posinf=0.0)",
    ),
    "shifts at the end": (
        "large_scores",
        RESCALED,
        "",
        "block - maximum",
        "block",
        "return maximum, normaliser",
        "return maximum, normaliser / maximum.exp()",
    ),
    "all at once": (
        "one_at_a_time",
        "(all := torch.cat(list(blocks))).max(), torch.exp(all - all.max()).sum()",
    ),
}

merge_parts = {
    "adds the outputs": ("equal_parts", SUM, "output_1 + output_2"),
    "adds the logarithms": ("equal_parts", "output_2, lse", "output_2, lse_1 + lse_2"),
    "plain mean": ("unequal_parts", SUM, "(output_1 + output_2) / 2"),
    "turned round": ("unequal_parts", "share_1, share_2 =", "share_2, share_1 ="),
    "along the components": ("own_share", "[..., None]", ""),
    "powers as they are": (
        "large_scores",
        "torch.logaddexp(lse_1, lse_2)",
        "(lse_1.exp() + lse_2.exp()).log()",
    ),
    "NaN without keys": ("empty_parts", "lse.masked_fill(lse == -torch.inf, 0.0)", "lse"),
}

blockwise_attention = {
    "no scale": ("one_block", " / query.shape[-1] ** 0.5", ""),
    "no division": ("one_block", "output / total", "output"),
    "mean of the blocks": (
        "even_blocks",
        "torch.stack([blockwise_attention(query, *pair, block_size) for pair in "
        "zip(key.split(block_size, -2), value.split(block_size, -2))]).mean(0)",
    ),
    "rescales one of two": ("even_blocks", "shrink * output", "output"),
    "loses the rest": (
        "last_block",
        "zip(key.split(block_size, -2), value.split(block_size, -2), strict=True)",
        "[*zip(key.split(block_size, -2), value.split(block_size, -2))]"
        "[: max(1, key.shape[-2] // block_size)]",
    ),
    "not shifted": (
        "large_scores",
        "(scores - larger).exp()",
        "scores.exp()",
        "(maximum - larger).exp()",
        "1.0",
    ),
    "maximum from zero": ("large_scores", 'float("-inf")', "0.0"),
    "all the scores first": (
        "never_the_whole",
        'query.new_full((*query.shape[:-1], 1), float("-inf"))',
        "(query @ key.mT).amax(-1, keepdim=True)",
    ),
    "ordinary": ("never_the_whole", ATTENTION),
}

dropout_weights = {
    "share to keep": (
        "which_are_dropped",
        "torch.where(noise < dropout_p, weights / dropout_p, 0.0)",
    ),
    "written in place": (
        "which_are_dropped: changed",
        "return torch",
        "weights[noise < dropout_p] = 0.0\n    return torch",
    ),
    "library": ("which_are_dropped: shortcut", "torch.nn.functional.dropout(weights, dropout_p)"),
    "no factor": ("others_are_scaled", " / (1 - dropout_p)", ""),
    "factor of the dropped": ("others_are_scaled", "1 - dropout_p", "dropout_p"),
    "normalised again": (
        "others_are_scaled",
        "(kept := weights * (noise >= dropout_p)) / kept.sum(-1, keepdim=True).clamp(min=1e-9)",
    ),
    "drops at the border": ("nothing_is_dropped", "noise <", "noise <="),
}

softmax_backward = {
    "weights times gradient": ("constant", "weights * grad"),
    "diagonal only": ("constant", "weights * (1 - weights) * grad"),
    "plain mean": ("weighted_mean", "weights * (grad - grad.mean(-1, keepdim=True))"),
    "without the factor": ("weighted_mean", "weights * (grad - mean)", "grad - mean"),
    "one sum for all rows": ("each_row", ", dim=-1, keepdim=True", ""),
    "sum without its dimension": ("each_row", ", keepdim=True", ""),
}

attention_backward = {
    "other order": (
        "value_gradient: shape",
        "grad_query, grad_key, grad_value",
        "grad_value, grad_key, grad_query",
    ),
    "weights not transposed": ("value_gradient: RuntimeError", "weights.mT @", "weights @"),
    "gradient of the values as a mean": (
        "value_gradient",
        "weights.mT @",
        "(weights / weights.sum(-2, keepdim=True)).mT @",
    ),
    "no mean": ("through_the_softmax", "(grad_weights - mean)", "grad_weights"),
    "no softmax": ("through_the_softmax", "weights * (grad_weights - mean)", "grad_weights"),
    "no scale": ("scale", "scale * grad_scores", "grad_scores"),
    "scale on one side": ("scale", "scale * grad_scores.mT", "grad_scores.mT"),
    "moves the batch": ("batch: RuntimeError", "grad_scores.mT", "grad_scores.transpose(0, 1)"),
}

entropy = {
    "bits": ("all_alike", "torch.xlogy(weights, weights)", "(weights * weights.log2())"),
    "no minus": ("all_alike", "-torch.xlogy", "torch.xlogy"),
    "mean": ("all_alike", ".sum(", ".mean("),
    "mean of the logarithms": ("weighted", "-weights.log().mean(-1)"),
    "logarithm of the largest": ("weighted", "-weights.amax(-1).log()"),
    "sum of squares": ("weighted", "-weights.square().sum(-1).log()"),
    "formula as it stands": ("weight_of_zero", "-(weights * weights.log()).sum(-1)"),
    "one number for all": ("each_row: shape", "dim=-1", ""),
}

linear_attention = {
    "no division": ("average", "above / below", "above"),
    "divides by the whole sum": (
        "average",
        "torch.cumsum(key, dim=-2)",
        "key.sum(-2, keepdim=True)",
    ),
    "without the own token": (
        "average",
        "torch.cumsum(products, dim=-3)",
        "torch.cumsum(products, dim=-3) - products",
        "torch.cumsum(key, dim=-2)",
        "torch.cumsum(key, dim=-2) - key",
    ),
    "not causal": (
        "future",
        "torch.cumsum(products, dim=-3)",
        "products.sum(-3, keepdim=True)",
        "torch.cumsum(key, dim=-2)",
        "key.sum(-2, keepdim=True)",
    ),
    "relu": ("features", FEATURES, "query.relu() + 1e-6, key.relu() + 1e-6"),
    "exponential": ("features", FEATURES, "query.exp(), key.exp()"),
    "keys only": ("features", "elu(query) + 1", "query"),
    "a masked square": (
        "never_a_square",
        "above / below",
        "(query @ key.mT).tril() / below @ value",
    ),
}

linear_attention_step = {
    "output before the update": (
        "first_token",
        "key_value = key_value +",
        "new = key_value +",
        "normaliser = normaliser +",
        "total = normaliser +",
        "below, key_value, normaliser",
        "below, new, total",
    ),
    "no division": ("first_token", "above / below", "above"),
    "changes the state": (
        "first_token: changed",
        "key_value = key_value +",
        "key_value +=",
        "normaliser = normaliser +",
        "normaliser +=",
    ),
    "forgets the past": ("carries_the_past", "key_value + key", "key", "normaliser + key", "key"),
    "returns the old state": (
        "carries_the_past",
        "query, key = elu",
        "old = key_value, normaliser\n    query, key = elu",
        "below, key_value, normaliser",
        "below, *(old if old[1].any() else (key_value, normaliser))",
    ),
    # Plus 1 at and above 0, where the first two checks look.
    "relu": ("features", FEATURES, "query.relu() + 1, key.relu() + 1"),
    "outer of vectors": (
        "batch: RuntimeError",
        "key[..., :, None] * value[..., None, :]",
        "torch.outer(key, value)",
    ),
}

delta_rule_step = {
    "adds": ("replaces", "(value - told)", "value"),
    "reads before": (
        "replaces",
        "state = state +",
        "new = state +",
        "output, state",
        "output, new",
    ),
    "returns the old state": (
        "replaces",
        "state = decay",
        "old, state = state, decay",
        "output, state",
        "output, old",
    ),
    "changes the state": (
        "replaces: changed",
        "state = decay[..., None, None] * state",
        "state *= decay[..., None, None]",
        "state = state +",
        "state +=",
    ),
    "replaces all": ("by_a_share", "beta[..., None] * (value - told)", "value - told"),
    "a share of the new only": ("by_a_share", "(value - told)", "value - told"),
    "does not fade": ("forgets_first", "decay[..., None, None] * state", "state"),
    "fades at the end": (
        "forgets_first",
        "decay[..., None, None] * state",
        "state",
        "state = state + key[..., :, None] * change[..., None, :]",
        "state = decay[..., None, None] * (state + key[..., :, None] * change[..., None, :])",
    ),
    "asks the state of before": (
        "forgets_first",
        "state = decay",
        "faded = decay",
        "state = state +",
        "state = faded +",
    ),
    "no scale": ("scale", " / query.shape[-1] ** 0.5", ""),
    "outer of vectors": (
        "batch: RuntimeError",
        "key[..., :, None] * change[..., None, :]",
        "torch.outer(key, change)",
    ),
}

absorbed_step = {
    "of latents only": (
        "reads_the_values",
        "(averages[..., None, :] @ value_up.mT)[..., 0, :]",
        "averages",
    ),
    "the wrong matrix": ("reads_the_values", "value_up.mT", "key_up.mT"),
    "one matrix for all": ("each_head_its_own", "@ key_up", "@ key_up[:1]"),
    "over the heads": ("each_head_its_own", "dim=-1", "dim=-2 if len(key_up) > 1 else -1"),
    "scale of the latents": ("scale", "query.shape[-1]", "latents.shape[-1]"),
    "no scale": ("scale", " / query.shape[-1] ** 0.5", ""),
    "without a batch": (
        "batch: IndexError",
        "(query[..., None, :] @ key_up)[..., 0, :]",
        "torch.stack([query[h] @ key_up[h] for h in range(len(key_up))])",
    ),
    "makes the keys": (
        "makes_no_keys",
        "(query[..., None, :] @ key_up)[..., 0, :]",
        "query",
        "moved @ latents.mT",
        "(moved[..., None, :] @ (latents[..., None, :, :] @ key_up.mT).mT)[..., 0, :]",
    ),
}

sink_softmax = {
    "without the sink": ("takes_weight", "sink[:, None, None]", "torch.tensor(-torch.inf)"),
    "always one": ("power_of_the_score", "scores.exp() / (1 + scores.exp().sum(-1, keepdim=True))"),
    "the score itself": (
        "power_of_the_score",
        "scores.exp() / (1 + sink[:, None, None] + scores.exp().sum(-1, keepdim=True))",
    ),
    "shifts the scores alone": (
        "one_shift",
        "column = sink",
        "column = scores.amax(-1, keepdim=True) + sink",
    ),
    "along the keys": (
        "each_head_its_own",
        "(powers := scores.exp()) / (powers.sum(-1, keepdim=True) + "
        "(sink if len(sink) in (1, scores.shape[-1]) else sink[:, None, None]).exp())",
    ),
    "formula as it stands": ("large_scores", "both - both.amax(dim=-1, keepdim=True)", "both"),
    "never shifts down": (
        "all_far_below_zero",
        "both.amax(dim=-1, keepdim=True)",
        "both.amax(dim=-1, keepdim=True).clamp(min=0.0)",
    ),
    "shifts by the keys": ("nothing_allowed", "both.amax(", "scores.amax("),
    "a sink for each sample": (
        "batch",
        "sink[:, None, None]",
        "sink.view(-1, *(1,) * (scores.dim() - 1))",
    ),
}

tree_mask = {
    "without itself": ("itself", "seen = node", "seen = parents[node]"),
    "meaning reversed": ("itself", "return allowed", "return ~allowed"),
    "descendants": ("upwards", "allowed[node, past + seen]", "allowed[seen, past + node]"),
    "causal": (
        "upwards",
        "torch.ones(len(parents), past + len(parents), dtype=torch.bool).tril(past)",
    ),
    "both ways": ("upwards", "past + seen] =", "past + seen] = allowed[seen, past + node] ="),
    "parents only": (
        "all_the_way",
        "while seen != -1:",
        "for seen in {node, parents[node]} - {-1}:",
    ),
    "without the cache": ("cache", "allowed[:, :past] = True", "allowed[:, :past] = False"),
    "nodes alone": ("cache: shape", "return allowed", "return allowed[:, past:]"),
    "cache at the end": ("cache", "return allowed", "return allowed.roll(-past, 1)"),
    "cache for roots only": (
        "cache",
        ":past] = True",
        ":past] = torch.tensor(parents)[:, None] == -1",
    ),
    "parents first": (
        "any_order",
        "torch.zeros(n, past + n, dtype=torch.bool)",
        "torch.ones(n, past + n, dtype=torch.bool).tril(past).triu(past)",
        "while seen != -1:",
        "for seen in {parents[node]} - {-1}:",
        "allowed[node, past + seen] = True",
        "allowed[node] |= allowed[seen]",
    ),
    "earlier nodes only": ("any_order", "return allowed", "return allowed.tril(past)"),
}

gated_heads = {
    "no gate": ("gate", "gates * answers", "answers"),
    "tanh gate": ("gate", "torch.sigmoid", "torch.tanh"),
    "softmax gate": (
        "gate",
        "torch.sigmoid(inputs @ gate_weight)",
        "torch.softmax(inputs @ gate_weight, -1)",
    ),
    "without its sigmoid": ("gate", "torch.sigmoid", ""),
    "after the output": (
        "before_the_output",
        CUT,
        "gates[..., : out_weight.shape[-1]]",
        "gates * answers",
        "answers",
        "return joined @ out_weight",
        "return gates * (joined @ out_weight)",
    ),
    "one gate per head": (
        "before_the_output",
        "torch.sigmoid",
        "",
        "gates * answers",
        "gates.mean(-1, keepdim=True).sigmoid() * answers",
    ),
    "reshaped at once": ("heads_in_their_place", CUT, "gates.reshape(answers.shape)"),
    "joined at once": ("heads_in_their_place", JOINED, ".reshape(*inputs.shape[:-1], -1)"),
    "without a batch": (
        "batch: ValueError",
        "heads = answers.shape[-3]",
        "heads, _, _ = answers.shape",
    ),
}

differential_attention = {
    "added": ("difference", "maps[0] -", "maps[0] +"),
    "without the factor": ("difference", "factor * maps[1]", "maps[1]"),
    "summing to one": ("difference", DIFFERENCE, "(maps[0] - factor * maps[1]) / (1 - factor)"),
    "first map only": ("difference", " - factor * maps[1]", ""),
    "even and odd": (
        "halves",
        "zip(query.chunk(2, -1), key.chunk(2, -1), strict=True)",
        "((query[..., i::2], key[..., i::2]) for i in (0, 1))",
    ),
    "exchanged": ("halves", "maps[0] - factor * maps[1]", "maps[1] - factor * maps[0]"),
    "one softmax for both": (
        "halves",
        SOFTMAX,
        "scores",
        DIFFERENCE,
        "(1 - factor) * torch.softmax(maps[0] - factor * maps[1], dim=-1)",
    ),
    "scale of both halves": ("scale_of_one_half", "q.shape[-1]", "query.shape[-1]"),
    "no scale": ("scale_of_one_half", " / q.shape[-1] ** 0.5", ""),
    "without a batch": ("batch: RuntimeError", "chunk(2, -1)", "chunk(2, 1)", "k.mT", "k.T"),
}

bias_gradient = {
    "means": ("one_sum_per_distance", ".sum(-1)", ".mean(-1)"),
    "over the rows": ("one_sum_per_distance: shape", "grad.sum(-2)"),
    "the other way": ("from_far_behind_to_far_ahead", "grad.diagonal", "grad.flip(-1).diagonal"),
    "reversed order": ("from_far_behind_to_far_ahead", "range(1 - n, m)", "range(m - 1, -n, -1)"),
    "as if square": ("queries_and_keys: shape", "range(1 - n, m)", "range(1 - n, n)"),
    "exchanged": (
        "queries_and_keys",
        "sums =",
        "n, m, grad = (n, m, grad) if n == m else (m, n, grad.mT)\n    sums =",
    ),
    "the first two dimensions": ("batch: shape", "shape[-2:]", "shape[:2]", "(t, -2, -1)", "(t)"),
    "without a batch": ("batch: ValueError", "shape[-2:]", "shape"),
}

paged_step = {
    "page and place swapped": ("finds_the_pages", "[pages, j % size]", "[j % size, pages]"),
    "without the table": (
        "finds_the_pages",
        "pages = block_table",
        "pages = torch.arange(block_table.numel()).view_as(block_table)",
    ),
    "whole pages": ("stops_at_the_length", "lengths[:", "(-(-lengths // size) * size)[:"),
    "one too many": ("stops_at_the_length", "j < lengths", "j <= lengths"),
    "one short": ("sees_the_newest", "lengths[:", "(lengths - 1).clamp(min=1)[:"),
    "table of the first": (
        "each_its_own",
        "pages = block_table[:",
        "pages = block_table[:1].expand_as(block_table)[:",
    ),
    "length of the longest": ("each_its_own", "lengths[:", "lengths.amax().expand_as(lengths)[:"),
    "no scale": ("scale", " / query.shape[-1] ** 0.5", ""),
    # (b, h, places, d) by name, of rows in the order (places, h)
    "places and heads mixed": (
        "heads",
        "[pages, j % size]",
        "[pages, j % size].flatten(1, 2).unflatten(1, (query.shape[1], -1)).transpose(1, 2)",
    ),
    "scores alone": ("nothing_leaks", "torch.where(held[:, :, None, None], values, 0.0)", "values"),
}

chosen_blocks = {
    "own block competes": ("own_block", ".masked_fill(block == own, torch.inf)", ""),
    "own block whole": ("own_block", "allowed & (torch.arange(n) <= position)", "allowed"),
    "blocks ahead compete": ("no_future", ".masked_fill(block > own, -torch.inf)", ""),
    "only its own": ("best_mean", "min(num_blocks, blocks)", "1"),
    "by the largest key": (
        "best_mean",
        MEANS,
        "(query[..., None, :, :] @ key.unflatten(-2, (blocks, block_size)).mT).amax(-1).mT",
    ),
    "by the last blocks": ("best_mean", MEANS, "0 * (query @ means.mT) + torch.arange(blocks)"),
    "by the length of the mean": (
        "best_mean",
        MEANS,
        "means.norm(dim=-1)[..., None, :].expand(*query.shape[:-1], blocks)",
    ),
    "more than there are": ("fewer_blocks: RuntimeError", "min(num_blocks, blocks)", "num_blocks"),
    "one choice for all": (
        "batch",
        "chosen_blocks(*(x.reshape(-1, *x.shape[-2:]).mean(0) for x in (query, key)), block_size, "
        "num_blocks).expand(*query.shape[:-1], query.shape[-2])",
    ),
}

quantize_groups = {
    "as integers have it": ("largest", "/ 448", "/ 127"),
    "not rounded": ("nearest", "tokens.clone()"),
    "to integers": ("nearest", ".clamp(-448, 448).to(torch.float8_e4m3fn)", ".round()"),
    "not multiplied": ("back", "rounded.float() * step", "rounded.float()"),
    "not divided": ("back", "groups / step", "groups", "rounded.float() * step", "rounded.float()"),
    "one step a token": (
        "own_step",
        "groups.abs().amax(dim=-1, keepdim=True)",
        "tokens.abs().amax(-1)[..., None, None]",
    ),
    "every other": (
        "own_step",
        "tokens.reshape(*tokens.shape[:-1], -1, group_size)",
        "tokens.unflatten(-1, (group_size, -1))",
        "dim=-1",
        "dim=-2",
    ),
    "with sign": ("signs", "groups.abs()", "groups"),
    "zero by zero": ("zeros", "torch.where(step == 0, 1.0, step)", "step"),
    "shared by tokens": ("batch", "dim=-1", "dim=(-3, -1)"),
    "shared by samples": ("batch", "dim=-1", "dim=(0, -1) if tokens.dim() > 2 else -1"),
}

lazy_rescaling = {
    "keeps the start": (
        "first_block",
        "torch.maximum(top, scores.amax(-1, keepdim=True))",
        "scores.amax(-1, keepdim=True)",
        "highest - top > 8",
        "highest > top.abs() + 8",
    ),
    "maximum of the block": ("falling", NEW, "scores.amax(-1, keepdim=True)"),
    "each rise": ("small_rise", NEW, "highest"),
    "from eight on": ("at_the_threshold", "top > 8", "top >= 8"),
    "leaves the normaliser": ("large_rise", "factor * normaliser", "normaliser"),
    "leaves the output": ("large_rise", "factor * sums", "sums"),
    "the other way": (
        "large_rise",
        "torch.exp2(top - new)",
        "torch.exp2(new - top).nan_to_num(posinf=0.0)",
    ),
    "renews once": (
        "large_scores",
        "highest - top > 8",
        "(highest - top > 8) & ((top == -torch.inf) | (highest - top < 100))",
    ),
    "undoes and divides": (
        "large_scores",
        "torch.exp2(top - new)",
        "torch.exp2(top) / torch.exp2(new)",
    ),
    "all rows together": ("each_row_its_own", "highest - top > 8", "(highest - top > 8).any()"),
}

zigzag_positions = {
    "contiguous": ("both_ends", "torch.arange(rank * n // ranks, (rank + 1) * n // ranks)"),
    "dealt like cards": ("both_ends", "torch.arange(rank, n, ranks)"),
    "one too far from the end": (
        "both_ends",
        "2 * ranks - 1 - rank",
        "2 * ranks - rank",
        "2 * ranks + 1",
        "2 * ranks + 2",
    ),
    "end first": ("both_ends", "(rank, 2 * ranks - 1 - rank)", "(2 * ranks - 1 - rank, rank)"),
    "second chunk reversed": (
        "in_order",
        "begins[i + 1])",
        "begins[i + 1]).flip(() if i == rank else 0)",
    ),
    "one length for all": ("uneven: shape", "i * n // (2 * ranks)", "i * (n // (2 * ranks))"),
    "counted from the end": (
        "uneven: shape",
        "chunks = (rank, 2 * ranks - 1 - rank)",
        "i = rank",
        "begins[i], begins[i + 1]) for i in chunks",
        "*ends) for ends in ((begins[i], begins[i + 1]), (n - begins[i + 1], n - begins[i]))",
    ),
    "a list of nothing": (
        "nothing: dtype",
        "torch.cat([torch.arange(begins[i], begins[i + 1]) for i in chunks])",
        "torch.tensor([j for i in chunks for j in range(begins[i], begins[i + 1])])",
    ),
}

model = {
    "returns the logits alone": (
        "one_letter: type",
        'weights["embedding"].mT, (key, value)',
        'weights["embedding"].mT',
    ),
    "no residual sum": ("one_letter", "x = x + relu", "x = relu"),
    "no activation": ("one_letter", 'relu(rms_norm(x, (D,)) @ weights["up"])', 'x @ weights["up"]'),
    "forgets the output projection": ("one_letter", ' @ weights["out"]', ""),
    "normalises once": ("one_letter", "return rms_norm(x, (D,))", "return x"),
    "sees the future": ("future", "causal_mask(n, n)", "causal_mask(n, n) | True"),
    "joins without exchanging": (
        "future",
        "heads.transpose(-3, -2).flatten(-2)",
        "heads.reshape(x.shape)",
    ),
    "turns nothing": ("learns", "rotary(query), rotary(key)", "query, key"),
    "carries no gradient": ("learns: RuntimeError", 'weights["up"]', 'weights["up"].detach()'),
    "every new token is the first": ("cached", "past[0].shape[-2]", "0"),
    "returns the old past": (
        "cached",
        "    x = x + heads",
        "    key, value = (key, value) if past is None else past\n    x = x + heads",
    ),
    "turns the cache again": ("cached", "value, *past)", "value, rotary(past[0]), past[1])"),
    "looks at itself only": (
        "cached",
        "value, *past)",
        "value, past[0][..., :0, :], past[1][..., :0, :])",
    ),
}
