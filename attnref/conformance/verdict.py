"""What can be said of a function and a property, and what a property hands back."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from attnref.text import Text

SHARED = Text("PyTorch's own function does so too.")


class Verdict(Enum):
    """The six answers.

    ``WRONG`` contradicts the formula, obeys no mask or sees the future. ``UNSAFE`` is right as
    long as the inputs are tame: a row that is masked throughout, NaN behind a mask, a large
    negative number in place of -inf, an overflow. ``CONVENTION`` is one of several legitimate
    ways. ``NOT_CLAIMED`` is what the function does not say it does, and ``NOT_ASKED`` what it may
    do under a name that the check does not know.

    Examples:
        >>> [verdict.value for verdict in Verdict]
        ['pass', 'wrong', 'unsafe', 'convention', 'not claimed', 'not asked']
    """

    PASS = "pass"
    WRONG = "wrong"
    UNSAFE = "unsafe"
    CONVENTION = "convention"
    NOT_CLAIMED = "not claimed"
    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Counterexample:
    """A call in plain numbers: its arguments, what it returned and what was expected.

    Tensors are nested lists, or a line that tells the shape of those too large to read. What was
    ``printed``, and what was ``wanted``, are the same in the axes of the function itself.

    Examples:
        >>> Counterexample({"query": [[1.0]]}, got=[[float("nan")]], expected=[[0.0]]).got
        [[nan]]
    """

    arguments: dict[str, object]
    got: object
    expected: object
    text: str | None = None
    printed: object = None
    wanted: object = None

    def record(self) -> dict[str, object]:
        """What JSON has of it."""
        return {each: getattr(self, each) for each in ("arguments", "got", "expected")}

    def program(self, target: str) -> str | None:
        """Python that makes the call and prints the output, None where it cannot be given.

        ``target`` names the function, as for ``attnref check``; it runs in the same folder.
        """
        place, _, name = target.rpartition(":")
        first, text = name.split(".")[0], self.text or ""
        more = "".join(re.findall(r"(?m)^\$import(.*)$", text))
        lines: list[str] = []
        path = Path(place)
        if place and path.suffix != ".py":
            lines = [f"from {place} import {first}{more}"]
        elif place and path.stem.isidentifier() and path.stem not in sys.stdlib_module_names:
            folder = ["import sys", f"sys.path.insert(0, {str(path.parent)!r})"]
            lines = [*folder * (path.parent != Path()), f"from {path.stem} import {first}{more}"]
        elif place:
            lines = ["import runpy", f"{first} = runpy.run_path({place!r})[{first!r}]"]
        named = all(part.isidentifier() for part in name.split("."))
        if not text or not named or f"\n{first} = " in text or (more and "import runpy" in lines):
            return None
        imports = "".join(f"{line}\n" for line in lines)
        return text.replace(f"$import{more}\n", imports).replace("$function", name)


@dataclass(frozen=True)
class Finding:
    """What a property found, in words whose places ``values`` fill; ``shared`` with PyTorch."""

    verdict: Verdict
    text: Text
    values: Mapping[str, object] = field(default_factory=dict)
    counterexample: Counterexample | None = None
    shared: bool = False

    def say(self, lang: str) -> str:
        """The words, and who else does so."""
        said = self.text.say(lang, self.values)
        return f"{said} {SHARED.say(lang)}" if self.shared else said

    def reword(self, text: Text, **values: object) -> "Finding":
        """The same in words that say more."""
        return Finding(self.verdict, text, values, self.counterexample)


@dataclass(frozen=True)
class Expectation:
    """What a project expects a property to find, and why it accepts that."""

    verdict: Verdict
    reason: str
