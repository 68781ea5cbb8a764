"""What goes wrong in attention_backward."""

import torch


def parts(grad_output, query, key, value):
    scale = query.shape[-1] ** -0.5
    weights = torch.softmax(scale * query @ key.mT, -1)
    grad_weights = grad_output @ value.mT
    mean = (weights * grad_weights).sum(-1, keepdim=True)
    return scale, weights, grad_weights, weights * (grad_weights - mean)


def other_order(grad_output, query, key, value):
    scale, weights, _, ds = parts(grad_output, query, key, value)
    return weights.mT @ grad_output, scale * ds.mT @ query, scale * ds @ key


def weights_not_transposed(grad_output, query, key, value):
    scale, weights, _, ds = parts(grad_output, query, key, value)
    return scale * ds @ key, scale * ds.mT @ query, weights @ grad_output


def gradient_of_the_values_as_a_mean(grad_output, query, key, value):
    scale, weights, _, ds = parts(grad_output, query, key, value)
    shares = weights / weights.sum(-2, keepdim=True)
    return scale * ds @ key, scale * ds.mT @ query, shares.mT @ grad_output


def no_mean(grad_output, query, key, value):
    scale, weights, grad_weights, _ = parts(grad_output, query, key, value)
    ds = weights * grad_weights
    return scale * ds @ key, scale * ds.mT @ query, weights.mT @ grad_output


def no_softmax(grad_output, query, key, value):
    scale, weights, grad_weights, _ = parts(grad_output, query, key, value)
    ds = grad_weights
    return scale * ds @ key, scale * ds.mT @ query, weights.mT @ grad_output


def no_scale(grad_output, query, key, value):
    _, weights, _, ds = parts(grad_output, query, key, value)
    return ds @ key, ds.mT @ query, weights.mT @ grad_output


def scale_on_one_side(grad_output, query, key, value):
    scale, weights, _, ds = parts(grad_output, query, key, value)
    return scale * ds @ key, ds.mT @ query, weights.mT @ grad_output


def moves_the_batch(grad_output, query, key, value):
    scale, weights, _, ds = parts(grad_output, query, key, value)
    turned = ds.transpose(0, 1) @ query
    return scale * ds @ key, scale * turned, weights.mT @ grad_output


WRONG = {
    other_order: "value_gradient: shape",
    weights_not_transposed: "value_gradient: RuntimeError",
    gradient_of_the_values_as_a_mean: "value_gradient",
    no_mean: "through_the_softmax",
    no_softmax: "through_the_softmax",
    no_scale: "scale",
    scale_on_one_side: "scale",
    moves_the_batch: "batch: RuntimeError",
}
