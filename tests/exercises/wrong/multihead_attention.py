"""What goes wrong in multihead_attention."""

import torch


def split(tensor, num_heads):
    return tensor.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def join(tensor):
    return tensor.transpose(-3, -2).flatten(-2)


def attention(query, key, value, width):
    return torch.softmax(query @ key.mT / width**0.5, -1) @ value


def no_output_projection(inputs, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (split(inputs @ weight, num_heads) for weight in (w_q, w_k, w_v))
    return join(attention(q, k, v, q.shape[-1]))


def weights_as_in_linear(inputs, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (split(inputs @ weight.T, num_heads) for weight in (w_q, w_k, w_v))
    return join(attention(q, k, v, q.shape[-1])) @ w_o.T


def no_heads(inputs, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = inputs @ w_q, inputs @ w_k, inputs @ w_v
    return attention(q, k, v, q.shape[-1] / num_heads) @ w_o


def joined_without_the_exchange(inputs, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (split(inputs @ weight, num_heads) for weight in (w_q, w_k, w_v))
    heads = attention(q, k, v, q.shape[-1])
    return heads.reshape(*inputs.shape[:-1], -1) @ w_o


def scale_of_the_whole(inputs, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (split(inputs @ weight, num_heads) for weight in (w_q, w_k, w_v))
    return join(attention(q, k, v, w_q.shape[-1])) @ w_o


def no_room_for_a_batch(inputs, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = ((inputs @ each).view(len(inputs), num_heads, -1) for each in (w_q, w_k, w_v))
    q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
    return attention(q, k, v, q.shape[-1]).transpose(0, 1).flatten(1) @ w_o


WRONG = {
    no_output_projection: "out_projection",
    weights_as_in_linear: "out_projection",
    no_heads: "heads_apart",
    joined_without_the_exchange: "heads_apart",
    scale_of_the_whole: "scale_of_a_head",
    no_room_for_a_batch: "batch: RuntimeError",
}
