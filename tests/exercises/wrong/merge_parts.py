"""What goes wrong in merge_parts."""

import torch


def merged(output_1, output_2, share_1, lse):
    return share_1[..., None] * output_1 + (1 - share_1[..., None]) * output_2, lse


def adds_the_outputs(output_1, lse_1, output_2, lse_2):
    return output_1 + output_2, torch.logaddexp(lse_1, lse_2)


def adds_the_logarithms(output_1, lse_1, output_2, lse_2):
    return merged(output_1, output_2, torch.sigmoid(lse_1 - lse_2), lse_1 + lse_2)


def plain_mean(output_1, lse_1, output_2, lse_2):
    return (output_1 + output_2) / 2, torch.logaddexp(lse_1, lse_2)


def turned_round(output_1, lse_1, output_2, lse_2):
    share = torch.sigmoid(lse_2 - lse_1)
    return merged(output_1, output_2, share, torch.logaddexp(lse_1, lse_2))


def along_the_components(output_1, lse_1, output_2, lse_2):
    share = torch.sigmoid(lse_1 - lse_2)
    return share * output_1 + (1 - share) * output_2, torch.logaddexp(lse_1, lse_2)


def powers_as_they_are(output_1, lse_1, output_2, lse_2):
    total = lse_1.exp() + lse_2.exp()
    share = torch.where(total > 0, lse_1.exp() / total, 0.0)
    return merged(output_1, output_2, share, total.log())


def nan_without_keys(output_1, lse_1, output_2, lse_2):
    lse = torch.logaddexp(lse_1, lse_2)
    return merged(output_1, output_2, torch.exp(lse_1 - lse), lse)


WRONG = {
    adds_the_outputs: "equal_parts",
    adds_the_logarithms: "equal_parts",
    plain_mean: "unequal_parts",
    turned_round: "unequal_parts",
    along_the_components: "own_share",
    powers_as_they_are: "large_scores",
    nan_without_keys: "empty_parts",
}
