"""What goes wrong in softmax_backward."""


def weights_times_gradient(weights, grad):
    return weights * grad


def diagonal_only(weights, grad):
    return weights * (1 - weights) * grad


def plain_mean(weights, grad):
    return weights * (grad - grad.mean(-1, keepdim=True))


def without_the_factor(weights, grad):
    return grad - (weights * grad).sum(-1, keepdim=True)


def one_sum_for_all_rows(weights, grad):
    return weights * (grad - (weights * grad).sum())


def sum_without_its_dimension(weights, grad):
    return weights * (grad - (weights * grad).sum(-1))


WRONG = {
    weights_times_gradient: "constant",
    diagonal_only: "constant",
    plain_mean: "weighted_mean",
    without_the_factor: "weighted_mean",
    one_sum_for_all_rows: "each_row",
    sum_without_its_dimension: "each_row",
}
