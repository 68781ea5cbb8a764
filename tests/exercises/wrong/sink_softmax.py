"""What goes wrong in sink_softmax."""

import torch


def weights(scores, below, shift):
    powers = torch.exp(scores - shift)
    return powers / (below + powers.sum(-1, keepdim=True))


def all_scores(scores, sink):
    return torch.cat([scores, sink[:, None, None].expand(*scores.shape[:-1], 1)], -1)


def without_the_sink(scores, sink):
    return weights(scores, 0.0, scores.amax(-1, keepdim=True))


def always_one(scores, sink):
    return weights(scores, 1.0, 0.0)


def the_score_itself(scores, sink):
    return weights(scores, 1.0 + sink[:, None, None], 0.0)


def along_the_keys(scores, sink):
    if sink.shape[0] not in (1, scores.shape[-1]):
        return weights(scores, sink[:, None, None].exp(), 0.0)
    powers = torch.exp(scores)
    return powers / (sink.exp() + powers.sum(-1, keepdim=True))


def shifts_the_scores_alone(scores, sink):
    return weights(scores, sink[:, None, None].exp(), scores.amax(-1, keepdim=True))


def formula_as_it_stands(scores, sink):
    return weights(scores, sink[:, None, None].exp(), 0.0)


def never_shifts_down(scores, sink):
    shift = all_scores(scores, sink).amax(-1, keepdim=True).clamp(min=0.0)
    return weights(scores, torch.exp(sink[:, None, None] - shift), shift)


def shifts_by_the_keys(scores, sink):
    shift = scores.amax(-1, keepdim=True)
    return weights(scores, torch.exp(sink[:, None, None] - shift), shift)


def a_sink_for_each_sample(scores, sink):
    first = sink.reshape(-1, *(1,) * (scores.dim() - 1))
    column = first.expand(*scores.shape[:-1], 1)
    both = torch.cat([scores, column], -1)
    powers = torch.exp(both - both.amax(-1, keepdim=True))
    return (powers / powers.sum(-1, keepdim=True))[..., :-1]


WRONG = {
    without_the_sink: "takes_weight",
    always_one: "power_of_the_score",
    the_score_itself: "power_of_the_score",
    shifts_the_scores_alone: "one_shift",
    along_the_keys: "each_head_its_own",
    formula_as_it_stands: "large_scores",
    never_shifts_down: "all_far_below_zero",
    shifts_by_the_keys: "nothing_allowed",
    a_sink_for_each_sample: "batch",
}
