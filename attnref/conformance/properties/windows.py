"""Under a window a query sees the keys near to it; how many can be counted in two ways."""

import torch
from torch import Tensor

from attnref.conformance.case import Case, Sizes
from attnref.conformance.properties.causal import all_equal, seen_keys, strange_row
from attnref.conformance.property import rule
from attnref.conformance.trial import Trial
from attnref.conformance.verdict import Finding, Verdict
from attnref.text import Text

BESIDES = Text(
    en="window={window} counts the keys besides its own: a query sees {window} + 1 keys.",
    pt="window={window} conta as chaves além da própria: uma consulta vê {window} + 1 chaves.",
)
EACH_SIDE = Text(
    en="window={window} counts the keys on either side of its own: a query sees "
    "2 · {window} + 1 keys.",
    pt="window={window} conta as chaves de cada lado da própria: uma consulta vê "
    "2 · {window} + 1 chaves.",
)
IGNORED = Text(
    en="window={window} is accepted but ignored: query {i} sees the keys {keys}.",
    pt="window={window} é aceito mas ignorado: a consulta {i} vê as chaves {keys}.",
)
OTHER = Text(
    en="With window={window} query {i} sees the keys {keys}, expected {window} keys of which its "
    "own is the last, or the middle one.",
    pt="Com window={window}, a consulta {i} vê as chaves {keys}, mas deveria ver {window} chaves, "
    "das quais a própria é a última, ou a do meio.",
)
CAUSAL = Text(
    en="With window={window} and is_causal query {i} sees the keys {keys}: it must see those that "
    "both allow.",
    pt="Com window={window} e is_causal, a consulta {i} vê as chaves {keys}: ela deve ver as que "
    "os dois permitem.",
)


def ways_to_count(n: int, width: int) -> tuple[Tensor, ...]:
    """What a window lets be seen, ``(n, n)``: its own key is the last, or the middle one of them.

    Or the count is of those besides its own, or of those on each side.
    """
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return (
        (j <= i) & (j > i - width),
        (j - i).abs() <= width // 2,
        (j <= i) & (j >= i - width),
        (j - i).abs() <= width,
    )


@rule(
    statement=Text(
        en="A window counts the keys that a query sees, its own included.",
        pt="Uma janela conta as chaves que uma consulta vê, incluída a própria.",
    ),
    formula=r"i - W < j \le i",
    page="foundations/masks",
    sizes=Sizes(batch=1, heads=2, n=11),
    needs=("window",),
)
def window_width(trial: Trial, case: Case) -> Finding | None:
    n = case.query.shape[-2]
    width = 3  # odd, for those that put its own key in the middle
    if n <= width:
        return None  # then nothing is out of reach
    weights = trial.weights(case.query, case.key, window=width)
    seen = seen_keys(weights)
    last, middle, *others = ways_to_count(n, width)
    i, j = torch.arange(n)[:, None], torch.arange(n)
    ways: dict[Text | None, Tensor] = {
        None: middle if all_equal(seen, middle) else last,
        **dict(zip((BESIDES, EACH_SIDE), others, strict=True)),
    }
    text = next((text for text, way in ways.items() if all_equal(seen, way)), OTHER)
    if text is OTHER:
        ignored = all_equal(seen, torch.ones(n, n, dtype=torch.bool))
        wrong = IGNORED if ignored or all_equal(seen, j <= i) else OTHER
        return strange_row(trial, weights, wrong, (last, middle), window=width)
    if trial.offers("is_causal"):
        both = trial.weights(case.query, case.key, window=width, is_causal=True)
        allowed = ways[text] & (j <= i)
        if not all_equal(seen_keys(both), allowed):
            return strange_row(trial, both, CAUSAL, (allowed,), window=width)
    return None if text is None else Finding(Verdict.CONVENTION, text, {"window": width})
