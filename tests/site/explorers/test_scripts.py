"""The scripts of the explorers: their types hold, and a linter has nothing to say."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parent.parent.parent.parent
SCRIPTS = ROOT / "docs" / "shared" / "explorers"
TYPESCRIPT = "5.9.3"
BESIDE = Path(sys.executable).parent  # where pip has put node, npm and oxlint
PATH = {**os.environ, "PATH": f"{BESIDE}{os.pathsep}{os.environ['PATH']}"}
STRICT = [
    "--noEmit",
    "--allowJs",
    "--checkJs",
    "--strict",
    "--noUnusedLocals",
    "--noUnusedParameters",
    "--noImplicitReturns",
    "--noFallthroughCasesInSwitch",
    *("--target", "es2022"),
    *("--module", "esnext"),
    *("--moduleResolution", "bundler"),
    *("--lib", "es2023,dom,dom.iterable"),
]


def run(*command):
    return subprocess.run(command, cwd=SCRIPTS, env=PATH, capture_output=True, text=True)


@pytest.fixture(scope="module")
def tsc():
    """The compiler of TypeScript, which no package of Python brings; kept in .cache."""
    folder = ROOT / ".cache" / f"typescript-{TYPESCRIPT}"
    folder.mkdir(parents=True, exist_ok=True)
    compiler = folder / "node_modules" / "typescript" / "bin" / "tsc"
    with FileLock(folder / "lock"):
        if not compiler.is_file():
            npm = shutil.which("npm", path=PATH["PATH"])
            got = run(npm, "install", "--prefix", folder, f"typescript@{TYPESCRIPT}")
            assert got.returncode == 0, got.stderr
    return shutil.which("node", path=PATH["PATH"]), compiler


def test_their_types_hold_and_a_wrong_one_is_noticed(tsc, tmp_path):
    script = tmp_path / "wrong.js"
    script.write_text(
        f'import {{ figure }} from "{(SCRIPTS / "draw.js").as_posix()}";\nfigure("one", 2);\n',
        "utf-8",
    )
    found = run(*tsc, *STRICT, *sorted(SCRIPTS.rglob("*.js")), script)
    errors = [line for line in found.stdout.splitlines() if ": error TS" in line]
    assert len(errors) == 1, found.stdout
    assert "'string' is not assignable to parameter of type 'number'" in errors[0]


def test_the_linter_has_nothing_to_say_but_of_a_slip(tmp_path):
    linter = shutil.which("oxlint", path=PATH["PATH"])
    assert linter, "oxlint is not installed"
    (tmp_path / "wrong.js").write_text("const a = 1;\nif (a === a) debugger;\n", "utf-8")
    rules = ("--deny", "correctness", "--deny", "suspicious", "--format", "unix")
    found = run(linter, *rules, SCRIPTS, tmp_path)
    told = [line for line in found.stdout.splitlines() if re.match(r".+:\d+:\d+:", line)]
    assert len(told) == 1, found.stdout
    assert "wrong.js:2:14: `debugger` statement is not allowed" in told[0]
