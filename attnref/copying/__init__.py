"""Takes code out of the package: a method on one screen, or whole modules as they are.

``catalogue`` knows the files of ``attnref/minimal``, ``whole`` finds the modules that a function
needs, and ``command`` is the command ``attnref copy``.
"""
