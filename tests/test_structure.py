"""Who may import whom, and what an import costs: the house of the package."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "attnref"

# What a module may import from the package. A module that is not named here may not import any.
ALLOWED = {
    "__init__": {
        "adaptive_scaling",
        "bounded_scores",
        "cost",
        "masks",
        "multihead",
        "positions",
        "reference",
        "roofline",
        "scaling",
        "score_statistics",
        "similarity",
        "softmax",
    },
    "adaptive_scaling": {"checks"},
    "bounded_scores": set(),
    "checks": set(),
    "cost": set(),
    "masks": {"checks"},
    "multihead": {"checks", "masks", "reference", "scaling"},
    "onednn": set(),
    "oracle": {"checks"},
    "positions": {"checks"},
    "reference": {"checks"},
    "roofline": {"cost"},
    "scaling": {"checks"},
    "score_statistics": {"checks", "reference"},
    "similarity": {"checks", "reference", "softmax"},
    "softmax": {"checks"},
    "bench/__init__": set(),
    "bench/cases": {"bench", "multihead", "variants"},
    "bench/chart": {"bench"},
    "bench/clock": set(),
    "bench/command": {"bench"},
    "bench/fingerprint": set(),
    "bench/memory": set(),
    "bench/methods": {"bench", "variants"},
    "bench/peers": {"bench"},
    "bench/plan": {"bench"},
    "bench/problems": {"masks", "multihead", "reference"},
    "bench/provenance": {"", "bench"},  # "" is attnref itself, for its version
    "bench/pytorch": {"bench"},
    "bench/record": {"bench"},
    "bench/runner": {"bench"},
    "bench/table": {"bench"},
    "cli": set(),
    "exercises/__init__": {"exercises"},
    "exercises/command": {"conformance", "exercises"},
    "exercises/exercise": {"exercises"},
    "exercises/findings": {"conformance"},
    "exercises/grading": {"conformance", "exercises"},
    "exercises/judging": {"conformance", "exercises"},
    "exercises/learner": {"conformance", "exercises"},
    "exercises/report": {"conformance", "exercises"},
    "exercises/samples": {"oracle"},
    "exercises/source": {"exercises"},
    "conformance/__init__": {"conformance"},
    "conformance/budget": {"masks", "oracle"},
    "conformance/case": set(),
    "conformance/checker": {"conformance"},
    "conformance/command": {"conformance"},
    "conformance/comparison": set(),
    "conformance/examination": {"conformance"},
    "conformance/explanations": {"conformance"},
    "conformance/isolation": {"conformance"},
    "conformance/plugin": {"conformance"},
    "conformance/properties/__init__": {"conformance"},
    "conformance/properties/backward": {"conformance"},
    "conformance/properties/causal": {"conformance", "masks"},
    "conformance/properties/dropout": {"conformance"},
    "conformance/properties/forbidden": {"conformance"},
    "conformance/properties/heads": {"conformance"},
    "conformance/properties/hygiene": {"bench", "conformance"},
    "conformance/properties/lengths": {"conformance"},
    "conformance/properties/masks": {"conformance"},
    "conformance/properties/numerics": {"conformance"},
    "conformance/properties/scaling": {"conformance"},
    "conformance/properties/shapes": {"conformance"},
    "conformance/properties/softcap": {"conformance"},
    "conformance/properties/symmetries": {"conformance"},
    "conformance/properties/weights": {"conformance"},
    "conformance/properties/windows": {"conformance"},
    "conformance/property": {"conformance"},
    "conformance/report": {"conformance"},
    "conformance/right": {"conformance", "masks", "reference"},
    "conformance/subject": set(),
    "conformance/table": {"conformance"},
    "conformance/text": set(),
    "conformance/trial": {"conformance"},
    "conformance/verdict": {"conformance"},
    "copying/__init__": set(),
    "copying/assembly": {"copying"},
    "copying/catalogue": {"copying"},
    "copying/command": {"copying"},
    "copying/header": {"", "copying"},
    "copying/needs": {"copying"},
    "copying/scopes": set(),
    "copying/source": {"copying"},
    "variants/__init__": set(),
    "variants/block_sparse": {"checks", "masks", "onednn", "reference"},
    "variants/blockwise": {"checks", "masks", "onednn", "reference"},
    "variants/hierarchical": {"checks", "reference"},
    "variants/kv_cache": {"checks", "masks", "reference", "variants"},
    "variants/linear": {"checks", "reference"},
    "variants/linformer": {"checks", "reference"},
    "variants/lsh": {"checks", "reference", "softmax"},
    "variants/nystrom": {"checks", "reference", "variants"},
    "variants/performer": {"checks", "reference", "variants"},
    "variants/quantized": {"checks", "reference"},
    "variants/sliding_window": {"checks", "masks", "onednn", "reference"},
    "variants/topk": {"checks", "reference"},
    "variants/varlen": {"checks", "reference"},
}

# The exercises themselves, a folder each: the grader knows what is true, the solution stands alone.
COURSE = PACKAGE / "exercises" / "course"
TRUTHS = {"masks", "multihead", "oracle", "positions", "similarity", "softmax", "variants"}


def imports(path: Path) -> tuple[set[str], set[str]]:
    """Modules of the package, and top-level names from outside, that ``path`` imports."""
    inside, outside = set(), set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "attnref":
            names = [f"attnref.{alias.name}" for alias in node.names]
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


def test_modules_import_only_what_the_design_allows():
    found = {
        path.relative_to(PACKAGE).with_suffix("").as_posix(): imports(path)[0]
        for path in PACKAGE.rglob("*.py")
        if COURSE not in path.parents
    }
    assert found == ALLOWED


def test_solutions_of_exercises_need_torch_only():
    for path in COURSE.rglob("*.py"):
        inside, outside = imports(path)
        if path.name == "solution.py":
            assert inside == set(), path
            assert outside <= {"torch", "collections"}, path
        else:
            assert inside <= {"exercises"} | TRUTHS, path


def test_runtime_needs_only_torch_and_numpy():
    """Only the command line, which has an extra of its own, and the plugin may ask for more."""
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).with_suffix("").as_posix()
        allowed = {"torch", "numpy"}
        if name.split("/")[-1] in ("cli", "command", "table"):
            allowed |= {"typer", "rich"}
        if name == "conformance/plugin":
            allowed |= {"pytest"}
        assert imports(path)[1] - set(sys.stdlib_module_names) <= allowed, name


def test_the_oracle_imports_no_torch():
    for name in ("oracle", "checks"):
        assert "torch" not in imports(PACKAGE / f"{name}.py")[1]


def test_importing_the_package_and_its_list_of_commands_loads_none_of_the_tools():
    code = "import sys, attnref, attnref.cli; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    tools = ("oracle", "bench", "conformance", "copying", "exercises")
    names = {f"attnref.{tool}" for tool in tools} | {"typer", "rich"}
    assert all(map(importlib.util.find_spec, names))
    assert "attnref.cli" in answer.stdout.split(), answer.stderr
    assert not names & set(answer.stdout.split())
