"""What goes wrong in dot_scores."""

import torch


def keeps_the_products(query, key):
    return key * query


def adds_along_the_keys(query, key):
    return (key * query).sum(0)


def absolute_value(query, key):
    return (key @ query).abs()


def cosine(query, key):
    return torch.cosine_similarity(key, query, dim=-1)


WRONG = {
    keeps_the_products: "one_score_a_key: shape",
    adds_along_the_keys: "one_score_a_key: shape",
    absolute_value: "sign",
    cosine: "length",
}
