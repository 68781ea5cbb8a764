"""What was seen of a model's attention: by call site, with what is suspicious about it."""

import contextlib
import itertools
import re
import textwrap
import weakref
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from attnref.watching.births import Births
from attnref.watching.call import Call
from attnref.watching.findings import (
    BEHIND,
    DIFFERENT,
    NOT_FINITE,
    Finding,
    Level,
    judge,
)
from attnref.watching.live import Live
from attnref.watching.masks import NOT_READ, Mask, recognise
from attnref.watching.patches import compiled_modules, recording
from attnref.watching.places import attends
from attnref.watching.recorder import Listener
from attnref.watching.sites import Site, Way
from attnref.watching.statistics import Statistics, measure

__all__ = ["watch"]

_WAYS = 16  # in which one place may call, that are told apart
_KEPT = 2**22  # bytes of weights that are kept of one place
_MODULES = 4096  # whose outputs are looked at together
_SAID = 120  # letters of an error


class Seen(Listener):
    """What was seen; a context manager, and afterwards its record.

    Args:
        model: the model whose calls count; None counts all of this thread.
        judged: whether calls are judged, and their weights looked at, in sampled rows.
        rows: how many rows of a call are looked at, at most.
        live: whether the table is shown while the model runs.

    Attributes:
        sites: the places that called, in the order of their first calls.
        unseen: modules named like attention that ran and made no call that was seen.
        compiled_modules: those that ``torch.compile`` made, of which only kernels are seen.
        missed: how often something could not be looked at, by place and error.

    Examples:
        >>> x = torch.ones(1, 2, 3, 8)
        >>> with Seen() as seen:
        ...     _ = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        >>> len(seen.sites), seen.passed()
        (1, True)
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        *,
        judged: bool = True,
        rows: int = 32,
        live: bool = False,
    ) -> None:
        if model is not None and not isinstance(model, nn.Module):
            raise TypeError(
                f"model: expected a torch.nn.Module, or None for all that runs, got "
                f"{type(model).__name__}."
            )
        if rows < 1:
            raise ValueError(f"rows: expected 1 or more rows to look at, got {rows}.")
        self._model = model  # until the block ends: its parameters are not ours to keep
        self.model_name = None if model is None else type(model).__name__
        self.judged = judged
        self.rows = rows
        self.sites: dict[tuple[str, str], Site] = {}
        self.compiled_modules: list[str] = []
        self._found: dict[tuple[object, ...], Finding] = {}
        self._attending: dict[str, str] = {}  # modules that ran, with their classes
        self._masks: list[tuple[weakref.ref[Any], tuple[object, ...], Mask]] = []
        self._starts = False  # whether the next module is one that no other one called
        self._roots: set[str] = set()
        self._open: dict[str, int] = {}
        self._bad = False  # whether NaN or inf was seen
        self._births = Births()
        self._hidden: dict[tuple[str, int, int], tuple[str, Tensor]] = {}
        self._context: Any = None
        self._live = Live(self) if live else None
        self._used = False
        self._innermost: nn.Module | None = None
        self.missed: dict[tuple[str, str], int] = {}

    def __enter__(self) -> "Seen":
        if self._context is not None:
            raise RuntimeError("This watch runs already. Make another one: attnref.watch(model).")
        if self._used:
            raise RuntimeError("This watch has ended. Make another one: attnref.watch(model).")
        self._used = True
        if self._model is not None:
            self.compiled_modules = compiled_modules(self._model)
        self._context = recording(self, self._model)
        self._context.__enter__()
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        context, self._context = self._context, None
        self._model = self._innermost = None
        context.__exit__(kind, error, trace)
        with torch.no_grad():
            self._look_for_nan()
        if self._live is not None:
            self._live.stop()

    # What the recorder tells.

    def _on_start(self) -> None:
        """A pass begins, perhaps with other padding."""
        self._hidden.clear()
        self._starts = True

    def _on_softmax(self, place: str, by: int) -> None:
        """Scores became weights, or weights met values."""
        self._open[place] = self._open.get(place, 0) + by

    def _on_end(self) -> None:
        """It ended."""
        self._look_for_nan()

    def _on_enter(self, module: nn.Module, name: str) -> None:
        """A module begins."""
        self._innermost = module
        if attends(module):
            self._attending.setdefault(name, type(module).__name__)
            if self._starts:
                self._roots.add(name)
        self._starts = False

    def _on_leave(self, module: nn.Module, name: str, inputs: Any, output: Any) -> None:
        """A module ended; the first that gives NaN is noted."""
        innermost, self._innermost = self._innermost, None
        if self.judged and not self._bad and innermost is module:
            self._births.add(name, type(module).__name__, inputs, output)
        if len(self._births) > _MODULES:
            self._look_for_nan()

    def _look_for_nan(self) -> None:
        """In what this pass gave so far: a GPU is waited for once, not after each module."""
        found = self._births.first()
        if found is not None and not self._bad:
            self._bad = True
            self._note(*found)

    def _on_call(self, call: Call) -> None:
        """A call of attention ended."""
        site = self.sites.setdefault((call.name, call.function), Site(call.name, call.function))
        _, h, n, m = call.sizes
        given = (call.mask.dtype, call.mask.dim()) if isinstance(call.mask, Tensor) else None
        way = (
            *(n == 1, n == m, call.dtype, str(call.device), call.kernel, call.is_causal),
            *(call.mask is None, given),
            *(h, call.shapes[1][1], call.shapes[0][-1], call.shapes[2][-1]),
            *(bool(call.dropout), call.training),
        )
        known = site.ways.get(way)
        call.grown = any(each.m[0] < m for each in site.ways.values())
        if known is None and len(site.ways) >= _WAYS:
            known = next(reversed(site.ways.values()))
        looked = known is None or (self.judged and _is_power(known.count + 1))
        if looked and self.judged and call.why is not None:
            call.reason = call.why()
        if known is None:
            known = site.ways[way] = Way(_without_tensors(call), Mask(NOT_READ, 1.0))
        known.add(call)
        if looked:
            known.call = _without_tensors(call)
            known.mask = self._mask(call)
        if looked and self.judged:
            self._judge(site, call, known.mask)
        if self._live is not None:
            self._live.update()

    def _mask(self, call: Call) -> Mask:
        """Its mask; one that layers share is looked at a single time."""
        source = call.mask if call.source is None else call.source
        version = 0
        if isinstance(source, Tensor):
            version = -1 if source.is_inference() else source._version
        key = (call.is_causal, call.sizes[2:], version)
        for known, about, mask in self._masks:
            if version >= 0 and source is not None and known() is source and about == key:
                return mask
        found = recognise(call)
        if source is not None:
            with contextlib.suppress(TypeError):  # what cannot be referred to weakly is not shared
                self._masks = [*self._masks[-3:], (weakref.ref(source), key, found)]
        return found

    def _judge(self, site: Site, call: Call, mask: Mask) -> None:
        measured = measure(call, self.rows)
        known = site.statistics
        if measured is not None and (known is None or len(measured.rows) >= len(known.rows)):
            site.statistics = measured.within(_KEPT)  # a prompt says more than a step
        if not self._bad:
            self._lay_beside_others(call, mask)
        for each in judge(call, mask, measured):
            if each.text in (NOT_FINITE, BEHIND):
                self._births.leave_out(lambda name: _holds(call.name, name))
                self._look_for_nan()
                if self._bad:  # it follows from what came before
                    continue
                self._bad = True
            self._note(each, call.name)

    def _note(self, found: Finding, name: str) -> None:
        key = (found.level, found.text.english)
        known = self._found.get(key)
        if known is None:
            self._found[key] = Finding(found.level, found.text, found.page, found.values, (name,))
        elif name not in known.names:
            names = (*known.names, name)
            self._found[key] = Finding(known.level, known.text, known.page, known.values, names)

    def _lay_beside_others(self, call: Call, mask: Mask) -> None:
        """Whether padding that one layer hides is seen in another."""
        b, _, n, m = call.sizes
        if not mask.padding:
            return
        hidden = torch.zeros(1, m, dtype=torch.bool) if mask.hidden is None else mask.hidden
        hidden = hidden.expand(b, -1) if len(hidden) == 1 else hidden
        if n != m or len(hidden) != b or mask.future:
            return
        place = (re.sub(r"\d+", "#", call.name), b, m)
        known = self._hidden.get(place)
        if known is None or known[0] == call.name:  # the same again: another pass
            self._hidden[place] = (call.name, hidden)
            return
        page = "foundations/batches-and-padding"
        for (name, ours), (other, theirs) in itertools.permutations(((call.name, hidden), known)):
            shown = theirs & ~ours
            if mask.alone is not None and name == call.name:
                shown = shown & ~mask.alone  # only a padded query sees it, itself
            if bool(shown.any()):
                sample = int(shown.any(-1).double().argmax())
                about = {"sample": sample, "count": int(shown[sample].sum()), "other": other}
                self._note(Finding(Level.UNSAFE, DIFFERENT, page, about), name)

    def _on_error(self, name: str, error: Exception) -> None:
        """Something there could not be looked at."""
        key = (name, textwrap.shorten(f"{type(error).__name__}: {error}", _SAID, placeholder="…"))
        self.missed[key] = self.missed.get(key, 0) + 1

    # What can be asked afterwards.

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is suspicious, the worst first."""
        return tuple(sorted(self._found.values(), key=lambda each: each.level))

    @property
    def unseen(self) -> dict[str, str]:
        """Modules named like attention that made no call, nor did one in them, by class."""
        called = [name for name, _ in self.sites]
        rest = {
            name: kind
            for name, kind in self._attending.items()
            if not any(name == each or _holds(each, name) or _holds(name, each) for each in called)
            if not (called and name in self._roots)
        }
        outer = {name for name in rest if not any(_holds(each, name) for each in rest)}
        return {name: kind for name, kind in rest.items() if name in outer}

    @property
    def unfinished(self) -> list[str]:
        """Places where a softmax of products was taken whose weights met no values."""
        return [name for name, count in self._open.items() if count > 0]

    def weights(self, site: str | int, head: int | None = None) -> Tensor:
        """The weights of a place's call, computed again in float64.

        Of the calls that were looked at it is the last of those with the most queries: after a
        generation, the prompt.

        Args:
            site: its name, or its number in the order of ``sites``.
            head: one of them; None gives all.

        Returns:
            ``(r, m)`` or ``(h, r, m)``, of the first sample, in the rows of :meth:`rows_of`.

        Raises:
            KeyError: for a place that made no call; it names those that did.
            IndexError: for a head that there is not.
        """
        found = self._statistics(site)
        if head is None:
            return found.weights
        if not -len(found.weights) <= head < len(found.weights):
            raise IndexError(f"head: expected 0 to {len(found.weights) - 1}, got {head}.")
        return found.weights[head]

    def rows_of(self, site: str | int) -> Tensor:
        """Which queries the rows of :meth:`weights` are."""
        return self._statistics(site).rows

    def _site(self, site: str | int) -> Site:
        sites = list(self.sites.values())
        if isinstance(site, int) and -len(sites) <= site < len(sites):
            return sites[site]
        named = [each for each in sites if each.name == site]
        if not named:
            names = ", ".join(each.name for each in sites) or "none was seen"
            raise KeyError(f"site: expected one of {names}, got {site!r}.")
        return named[-1]

    def _statistics(self, site: str | int) -> Statistics:
        found = self._site(site)
        if found.statistics is None:
            raise KeyError(f"site: {found.name} was not looked at. Watch with judged=True.")
        return found.statistics

    def passed(self, strict: bool = False) -> bool:
        """Whether nothing is wrong; with ``strict``, nothing unsafe either."""
        worst = Level.UNSAFE if strict else Level.WRONG
        return not any(each.level <= worst for each in self.findings)

    def text(self, lang: str = "en", *, times: bool = False) -> str:
        """The table, with how long the calls took if wanted, and what is suspicious."""
        from attnref.watching.table import text

        return text(self, lang, times=times)

    def figure(
        self, site: str | int | None = None, head: int | None = None, lang: str = "en"
    ) -> Any:
        """The weights as a figure of matplotlib, which a notebook shows.

        Args:
            site: a place, by name or number; None draws a small map of each head of each place,
                of sixteen places and eight heads at most, and of several places entropy and
                weight of the first key.
            head: one of them; None draws a map of each.
            lang: the language of its words.

        Returns:
            A ``matplotlib.figure.Figure``.

        Raises:
            KeyError, IndexError: as :meth:`weights`; KeyError also where nothing was looked at.
            ImportError: without matplotlib.
        """
        from attnref.watching.figures import all_maps, one_map

        if site is not None and head is not None:
            self.weights(site, head)
            return one_map(self._statistics(site), head, self._site(site).name, lang)
        chosen = None if site is None else self._site(site)
        looked = [
            (number, each.statistics)
            for number, each in enumerate(self.sites.values())
            if each.statistics is not None and chosen in (None, each)
        ]
        if not looked:
            raise KeyError("site: nothing was looked at. Watch calls, with judged=True.")
        return all_maps(looked, lang)

    def report(self, path: str | Path, lang: str = "en") -> Path:
        """Writes all that was seen as one HTML file, and returns where."""
        from attnref.watching.report import write

        return write(self, path, lang)

    def __str__(self) -> str:
        return self.text()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """In a notebook."""
        printer.text(str(self))


def _holds(name: str, other: str) -> bool:
    """Whether the other module lies in that one."""
    return other.startswith(f"{name}.") if name else bool(other)


def _is_power(count: int) -> bool:
    return count & (count - 1) == 0


def _without_tensors(call: Call) -> Call:
    """What was called, so that nothing is kept alive."""
    none: Any = dict.fromkeys(
        ("output", "after", "mask", "source", "sink", "scores", "weights", "why")
    )
    return replace(call, inputs=_gone, **none)


def _gone() -> Any:
    raise RuntimeError("The tensors of this call were let go.")


def watch(
    model: nn.Module | None = None, *, judged: bool = True, rows: int = 32, live: bool = False
) -> Seen:
    """What the attention of a running model does: a context manager around its calls.

    Nothing of the model is changed, and the same operators run. It sees PyTorch's functions of
    attention, its fused layers, FlexAttention, FlashAttention's and xFormers' functions, what
    models of Transformers call, and attention that is written out as a softmax between two
    products. Afterwards ``print(seen)`` shows a table and what is suspicious, the worst first.

    Args:
        model: whose calls count; None counts all that run in this thread.
        judged: whether calls are judged and their weights looked at. Each way in which a place
            calls is judged at its first call, the second, the fourth, the eighth, ….
        rows: how many queries of a call are looked at, at most.
        live: whether the table is shown while the model runs, which needs ``rich``.

    Returns:
        A context manager that becomes the record; it keeps no tensor of the model.

    Raises:
        TypeError: for what is no module.
        ValueError: for less than one row.
        ImportError: for ``live`` without ``rich``.

    Examples:
        >>> layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
        >>> x = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0))
        >>> with watch(layer) as seen:
        ...     _ = layer(x, x, x)
        >>> seen.weights(0).shape
        torch.Size([2, 5, 5])
    """
    return Seen(model, judged=judged, rows=rows, live=live)
