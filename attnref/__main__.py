"""``python -m attnref``: the command of that name."""

from attnref.cli import main

main()
