"""The attention of a running model, call by call: what it is, and what is suspicious about it.

:func:`watch` is a context manager: what runs in it is recorded, not changed. ``patches`` replaces
functions by name and hooks modules, ``operators`` sees what lies below; the ``recorder`` of a
thread tells of each ``call``. ``masks`` and ``statistics`` look at it, ``findings`` judges it,
``seen`` keeps the record.
:func:`compare` runs a model in two ways and finds where they part.
"""

from attnref.watching.comparing import Comparison
from attnref.watching.comparing import compare as compare
from attnref.watching.seen import Seen
from attnref.watching.seen import watch as watch

__all__ = ["Comparison", "Seen"]
