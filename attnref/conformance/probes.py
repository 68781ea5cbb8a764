"""What one small call tells of an option: whether it obeys it, takes it, or ignores it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnref.conformance.case import Case, Sizes
from attnref.conformance.properties.causal import all_equal, seen_keys
from attnref.conformance.properties.masks import some_mask
from attnref.conformance.properties.scaling import effective_scale
from attnref.conformance.properties.windows import causality_of, ways_to_count
from attnref.conformance.trial import Raised, Stopped, Trial

NEAR = 1e-2  # of numbers of size 1; beyond, it is another function
VALUES: Mapping[str, Any] = {
    "is_causal": True,
    "scale": 0.3,
    "softcap": 0.5,
    "sink": lambda case: torch.linspace(-1.0, 1.0, case.query.shape[1], dtype=torch.float64),
    "key_lengths": lambda case: torch.arange(case.key.shape[0]) + case.key.shape[-2] // 2,
}
_OTHERS: Mapping[str, Any] = {"dropout_p": 0.5, "window": 2}


def value_of(option: str, case: Case) -> Any:
    """What an option is given to see whether it has an effect."""
    made = {**VALUES, **_OTHERS}[option]
    return made(case) if callable(made) else made


def ignores_order(trial: Trial, case: Case) -> bool:
    """Whether keys may be reordered with their values, which no other axis allows."""
    order = torch.arange(case.key.shape[-2]).roll(1)
    try:
        plain = trial.call(case.query, case.key, case.value)
        turned = trial.call(case.query, case.key[..., order, :], case.value[..., order, :])
    except (Raised, Stopped):
        return False
    return bool(((plain - turned).abs() <= NEAR * (1 + plain.abs())).all())


def is_softmax(trial: Trial, case: Case) -> bool:
    """Whether its weights are exponentials of the scores, with whatever factor."""
    with torch.no_grad():
        output = trial.call(case.query, case.key, case.value)
        # By PyTorch, and roughly: what errs a little is to be judged, and the oracle takes long.
        query, key, value = (trial.to_double(x) for x in (case.query, case.key, case.value))
        right = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=trial.subject.always_causal
        )
        return bool(((output - right).abs() <= NEAR).all()) or effective_scale(trial, case).good


def rightness(trial: Trial, case: Case) -> int:
    """2 if the output is the reference's, 1 if it is at the first position, 0 otherwise.

    In its own axes, even a wrong recurrence begins right.
    """
    inputs = (case.query, case.key, case.value)
    output, right = trial.call(*inputs), trial.truth(*inputs).output
    near = (output - right).abs() <= NEAR * (1 + right.abs())
    return 2 if near.all() else int(near[..., 0, :].all())


def obeys(trial: Trial, case: Case, option: str) -> bool:
    """Whether the option, by the name that is tried, does what PyTorch's does."""
    if option == "attn_mask":
        n, m = case.query.shape[-2], case.key.shape[-2]
        mask = some_mask(case, (n, m))
        if takes(trial, case, {"attn_mask": mask}):
            return _multiplies(trial, case, mask, attn_mask=mask)
        hidden = (torch.arange(m) != m // 2).expand(n, m)  # what a mask of keys can say, too
        return _multiplies(trial, case, hidden, attn_mask=hidden)
    if option == "dropout_p":
        return takes(trial, case, {option: 0.5}) and not ignores(trial, case, option)
    if option == "is_causal":
        seen = torch.ones(case.query.shape[-2], case.key.shape[-2], dtype=torch.bool).tril()
        return _multiplies(trial, case, seen, is_causal=True)
    if option == "window":
        return _counts(trial, case)
    if option == "key_lengths":
        lengths = value_of(option, case)
        within = (torch.arange(case.key.shape[-2]) < lengths[:, None])[:, None, None]
        return _multiplies(trial, case, within, key_lengths=lengths)
    return option in VALUES and trial.is_right(case, **{option: value_of(option, case)})


def _counts(trial: Trial, case: Case) -> bool:
    """Whether a window lets as many keys be seen as it says, in any way to count them."""
    width = 3
    try:
        seen = seen_keys(trial.weights(case.query, case.key, window=width))
    except (Raised, Stopped):
        return False
    n = case.query.shape[-2]
    causal = trial.visible_pairs(case)
    counts = any(all_equal(seen, way & causal) for way in ways_to_count(n, width))
    return counts or bool(causality_of(trial, seen, width))


def _shares(trial: Trial) -> bool:
    """Whether two heads of keys serve four; a single one may be broadcast by accident."""
    case = Case.draw(Sizes(heads=4, key_heads=2), 0)
    return takes(trial, case, {"enable_gqa": True})


def takes(trial: Trial, case: Case, options: dict[str, Any]) -> bool:
    """Whether it answers with these options."""
    try:
        trial.call(case.query, case.key, case.value, **options)
    except (Raised, Stopped):
        return False
    return True


def _multiplies(trial: Trial, case: Case, seen: Tensor, **options: Any) -> bool:
    """Whether an option leaves, of the function's own weights, those of what is ``seen``."""
    try:
        output = trial.call(case.query, case.key, case.value, **options)
    except (Raised, Stopped):
        return False
    expected = trial.predict(case.query, case.key, case.value, seen.double())
    return bool(((output - expected).abs() <= NEAR).all())


def ignores(trial: Trial, case: Case, option: str) -> bool:
    """Whether it has no effect at all, so that it is asked, and the properties say so."""
    if option == "enable_gqa":
        return not _shares(trial)
    mask = some_mask(case, (case.query.shape[-2], case.key.shape[-2]))
    value = mask if option == "attn_mask" else value_of(option, case)
    try:
        output = trial.call(case.query, case.key, case.value, **{option: value})
    except (Raised, Stopped):
        return False
    return torch.equal(output, trial.call(case.query, case.key, case.value))
