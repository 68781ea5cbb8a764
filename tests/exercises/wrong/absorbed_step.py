"""What goes wrong in absorbed_step."""

import torch


def averages(query, latents, key_up, *, width=None, dim=-1):
    moved = torch.einsum("...hd,hdc->...hc", query, key_up)
    scores = moved @ latents.mT / (width or query.shape[-1]) ** 0.5
    return torch.softmax(scores, dim) @ latents


def read(average, value_up):
    return torch.einsum("...hc,hvc->...hv", average, value_up)


def of_latents_only(query, latents, key_up, value_up):
    return averages(query, latents, key_up)


def the_wrong_matrix(query, latents, key_up, value_up):
    return read(averages(query, latents, key_up), key_up)


def one_matrix_for_all(query, latents, key_up, value_up):
    return read(averages(query, latents, key_up[:1].expand_as(key_up)), value_up)


def over_the_heads(query, latents, key_up, value_up):
    if len(key_up) == 1:
        return read(averages(query, latents, key_up), value_up)
    return read(averages(query, latents, key_up, dim=-2), value_up)


def scale_of_the_latents(query, latents, key_up, value_up):
    return read(averages(query, latents, key_up, width=latents.shape[-1]), value_up)


def no_scale(query, latents, key_up, value_up):
    return read(averages(query, latents, key_up, width=1), value_up)


def without_a_batch(query, latents, key_up, value_up):
    moved = torch.stack([query[h] @ key_up[h] for h in range(len(key_up))])
    scores = moved @ latents.T / query.shape[-1] ** 0.5
    return read(torch.softmax(scores, -1) @ latents, value_up)


def makes_the_keys(query, latents, key_up, value_up):
    key, value = (latents[..., None, :, :] @ up.mT for up in (key_up, value_up))
    scores = query[..., None, :] @ key.mT / query.shape[-1] ** 0.5
    return (torch.softmax(scores, -1) @ value)[..., 0, :]


WRONG = {
    of_latents_only: "reads_the_values",
    the_wrong_matrix: "reads_the_values",
    one_matrix_for_all: "each_head_its_own",
    over_the_heads: "each_head_its_own",
    scale_of_the_latents: "scale",
    no_scale: "scale",
    without_a_batch: "batch: IndexError",
    makes_the_keys: "makes_no_keys",
}
