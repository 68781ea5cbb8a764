"""The properties, a file an idea; each registers itself, and this lists them in their order."""

from attnref.conformance.properties import (
    absorbed,
    backward,
    borders,
    branches,
    causal,
    distances,
    dropout,
    forbidden,
    gates,
    half,
    heads,
    hygiene,
    key_lengths,
    lengths,
    masks,
    numerics,
    scales,
    scaling,
    shapes,
    sinks,
    softcap,
    steps,
    symmetries,
    together,
    weights,
    windows,
)
from attnref.conformance.property import REGISTRY, Property

# In the order in which they are asked and told: what spoils others comes before them.
_IDEAS = (
    shapes,
    borders,
    steps,
    weights,
    scaling,
    symmetries,
    masks,
    causal,
    windows,
    sinks,
    key_lengths,
    distances,
    forbidden,
    numerics,
    half,
    softcap,
    together,
    heads,
    dropout,
    backward,
    scales,
    gates,
    absorbed,
    branches,
    hygiene,
    lengths,
)


def _asked_of(kind: str) -> dict[str, Property]:
    found = [each for each in REGISTRY.values() if kind in each.asked_of]
    # Whichever of the files was loaded first, for another.
    files = [idea.__name__ for idea in _IDEAS]
    found.sort(key=lambda each: files.index(each.test.__module__))
    return {each.name: each for each in found}


PROPERTIES = _asked_of("function")
"""Every property of a function by its name, in the order in which they are asked."""

STEP_PROPERTIES = _asked_of("step")
"""What a decoding step with a cache is asked for, by name and in order."""
