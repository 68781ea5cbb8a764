"""In which axes a function answers as attention does, and whether it is causal by itself."""

import itertools
from dataclasses import replace

import torch

from attnref.conformance.case import Case
from attnref.conformance.layouts import LAYOUTS, TURNED
from attnref.conformance.probes import ignores_order, is_softmax
from attnref.conformance.reading import Reading
from attnref.conformance.subject import CheckError, Subject
from attnref.conformance.trial import Raised, Stopped, Trial


def found_axes(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    """The layout, and whether it is causal by itself."""
    known = about.reading.layout  # by its signature
    if "packed" in (said.layout, known) and said.layout not in (None, known):
        expected = known or "cu_seqlens in its signature"
        refusal = CheckError(
            "layout: expected {expected} for {name}, got {layout!r}.",
            expected=expected,
            name=about.name,
            layout=said.layout,
        )
        raise Raised(refusal, about.name)
    if said.layout is None and known is not None:
        said = replace(said, layout=known)
    if said.layout is not None and said.causal is not None:
        Trial(said.apply(about), dtype, device).call(case.query, case.key, case.value)
        return said
    tried = [name for name, layout in LAYOUTS.items() if layout.tried]
    layouts = tried if said.layout is None else [said.layout]
    causal = (False, True) if said.causal is None else (said.causal,)
    refused: Raised | Stopped | None = None
    answering: list[str] = []
    of_four = False
    for layout, always in itertools.product(layouts, causal):
        # What takes four axes and mixes two of them up may be right where it gets fewer.
        if of_four and not LAYOUTS[layout].heads and said.layout is None:
            break
        turned = said.layout is None and layout == TURNED
        found = replace(said, layout=layout, causal=always, turned=turned)
        try:
            if is_softmax(Trial(found.apply(about), dtype, device), case):
                return _asked_not_to_be(about, found, case, dtype, device) if always else found
            answering.append(layout)
            of_four = of_four or LAYOUTS[layout].heads
        except (Raised, Stopped) as reason:
            refused = refused or reason
    if not answering and refused is not None:
        raise refused
    # Of the layouts with four axes alone: what mixes samples up may look right in fewer.
    for layout in (each for each in answering if LAYOUTS[each].heads):
        found = replace(said, layout=layout)
        if ignores_order(Trial(found.apply(about), dtype, device), case):
            return found
    # One that answers PyTorch's axes with another shape is asked so, and `shape` tells of it.
    return said if isinstance(refused, Stopped) else replace(said, layout=answering[0])


def _asked_not_to_be(
    about: Subject, causal: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    """Without causality, where that is only what it does when nobody says otherwise."""
    own = "is_causal" if "is_causal" in about.supports else about.overlooked.get("is_causal")
    if own is None or own in about.swallowed:
        return causal
    tried = replace(causal, causal=False, switch=own)
    trial = Trial(tried.apply(about), dtype, device)
    plain = Trial(causal.apply(about), dtype, device)
    try:
        same = torch.equal(*(x.call(case.query, case.key, case.value) for x in (trial, plain)))
    except (Raised, Stopped):
        return causal
    return causal if same else tried
