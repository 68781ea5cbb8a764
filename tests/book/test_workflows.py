"""The workflows: least permissions, pinned actions, and the versions that the package supports."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_little_is_permitted(path):
    text = path.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert all(PINNED.fullmatch(action) for action in used), used
    for name, job in workflow["jobs"].items():
        assert job.get("permissions", {}).keys() <= {"pages", "id-token"}, name
        if "permissions" in job:  # what may publish runs none of our code
            assert not [step for step in job["steps"] if "run" in step]
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout"):
            history = {"fetch-depth": 0} if path.stem == "publish" else {}  # with the days
            assert step["with"] == {"persist-credentials": False, **history}


def test_one_action_has_one_version():
    used = {use for path in WORKFLOWS for use in re.findall(r"uses: (.*)", path.read_text("utf-8"))}
    assert len(used) == len({use.partition("@")[0] for use in used})


def test_the_lowest_python_runs_everything_and_the_others_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))["jobs"]
    (setup,) = [s for s in jobs["everything"]["steps"] if "setup-python" in s.get("uses", "")]
    lowest = setup["with"]["python-version"]
    assert project["requires-python"] == f">={lowest}"
    others = [lowest, *jobs["package"]["strategy"]["matrix"]["python"]]
    minors = [int(version.removeprefix("3.")) for version in others]
    assert minors == list(range(minors[0], minors[0] + len(minors)))
    assert jobs["everything"]["steps"][-1] == {"run": "bash .ci/run"}
