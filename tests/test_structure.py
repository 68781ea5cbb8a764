"""What the package asks of others, and what an import of it loads.

Who may import whom within it is told in pyproject.toml, to import-linter.
"""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import attnref

PACKAGE = Path(__file__).parent.parent / "attnref"

# The exercises themselves, a folder each: the grader knows what is true, the solution stands alone.
COURSE = PACKAGE / "exercises" / "course"
TRUTHS = {
    "cache",
    "layouts",
    "masks",
    "multihead",
    "oracle",
    "positions",
    "similarity",
    "softmax",
    "variants",
}


def imports(path: Path) -> tuple[set[str], set[str]]:
    """Modules of the package, and top-level names from outside, that ``path`` imports."""
    inside, outside = set(), set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "attnref":
            ours = ((alias.name, getattr(attnref, alias.name)) for alias in node.names)
            names = [getattr(one, "__module__", f"attnref.{name}") for name, one in ours]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
        for name in names:
            first, _, rest = name.partition(".")
            if first == "attnref":
                inside.add(rest.split(".")[0])
            else:
                outside.add(first)
    return inside, outside


def test_solutions_of_exercises_need_torch_only():
    for path in COURSE.rglob("*.py"):
        inside, outside = imports(path)
        if path.name == "solution.py":
            assert inside <= {"exercises"}, path  # a part is the solution of another one
            assert outside <= {"torch", "collections"}, path
        else:
            assert inside <= {"exercises"} | TRUTHS, path


def test_runtime_needs_only_torch_and_numpy():
    """Only the command line, which has an extra of its own, and the plugin may ask for more."""
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).with_suffix("").as_posix()
        allowed = {"torch", "numpy"}
        if name.split("/")[-1] in ("cli", "usage", "command", "table"):
            allowed |= {"typer", "rich"}
        # Those two import it when they are asked for it.
        allowed |= {"watching/figures": {"matplotlib"}, "watching/live": {"rich"}}.get(name, set())
        if name == "conformance/plugin":
            allowed |= {"pytest"}
        assert imports(path)[1] - set(sys.stdlib_module_names) <= allowed, name


def test_importing_the_package_and_its_list_of_commands_loads_none_of_the_tools():
    code = "import sys, attnref, attnref.cli; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    tools = ("oracle", "bench", "conformance", "copying", "distributed", "exercises")
    names = {f"attnref.{tool}" for tool in tools} | {"typer", "rich"}
    assert all(map(importlib.util.find_spec, names))
    assert "attnref.cli" in answer.stdout.split(), answer.stderr
    assert not names & set(answer.stdout.split())
