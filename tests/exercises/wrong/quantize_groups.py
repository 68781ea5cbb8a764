"""What goes wrong in quantize_groups."""

import torch


def grouped(tokens, group_size, largest=448.0, sizes=lambda groups: groups.abs().amax(-1, True)):
    groups = tokens.unflatten(-1, (-1, group_size))
    step = sizes(groups) / largest
    step = torch.where(step == 0, 1.0, step)
    return groups, step


def eight(numbers):
    return numbers.clamp(-448, 448).to(torch.float8_e4m3fn).float()


def as_integers_have_it(tokens, group_size):
    groups, step = grouped(tokens, group_size, largest=127.0)
    return (eight(groups / step) * step).flatten(-2)


def not_rounded(tokens, group_size):
    return tokens.clone()


def to_integers(tokens, group_size):
    groups, step = grouped(tokens, group_size)
    return ((groups / step).round() * step).flatten(-2)


def not_multiplied(tokens, group_size):
    groups, step = grouped(tokens, group_size)
    return eight(groups / step).flatten(-2)


def not_divided(tokens, group_size):
    return eight(tokens)


def one_step_a_token(tokens, group_size):
    step = tokens.abs().amax(-1, keepdim=True) / 448
    step = torch.where(step == 0, 1.0, step)
    return eight(tokens / step) * step


def every_other(tokens, group_size):
    groups = tokens.unflatten(-1, (group_size, -1))
    step = groups.abs().amax(-2, keepdim=True) / 448
    step = torch.where(step == 0, 1.0, step)
    return (eight(groups / step) * step).flatten(-2)


def with_sign(tokens, group_size):
    groups, step = grouped(tokens, group_size, sizes=lambda groups: groups.amax(-1, True))
    return (eight(groups / step) * step).flatten(-2)


def zero_by_zero(tokens, group_size):
    groups = tokens.unflatten(-1, (-1, group_size))
    step = groups.abs().amax(-1, keepdim=True) / 448
    return (eight(groups / step) * step).flatten(-2)


def shared_by_tokens(tokens, group_size):
    groups, step = grouped(
        tokens, group_size, sizes=lambda groups: groups.abs().amax((-3, -1), True)
    )
    return (eight(groups / step) * step).flatten(-2)


def shared_by_samples(tokens, group_size):
    axes = (0, -1) if tokens.dim() > 2 else (-1,)
    groups, step = grouped(tokens, group_size, sizes=lambda groups: groups.abs().amax(axes, True))
    return (eight(groups / step) * step).flatten(-2)


WRONG = {
    as_integers_have_it: "largest",
    not_rounded: "nearest",
    to_integers: "nearest",
    not_multiplied: "back",
    not_divided: "back",
    one_step_a_token: "own_step",
    every_other: "own_step",
    with_sign: "signs",
    zero_by_zero: "zeros",
    shared_by_tokens: "batch",
    shared_by_samples: "batch",
}
