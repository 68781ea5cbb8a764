"""How a function is read: what it calls its options, how its axes lie, what it cannot switch off.

Each reading is tried on one small call, and counts when the answer is the formula's, up to rounding
or up to the factor of the scores. So a wrong function is never read as a right one of another kind.
What is not recognised stays as PyTorch has it, and all of it can be said instead.
"""

import functools
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnref.conformance import libraries
from attnref.conformance.case import Case, Sizes
from attnref.conformance.libraries import LIBRARIES
from attnref.conformance.properties.masks import some_mask
from attnref.conformance.properties.scaling import effective_scale
from attnref.conformance.subject import CheckError, Fits, Subject, renamed
from attnref.conformance.text import Text
from attnref.conformance.trial import CannotSay, Raised, Stopped, Trial

LAYOUT = Text(en="axes {layout}", pt="eixos {layout}")
NAME = Text(en="{parameter} is {option}", pt="{parameter} é {option}")
MEANS = Text(en="{parameter} is {option}, {meaning}", pt="{parameter} é {option}, {meaning}")
OF_FORM = Text(
    en="{parameter} is {option}, {meaning}, {form}", pt="{parameter} é {option}, {meaning}, {form}"
)
SHARES = Text(
    en="fewer key heads are shared without a flag",
    pt="menos cabeças de chaves são divididas sem pedir",
)
CAUSAL = Text(en="always causal", pt="sempre causal")
SIZED = Text(
    en="lengths that are multiples of {step}, vectors of {width}",
    pt="comprimentos múltiplos de {step}, vetores de {width}",
)
IN_HALF = Text(en="{dtype}, for it takes no float32", pt="{dtype}, pois não aceita float32")
COMPILED = Text(
    en="compiled again for other shapes, and given {times} times the limit",
    pt="recompilada para outras formas, e com {times} vezes o limite",
)
ROUGHLY = Text(en="approximate", pt="aproximada")
ARRAYS = Text(en="arrays of {library}", pt="vetores de {library}")

_SIZES = Sizes()
# What kernels are made for, where they are not made for all: a length's factor, and a width. The
# widths whose root is exact come first.
_FITS = tuple(Fits(step, width) for width in (64, 16, 128, 32) for step in (16, 64, 128))
_NEAR = 1e-2  # of numbers of size 1; beyond, it is another function
# It may be an approximation of attention, or something else altogether.
_OTHER_ATTENTION = (
    " It does answer lengths that are multiples of {step} and vectors of {width} numbers, but not "
    "with averages by exponentials of the scores. If it is an approximation: --approximate."
)
COMPILING = 12  # times the limit, for what compiles in between


class Layout(NamedTuple):
    """Where query, key and value have their axes; ``call`` asks a function of that layout."""

    axes: str
    call: Callable[..., Any]


def _mapped(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The first of what was returned, changed; the rest as it is."""
    if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
        return (change(output[0]), *output[1:])
    return change(output) if isinstance(output, Tensor) else output


def _usual(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    return function(*tensors, **options)


def _heads_third(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    output = function(*(x.transpose(1, 2) for x in tensors), **options)
    return _mapped(output, lambda x: x.transpose(1, 2) if x.ndim == 4 else x)


def _heads_in_batch(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    query, key, _ = tensors
    mask = options.get("attn_mask")
    if mask is not None and mask.ndim > 2:
        full = mask.expand(*query.shape[:2], query.shape[-2], key.shape[-2])
        options["attn_mask"] = full.flatten(0, 1)
    output = function(*(x.flatten(0, 1) for x in tensors), **options)
    return _mapped(
        output, lambda x: x.reshape(*query.shape[:2], *x.shape[1:]) if x.ndim == 3 else x
    )


def _length_first(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    def turned(*inputs: Tensor, **others: Any) -> Any:
        output = function(*(x.transpose(0, 1) for x in inputs), **others)
        return _mapped(output, lambda x: x.transpose(0, 1) if x.ndim == 3 else x)

    return _heads_in_batch(turned, *tensors, **options)


def _matrices(function: Callable[..., Any], *tensors: Tensor, **options: Any) -> Any:
    query, key, value = tensors
    mask, outputs = options.pop("attn_mask", None), []
    for sample, head in itertools.product(*map(range, query.shape[:2])):
        if mask is not None:
            full = mask.expand(*query.shape[:2], query.shape[-2], key.shape[-2])
            options["attn_mask"] = full[sample, head]
        found = function(query[sample, head], key[sample, head], value[sample, head], **options)
        outputs.append(found[0] if isinstance(found, tuple | list) else found)
    if not outputs:
        return query.new_zeros(*query.shape[:-1], value.shape[-1])
    return torch.stack(outputs).reshape(*query.shape[:2], *outputs[0].shape)


LAYOUTS: Mapping[str, Layout] = {
    "bhnd": Layout("(b, h, n, d)", _usual),
    "bnhd": Layout("(b, n, h, d)", _heads_third),
    "bnd": Layout("(b·h, n, d)", _heads_in_batch),
    "nbd": Layout("(n, b·h, d)", _length_first),
    "nd": Layout("(n, d)", _matrices),
}
"""By their names, in the order in which they are tried."""


def _whole(mask: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return mask.expand(sizes)


def _of_samples(mask: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return _same_along(mask.expand(sizes), 1)[:, 0]


def _of_keys(mask: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return _same_along(_same_along(mask.expand(sizes), 1), 2)[:, :1, :1]


def _of_keys_alone(mask: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return _of_keys(mask, sizes)[:, 0, 0]


HEADS = Text(en="all heads", pt="todas as cabeças")
QUERIES = Text(en="all queries", pt="todas as consultas")
BOOLS = Text(en="each number to add", pt="todo número a somar")


def _same_along(mask: Tensor, axis: int) -> Tensor:
    if not bool((mask == mask.narrow(axis, 0, min(1, mask.shape[axis]))).all()):
        raise CannotSay(HEADS if axis == 1 else QUERIES)
    return mask


FORMS: Mapping[str, Callable[[Tensor, tuple[int, ...]], Tensor]] = {
    "(n, m)": lambda mask, sizes: mask,
    "(b, h, n, m)": _whole,
    "(b, n, m)": _of_samples,
    "(b, 1, 1, m)": _of_keys,
    "(b, m)": _of_keys_alone,
}
"""The shapes of masks that a function may insist on, in the order in which they are tried."""


_FEWER = ("bnd", "nbd", "nd")
# The axes along which such masks are one.
_SAME = {"(b, n, m)": (-3,), "(b, 1, 1, m)": (-3, -2), "(b, m)": (-3, -2)}


class Meaning(NamedTuple):
    """What a mask says, and how PyTorch's is turned into one."""

    said: Text
    turned: Callable[[Tensor], Tensor]


def _yes_or_no(mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise CannotSay(BOOLS)
    return mask


def _to_add(mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=torch.float32).masked_fill(~mask, -torch.inf)


MEANINGS: Mapping[str, Meaning] = {
    "allowed": Meaning(Text(en="True = may attend", pt="True = pode olhar"), lambda mask: mask),
    "forbidden": Meaning(
        Text(en="True = forbidden", pt="True = proibido"), lambda mask: ~_yes_or_no(mask)
    ),
    "ones": Meaning(
        Text(en="1 = may attend, 0 = forbidden", pt="1 = pode olhar, 0 = proibido"),
        lambda mask: _yes_or_no(mask).float(),
    ),
    "added": Meaning(Text(en="added to the scores", pt="somada aos escores"), _to_add),
}
"""By their names, in the order in which they are tried."""


@dataclass(frozen=True)
class Reading:
    """What was recognised of a function, or said of it; None where nothing was.

    ``names`` are the function's own for options; ``causal`` says that it cannot be asked without
    causality; ``ignored`` are options that it swallows and does not know, ``library`` is the one
    whose arrays it takes and answers with, if that is not PyTorch. ``fits`` are the only sizes that
    it takes, ``dtype`` is the only one, where it takes no float32, and what ``compiles`` for each
    shape is given more time. ``switch`` is what it is told not to be causal by, where it is unless
    told, and what ``shares`` takes fewer heads of keys without being told. ``complete`` leaves
    nothing to recognise.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    layout: str | None = None
    means: str | None = None
    form: str | None = None
    causal: bool | None = None
    ignored: tuple[str, ...] = ()
    library: str | None = None
    fits: Fits | None = None
    dtype: str | None = None
    compiles: bool = False
    switch: str | None = None
    shares: bool = False
    approximate: bool = False
    complete: bool = False

    def lines(self) -> list[tuple[Text, dict[str, object]]]:
        """What is not as PyTorch has it, in words and what fills their places."""
        lines: list[tuple[Text, dict[str, object]]] = []
        if self.layout not in (None, "bhnd"):
            lines.append((LAYOUT, {"layout": LAYOUTS[str(self.layout)].axes}))
        named = dict(self.names)
        if self.means is not None:
            named.setdefault("attn_mask", "attn_mask")
        for option, parameter in named.items():
            about: dict[str, object] = {"option": option, "parameter": parameter}
            if option == "attn_mask" and self.means is not None:
                about["meaning"] = MEANINGS[self.means].said
                usual = self.form in (None, "(n, m)")
                lines.append((MEANS if usual else OF_FORM, {**about, "form": self.form}))
            else:
                lines.append((NAME, about))
        lines += [(CAUSAL, {})] if self.causal else []
        lines += [(SHARES, {})] if self.shares else []
        lines += [(ROUGHLY, {})] if self.approximate else []
        lines += [(SIZED, self.fits._asdict())] if self.fits else []
        lines += [(IN_HALF, {"dtype": self.dtype})] if self.dtype else []
        if self.library:
            lines.append((ARRAYS, {"library": LIBRARIES[self.library].name}))
        return [*lines, (COMPILED, {"times": COMPILING})] if self.compiles else lines

    def of(self, about: Subject) -> Subject:
        """The function as it is asked: with PyTorch's names, axes and masks."""
        overlooked = {
            option: name for option, name in about.overlooked.items() if option not in self.names
        }
        supports = [name for name in about.supports if name not in self.ignored]
        supports += self.names
        supports += ["is_causal"] if self.causal else []
        supports += ["enable_gqa"] if self.shares else []
        means = self.means or "allowed"
        mask = functools.partial(
            _mask, turned=MEANINGS[means].turned, shaped=FORMS[self.form or "(n, m)"]
        )
        drops = ["is_causal"] if self.causal and "is_causal" not in about.supports else []
        layout = LAYOUTS[self.layout or "bhnd"]
        if layout.call not in (_usual, _heads_third):  # heads that share keys have no axis there
            supports = [option for option in supports if option != "enable_gqa"]
        asked = functools.partial(
            _asked,
            function=renamed(about.function, self.names),
            layout=layout,
            mask=mask,
            drops=(*drops, *(["enable_gqa"] if self.shares else [])),
            library=self.library,
            switch=self.switch,
        )
        plain = not (
            self.names or self.means or self.causal or self.library or self.switch or self.shares
        )
        plain = plain and layout.call is _usual
        return replace(
            about,
            function=about.function if plain else _wrapping(asked, about.function),
            supports=tuple(dict.fromkeys(supports)),
            overlooked=overlooked,
            always_causal=bool(self.causal),
            fits=self.fits,
            approximate=self.approximate,
            names=self.names,
            mask_means=means,
            mask=mask,
            same_along=_SAME.get(self.form or "", ()),
        )


def _mask(
    mask: Tensor,
    query: Tensor,
    key: Tensor,
    *,
    turned: Callable[[Tensor], Tensor],
    shaped: Callable[[Tensor, tuple[int, ...]], Tensor],
) -> Tensor:
    """The mask that the function gets for one of PyTorch's."""
    mask = turned(shaped(mask, (*query.shape[:-1], key.shape[-2])))
    # Numbers in place of yes and no come in the dtype of the scores that they are added to.
    return mask.to(query.dtype) if mask.is_floating_point() else mask


def _asked(
    *tensors: Tensor,
    function: Callable[..., Any],
    layout: Layout,
    mask: Callable[[Tensor, Tensor, Tensor], Tensor],
    drops: tuple[str, ...],
    library: str | None,
    switch: str | None,
    **options: Any,
) -> Any:
    if switch is not None and "is_causal" not in options:
        options[switch] = False
    if library:
        function = libraries.calling(library, function)
    if options.get("attn_mask") is not None:
        options["attn_mask"] = mask(options["attn_mask"], *tensors[:2])
    for option in drops:
        options.pop(option, None)
    return layout.call(function, *tensors, **options)


def _wrapping(asked: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def attention(*tensors: Tensor, **options: Any) -> Any:
        return asked(*tensors, **options)

    attention.__wrapped__ = function  # type: ignore[attr-defined]
    return attention


def check_reading(said: Reading) -> None:
    """What can be said of it without a function.

    Raises:
        CheckError: naming the setting, what was expected and what came.
    """
    for name, got, known in (
        ("layout", said.layout, LAYOUTS),
        ("mask_means", said.means, MEANINGS),
    ):
        if got is not None and got not in known:
            raise CheckError(f"{name}: expected one of {', '.join(known)}, got {got!r}.")


def read(about: Subject, said: Reading, dtype: torch.dtype, device: torch.device) -> Reading:
    """``said``, and what is recognised of the rest.

    Raises:
        Raised, Stopped: what the function does when it is asked in each way, the usual one first.
    """
    try:
        return _read(about, said, Case.draw(_SIZES, 0), dtype, device)
    except Raised as raised:
        usual = raised
    for fits in _FITS:
        case = Case.draw(_SIZES.fitted(*fits), 0)
        try:
            found = _read(about, replace(said, fits=fits), case, dtype, device)
            known = said.approximate or _explained(Trial(found.of(about), dtype, device), case)
        except Raised:
            continue
        if known:
            return found
        usual.hint = _OTHER_ATTENTION.format(**fits._asdict())
        break
    raise usual


def _read(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    said = reading = replace(said, library=_library(about, case, dtype, device))
    if said.layout is None or said.causal is None:
        reading = _form(about, said, case, dtype, device)
    else:
        Trial(reading.of(about), dtype, device).call(case.query, case.key, case.value)
    for option, parameter in about.overlooked.items():
        for tried in _named(reading, option, parameter):
            if _obeys(Trial(tried.of(about), dtype, device), case, option):
                reading = tried
                break
        else:
            if option not in ("attn_mask", *_VALUES):
                continue
            plain = replace(reading, names={**reading.names, option: parameter})
            if _ignores(Trial(plain.of(about), dtype, device), case, option):
                reading = plain
    if "attn_mask" in about.supports and reading.means is None:
        reading = _of_its_form(about, reading, case, dtype, device)
    if not reading.approximate and "enable_gqa" not in about.supports:
        reading = _of_shared_heads(about, reading, dtype, device)
    trial = Trial(reading.of(about), dtype, device)
    ignored = tuple(each for each in about.swallowed if _ignores(trial, case, each))
    compiles = not reading.approximate and _compiles(trial)
    return replace(reading, ignored=ignored, compiles=compiles, complete=True)


def _of_its_form(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    """The shape and kind that its attn_mask wants, where PyTorch's raises an error."""
    n, m = case.query.shape[-2], case.key.shape[-2]
    if _takes(Trial(said.of(about), dtype, device), case, {"attn_mask": some_mask(case, (n, m))}):
        return said  # `mask_polarity` tells what it does with it
    for means, form in itertools.product(("allowed", "ones", "added"), FORMS):
        tried = replace(said, means=means, form=form)
        if _obeys(Trial(tried.of(about), dtype, device), case, "attn_mask"):
            return tried
    return said


def _of_shared_heads(
    about: Subject, said: Reading, dtype: torch.dtype, device: torch.device
) -> Reading:
    """Whether heads share keys without a flag, in the usual order or in the other."""
    tried = replace(said, shares=True)
    trial = Trial(tried.of(about), dtype, device)
    case = Case.draw(trial.fitted(Sizes(heads=4, key_heads=2)), 0)
    if not trial.offers("enable_gqa") or not _takes(trial, case, {"enable_gqa": True}):
        return said
    output = trial.call(case.query, case.key, case.value, enable_gqa=True)
    for repeated in (
        [x.repeat_interleave(2, 1) for x in (case.key, case.value)],
        [x.repeat(1, 2, 1, 1) for x in (case.key, case.value)],
    ):
        if bool(((output - trial.call(case.query, *repeated)).abs() <= _NEAR).all()):
            return tried
    return said


def _compiles(trial: Trial) -> bool:
    """Whether a call in a new shape takes far longer than the same call again."""
    case = Case.draw(trial.fitted(Sizes(batch=3, heads=2, n=6)), 0)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        if not _takes(trial, case, {}):
            return False
        seconds.append(time.perf_counter() - start)
    return seconds[0] > max(0.2, 10 * seconds[1])


def _library(about: Subject, case: Case, dtype: torch.dtype, device: torch.device) -> str | None:
    """Whose arrays it answers with, or takes where it takes no tensors; None where PyTorch's."""
    output = _output(about, case, dtype, device)
    if output is not None:
        return libraries.of(output)
    for package in libraries.loaded():
        function = libraries.calling(package, about.function)
        if isinstance(_output(replace(about, function=function), case, dtype, device), Tensor):
            return package
    return None


def _output(about: Subject, case: Case, dtype: torch.dtype, device: torch.device) -> object:
    """Whatever it returns for tensors, None where it raises."""
    trial = Trial(about, dtype, device)
    given = [trial.given(x) for x in (case.query, case.key, case.value)]
    try:
        with torch.no_grad():
            output = trial.raw(*given)
    except Raised:
        return None
    return output[0] if isinstance(output, tuple | list) and output else output


def _form(
    about: Subject, said: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    """The layout, and whether it is causal by itself."""
    layouts = LAYOUTS if said.layout is None else [said.layout]
    causal = (False, True) if said.causal is None else (said.causal,)
    refused: Raised | Stopped | None = None
    answers = of_four = False
    for layout, always in itertools.product(layouts, causal):
        # What takes four axes and mixes two of them up may be right where it gets fewer.
        if of_four and layout in _FEWER and said.layout is None:
            break
        tried = replace(said, layout=layout, causal=always)
        try:
            if _explained(Trial(tried.of(about), dtype, device), case):
                return _asked_not_to_be(about, tried, case, dtype, device) if always else tried
            answers, of_four = True, of_four or layout not in _FEWER
        except (Raised, Stopped) as reason:
            refused = refused or reason
    if not answers and refused is not None:
        raise refused
    # Of the layouts with four axes alone: what mixes samples up may look right in fewer.
    for layout in (each for each in layouts if each not in _FEWER):
        tried = replace(said, layout=layout)
        if _ignores_order(Trial(tried.of(about), dtype, device), case):
            return tried
    return said


def _ignores_order(trial: Trial, case: Case) -> bool:
    """Whether keys may be reordered with their values, which no other axis allows."""
    order = torch.arange(case.key.shape[-2]).roll(1)
    try:
        plain = trial.call(case.query, case.key, case.value)
        turned = trial.call(case.query, case.key[..., order, :], case.value[..., order, :])
    except (Raised, Stopped):
        return False
    return bool(((plain - turned).abs() <= _NEAR * (1 + plain.abs())).all())


def _asked_not_to_be(
    about: Subject, causal: Reading, case: Case, dtype: torch.dtype, device: torch.device
) -> Reading:
    """Without causality, where that is only what it does when nobody says otherwise."""
    own = "is_causal" if "is_causal" in about.supports else about.overlooked.get("is_causal")
    if own is None or own in about.swallowed:
        return causal
    tried = replace(causal, causal=False, switch=own)
    trial = Trial(tried.of(about), dtype, device)
    plain = Trial(causal.of(about), dtype, device)
    try:
        same = torch.equal(*(x.call(case.query, case.key, case.value) for x in (trial, plain)))
    except (Raised, Stopped):
        return causal
    return causal if same else tried


def _explained(trial: Trial, case: Case) -> bool:
    """Whether its weights are exponentials of the scores, with whatever factor."""
    with torch.no_grad():
        output = trial.call(case.query, case.key, case.value)
        # By PyTorch, and roughly: what errs a little is to be judged, and the oracle takes long.
        query, key, value = (trial.seen(x) for x in (case.query, case.key, case.value))
        right = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=trial.subject.always_causal
        )
        return bool(((output - right).abs() <= _NEAR).all()) or effective_scale(trial, case).good


def _named(reading: Reading, option: str, parameter: str) -> Iterator[Reading]:
    names = {**reading.names, option: parameter}
    if option != "attn_mask" or reading.means is not None:
        yield replace(reading, names=names)
    else:
        for means, form in itertools.product(MEANINGS, FORMS):
            yield replace(reading, names=names, means=means, form=form)


_VALUES: Mapping[str, Any] = {"is_causal": True, "scale": 0.3, "softcap": 0.5}
_OTHERS: Mapping[str, Any] = {"dropout_p": 0.5, "window": 2}


def _obeys(trial: Trial, case: Case, option: str) -> bool:
    """Whether the option, by the name that is tried, does what PyTorch's does."""
    if option == "attn_mask":
        n, m = case.query.shape[-2], case.key.shape[-2]
        mask = some_mask(case, (n, m))
        if _takes(trial, case, {"attn_mask": mask}):
            return _multiplies(trial, case, mask, attn_mask=mask)
        hidden = (torch.arange(m) != m // 2).expand(n, m)  # what a mask of keys can say, too
        return _multiplies(trial, case, hidden, attn_mask=hidden)
    if option == "dropout_p":
        return _takes(trial, case, {option: 0.5}) and not _ignores(trial, case, option)
    if option == "is_causal":
        seen = torch.ones(case.query.shape[-2], case.key.shape[-2], dtype=torch.bool).tril()
        return _multiplies(trial, case, seen, is_causal=True)
    return option in _VALUES and trial.is_right(case, **{option: _VALUES[option]})


def _shares(trial: Trial) -> bool:
    """Whether two heads of keys serve four; a single one may be broadcast by accident."""
    case = Case.draw(Sizes(heads=4, key_heads=2), 0)
    return _takes(trial, case, {"enable_gqa": True})


def _takes(trial: Trial, case: Case, options: dict[str, Any]) -> bool:
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
    expected = trial.predicted(case.query, case.key, case.value, seen.double())
    return bool(((output - expected).abs() <= _NEAR).all())


def _ignores(trial: Trial, case: Case, option: str) -> bool:
    """Whether it has no effect at all, so that it is asked, and the properties say so."""
    if option == "enable_gqa":
        return not _shares(trial)
    mask = some_mask(case, (case.query.shape[-2], case.key.shape[-2]))
    values = {**_VALUES, **_OTHERS, "attn_mask": mask}
    try:
        output = trial.call(case.query, case.key, case.value, **{option: values[option]})
    except (Raised, Stopped):
        return False
    return torch.equal(output, trial.call(case.query, case.key, case.value))
