"""Runs copied files where attnref cannot be imported: ``stranger.py FOLDER RESULTS``.

For each file in the folder it runs the examples and calls what the file is named after, and writes
the number of examples, what they printed that was wrong, and what the calls gave.
"""

import contextlib
import doctest
import importlib.abc
import importlib.util
import io
import sys
from pathlib import Path

import calls
import torch


class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "attnref":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def load(path):
    # Not under its own name, which may be that of another module.
    spec = importlib.util.spec_from_file_location(f"copied_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def main(folder, results):
    sys.meta_path.insert(0, Absent())
    found = {}
    for path in sorted(Path(folder).glob("*.py")):
        module = load(path)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            examples = doctest.testmod(module)
        given = calls.outcomes(module, path.stem.rpartition(".")[-1])
        found[path.stem] = examples.attempted, printed.getvalue(), given
    with contextlib.suppress(ModuleNotFoundError):
        import attnref

        sys.exit(f"attnref could be imported, from {attnref.__file__}")
    torch.save(found, results)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
