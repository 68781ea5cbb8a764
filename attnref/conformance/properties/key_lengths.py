"""How many keys of each sample count, and where its queries are among them."""

import torch

from attnref.conformance.case import Case, Sizes
from attnref.conformance.comparison import miss
from attnref.conformance.property import OF_MASKS, rule
from attnref.conformance.trial import Raised, Trial
from attnref.conformance.verdict import Finding
from attnref.text import Text

BEYOND = Text(
    "With {name} = {lengths} sample {sample} sees keys beyond its length: the output at {index} "
    "is {got:.6g}, expected {expected:.6g}."
)
FIRST = Text(
    "With {name} = {lengths} and is_causal query i sees the keys j <= i, as if the queries were "
    "the first of the keys. They are the last {n}: j <= i + length - n, for each sample."
)
OTHER = Text(
    "With {name} = {lengths} and is_causal the output at {index} is {got:.6g}, expected "
    "{expected:.6g}, where query i of a sample sees the keys j <= i + length - n."
)


@rule(
    statement=Text(
        "Keys beyond a sample's length do not count, and its queries are the last of those within."
    ),
    formula=r"p_{bij} > 0 \implies j < L_b, \quad \text{causal: } j \le i + L_b - n",
    page="foundations/kv-cache",
    sizes=Sizes(n=3, m=9, keep=("n", "m")),
    needs=("key_lengths",),
    asked_of=("function",),
    may_crash=True,
    follows=OF_MASKS,
)
def lengths_of_keys(trial: Trial, case: Case) -> Finding | None:
    b, _, n = case.query.shape[:3]
    m = case.key.shape[-2]
    inputs = (case.query, case.key, case.value)
    lengths = m - 2 * torch.arange(b) % max(1, m - n)
    name = trial.subject.reading.names.get("key_lengths", "key_lengths")
    values = {"name": name, "lengths": lengths.tolist(), "n": n}
    key = torch.arange(m)
    within = (key < lengths[:, None])[:, None, None]
    query = torch.arange(n)[:, None]
    last = (key <= query + (lengths - n)[:, None, None])[:, None] & within
    always = trial.subject.always_causal
    right = trial.truth(*inputs, attn_mask=last if always else within, is_causal=False)
    output = trial.call(*inputs, key_lengths=lengths)
    found = miss(output, right.output, right.allowance)
    if found is not None:
        return trial.failure(
            BEYOND, right.output, sample=found.place[0], **values, **found.values()
        )
    if always or not trial.offers("is_causal"):
        return None
    try:
        output = trial.call(*inputs, key_lengths=lengths, is_causal=True)
    except Raised:
        return None  # a refusal is no silence
    right = trial.truth(*inputs, attn_mask=last)
    found = miss(output, right.output, right.allowance)
    if found is None:
        return None
    first = trial.truth(*inputs, attn_mask=(key <= query) & within)
    text = FIRST if miss(output, first.output, first.allowance) is None else OTHER
    return trial.failure(text, right.output, **values, **found.values())
