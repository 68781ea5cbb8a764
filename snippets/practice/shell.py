"""Types a command of attnref as in a shell, and shows what it answers."""

import contextlib
import io
import shlex
import sys
from pathlib import Path

from attnref import cli


def typed(line, folder=Path(__file__).parent, grep=None):
    """Print the line and the answer, or the lines of it with a word."""
    words, sys.argv = sys.argv, shlex.split(line)
    answer = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(answer):
        try:
            cli.main()
        except SystemExit as stopped:
            status = stopped.code
        finally:
            sys.argv = words
    lines = [each.rstrip() for each in answer.getvalue().splitlines()]
    if grep is None:
        print(f"$ {line}", *lines, "$ echo $?", status, sep="\n")
    else:
        found = [each for each in lines if grep in each]
        print(f"$ {line} | grep {grep}", *found, sep="\n")
    print()
