"""Installs attnref with the lowest versions that pyproject.toml allows, and runs its commands.

What it installs, in a folder that it removes again, is large: PyTorch with all it comes with.
"""

import os
import re
import subprocess
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
# One of each, small; the copy is imported without attnref.
COMMANDS = (
    "-m attnref --version",
    "-m attnref check attnref:scaled_dot_product_attention",
    "-m attnref bench sdpa sliding_window -t causal -n 64 -o record.json --charts .",
    "-m attnref exercise solution rotary --lang pt",
    "-m attnref copy attention copied.py",
    "copied.py",
)


def requirements() -> list[str]:
    """Each of the package's and the command line's requirements, at its lower bound.

    Examples:
        >>> [line for line in requirements() if line.startswith("numpy")]
        ['numpy==1.26']
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    return [re.sub(r">=([\w.]+).*", r"==\1", line) for line in wanted]


def main() -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        python = str(place / "venv" / "bin" / "python")
        print(*requirements(), flush=True)
        install = [python, "-m", "pip", "install", "--quiet", *requirements(), f"{ROOT}[cli]"]
        subprocess.run(install, check=True, cwd=folder, env=env)
        for command in COMMANDS:
            print(f"\n> python {command}", flush=True)
            subprocess.run([python, *command.split()], check=True, cwd=folder, env=env)
    print("\nattnref: all of it runs with the lowest versions.")


if __name__ == "__main__":
    main()
