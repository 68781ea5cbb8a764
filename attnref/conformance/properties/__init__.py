"""The properties, a file an idea; each registers itself, and this lists them in their order."""

import importlib

from attnref.conformance.property import REGISTRY, Property

# In the order in which they are asked and told: what spoils others comes before them.
_IDEAS = (
    *("shapes", "steps", "weights", "scaling", "symmetries", "masks", "causal", "windows"),
    *(
        "sinks",
        "key_lengths",
        "distances",
        "forbidden",
        "numerics",
        "half",
        "softcap",
        "together",
        "heads",
        "dropout",
        "backward",
    ),
    *("scales", "gates", "absorbed", "branches", "hygiene", "lengths"),
)
for _idea in _IDEAS:
    importlib.import_module(f"{__name__}.{_idea}")


def _asked_of(kind: str) -> dict[str, Property]:
    found = [each for each in REGISTRY.values() if kind in each.asked_of]
    # Whichever of the files was loaded first, for another.
    found.sort(key=lambda each: _IDEAS.index(each.test.__module__.rpartition(".")[2]))
    return {each.name: each for each in found}


PROPERTIES = _asked_of("function")
"""Every property of a function by its name, in the order in which they are asked."""

STEP_PROPERTIES = _asked_of("step")
"""What a decoding step with a cache is asked for, by name and in order."""
