"""Side-by-side measurement: times with errors and memory beside them, and where they come from.

One idea per file, in the order of a measurement: ``problems`` (inputs, and what the
answer should be), ``methods`` (who is asked), ``cases``, ``pytorch`` and ``peers`` (how each
is called), ``clock`` and ``memory`` (how it is measured), ``plan`` and ``runner`` (all of it,
over a sweep), ``provenance``, ``fingerprint`` and ``record`` (where a number comes from, and
whether it still holds), ``digits``, ``table`` and ``chart`` (how it is shown), ``command`` (the
command ``attnref bench``).
"""
