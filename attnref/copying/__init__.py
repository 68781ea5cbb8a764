"""One function in one file: its own code and just what it needs from the rest of the package.

One idea per file: ``scopes`` (which names a piece of code takes from around it), ``source`` (what a
module defines and imports, and what each definition uses), ``needs`` (what a copy needs, in which
order and under which names), ``assembly`` (its text), ``header`` (what it says of itself),
``catalogue`` (what can be copied, and the page that explains it), ``command`` (the command
``attnref copy``).
"""
