"""The table in a terminal or a notebook while a model runs."""

import time
from typing import TYPE_CHECKING, Any

from attnref.book import install
from attnref.text import Text

if TYPE_CHECKING:
    from attnref.watching.seen import Seen

_PAUSE = 0.25  # seconds between two pictures of it
MISSING = Text("live: needs rich, which is not installed. {install}")
SO_FAR = Text("{verdict} ({seconds} s so far)")


class Live:
    """Shows what was seen so far, and is gone when the run ends; what a script prints stays."""

    def __init__(self, seen: "Seen", lang: str = "en") -> None:
        try:
            from rich.console import Console
            from rich.live import Live as Shown
        except ImportError:
            raise ImportError(str(MISSING.fill({"install": install("cli")}))) from None
        self._seen, self._lang = seen, lang
        self._shown = Shown(console=Console(stderr=True), auto_refresh=False, transient=True)
        self._start = self._last = 0.0

    def start(self) -> None:
        """Before the first call."""
        self._start = time.perf_counter()
        self._shown.start()

    def update(self) -> None:
        """After a call, if the last picture is old enough."""
        now = time.perf_counter()
        if now - self._last > _PAUSE:
            self._last = now
            self._shown.update(self._table(now - self._start), refresh=True)

    def stop(self) -> None:
        """After the last one."""
        self._shown.stop()

    def _table(self, seconds: float) -> Any:
        from rich.text import Text as Styled

        from attnref.watching.table import lines

        verdict, *rest = lines(self._seen, self._lang, times=True)
        about = {"verdict": verdict.text, "seconds": f"{seconds:.0f}"}
        parts = [Styled(SO_FAR.say(self._lang, about), verdict.style)]
        parts += [Styled(each.text, each.style) for each in rest]
        return Styled("\n", no_wrap=True, overflow="ellipsis").join(parts)
