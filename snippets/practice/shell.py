"""Types a command of attnref as in a shell, and shows what it answers."""

import contextlib
import io
import shlex
import sys

from attnref import cli


def typed(line, folder, grep=None):
    """Print the line and the answer in a folder, or what of it has a word."""
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
