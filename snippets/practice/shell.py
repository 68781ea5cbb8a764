"""Types a command of attnref as in a shell, and shows what it answers."""

import contextlib
import io
import shlex
import sys

from attnref import cli


def typed(line, folder, grep=None, head=None):
    """Print the line and what it answers in a folder, or a part of that."""
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
    if grep is not None:
        line, lines = (
            f"{line} | grep {grep}",
            [each for each in lines if grep in each],
        )
    elif head is not None:
        line, lines = f"{line} | head -{head}", lines[:head]
    else:
        lines += ["$ echo $?", status]
    print(f"$ {line}", *lines, "", sep="\n")
