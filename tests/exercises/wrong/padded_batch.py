"""What goes wrong in padded_batch."""

import torch


def attention(inputs, forbidden):
    scores = inputs @ inputs.mT / inputs.shape[-1] ** 0.5
    return torch.softmax(scores.masked_fill(forbidden, -torch.inf), -1) @ inputs


def padding(inputs, lengths):
    return torch.arange(inputs.shape[1]) >= lengths[:, None]


def one_long_sentence(inputs, lengths):
    joined = inputs.flatten(0, 1)
    output = attention(joined, padding(inputs, lengths).flatten()[None])
    return output.reshape(inputs.shape).masked_fill(padding(inputs, lengths)[..., None], 0.0)


def attends_across_the_batch(inputs, lengths):
    output = attention(inputs.transpose(0, 1), padding(inputs, lengths).T[:, None])
    output = output.transpose(0, 1)
    return output.masked_fill(padding(inputs, lengths)[..., None], 0.0)


def answers_the_padding(inputs, lengths):
    return attention(inputs, padding(inputs, lengths)[:, None])


def forbids_queries(inputs, lengths):
    return attention(inputs, padding(inputs, lengths)[..., None])


def sees_the_padding(inputs, lengths):
    output = attention(inputs, torch.tensor(False))
    return output.masked_fill(padding(inputs, lengths)[..., None], 0.0)


def forbids_queries_and_empties_them(inputs, lengths):
    output = attention(inputs, padding(inputs, lengths)[..., None])
    return output.masked_fill(padding(inputs, lengths)[..., None], 0.0)


def the_longest_for_all(inputs, lengths):
    output = attention(inputs, padding(inputs, lengths.max()[None])[:, None])
    return output.masked_fill(padding(inputs, lengths)[..., None], 0.0)


WRONG = {
    one_long_sentence: "samples_apart",
    attends_across_the_batch: "samples_apart",
    answers_the_padding: "padding_gives_zeros",
    forbids_queries: "padding_gives_zeros",
    sees_the_padding: "padding_is_unseen",
    forbids_queries_and_empties_them: "padding_is_unseen",
    the_longest_for_all: "own_length",
}
