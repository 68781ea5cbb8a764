"""What goes wrong in linear_attention."""

from torch.nn.functional import elu


def features(x):
    return elu(x) + 1


def quotient(q, k, value, *, causal_sums=True, causal_normaliser=True):
    products = k[..., :, None] * value[..., None, :]
    sums = products.cumsum(-3) if causal_sums else products.sum(-3, keepdim=True)
    normaliser = k.cumsum(-2) if causal_normaliser else k.sum(-2, keepdim=True)
    above = (q[..., None, :] @ sums).squeeze(-2)
    return above / (q * normaliser).sum(-1, keepdim=True)


def no_division(query, key, value):
    return (features(query) @ features(key).mT).tril() @ value


def divides_by_the_whole_sum(query, key, value):
    return quotient(features(query), features(key), value, causal_normaliser=False)


def without_the_own_token(query, key, value):
    weights = (features(query) @ features(key).mT).tril(-1)
    return weights / weights.sum(-1, keepdim=True) @ value


def not_causal(query, key, value):
    q, k = features(query), features(key)
    return quotient(q, k, value, causal_sums=False, causal_normaliser=False)


def relu(query, key, value):
    return quotient(query.relu() + 1e-6, key.relu() + 1e-6, value)


def exponential(query, key, value):
    return quotient(query.exp(), key.exp(), value)


def keys_only(query, key, value):
    return quotient(query, features(key), value)


def a_masked_square(query, key, value):
    weights = (features(query) @ features(key).mT).tril()
    return weights / weights.sum(-1, keepdim=True) @ value


WRONG = {
    no_division: "average",
    divides_by_the_whole_sum: "average",
    without_the_own_token: "average",
    not_causal: "future",
    relu: "features",
    exponential: "features",
    keys_only: "features",
    a_masked_square: "never_a_square",
}
