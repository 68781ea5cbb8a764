"""The attention of a running model, call by call: what it is, and what is suspicious about it.

:func:`watch` is a context manager: what runs in it is heard, not changed. ``ear`` hears functions
by their names and modules by hooks, ``operators`` hears what lies below; each tells of a ``call``.
``masks`` and ``statistics`` look at it, ``findings`` judges it, ``seen`` keeps the record.
:func:`compare` runs a model in two ways and finds where they part.
"""

from attnref.watching.comparing import Comparison
from attnref.watching.comparing import compare as compare
from attnref.watching.seen import Seen
from attnref.watching.seen import watch as watch

__all__ = ["Comparison", "Seen"]
