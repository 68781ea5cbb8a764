"""What every test may ask for: the device of this run, a seeded generator on it, the command."""

import contextlib
import importlib
import os
import signal
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from attnref import cli

ROOT = Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device", default="cpu", help="device to test on: cpu (default), cuda, cuda:1, …"
    )
    parser.addoption(
        "--audit",
        action="store_true",
        help="also what is marked audit, and all seeds: what rarely finds more, before a release",
    )


def pytest_configure() -> None:
    with contextlib.suppress(ImportError):  # where only the kernels are tried, with make gpu
        importlib.import_module("hatch_build").compile_catalogues(ROOT)
    # A run in the background, or under nohup, ignores these, and what it starts would inherit it;
    # what has a handler begins in the other programs with the default.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: many tests wait, for a browser or another process."""
    return (os.cpu_count() or 1) + 1


# What runs little of attnref, or again what the tests of its parts have run: to trace their lines
# takes up to half as long again as they do, and finds none that is not covered.
UNTRACED = (
    "book/test_build.py",
    "book/test_contracts.py",
    "book/test_net.py",
    "book/test_notebooks.py",
    "book/test_reference_pages.py",
    "judges",
    "site",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--audit"):
        left_out = [item for item in items if item.get_closest_marker("audit")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("audit")]
    untraced = tuple(ROOT / "tests" / name for name in UNTRACED)
    for item in items:
        if any(item.path.is_relative_to(path) for path in untraced):
            item.add_marker("no_cover")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    device = torch.device(request.config.getoption("--device"))
    if device.type == "cuda" and not torch.cuda.is_available():
        pytest.exit(f"--device {device}: no CUDA device is visible to PyTorch here", returncode=2)
    return device


@pytest.fixture(scope="session")
def seeds(request: pytest.FixtureRequest):
    """As many seeds as ``many`` in an audit, otherwise as ``few``."""
    whole = request.config.getoption("--audit")
    return lambda few, many: range(many if whole else few)


@pytest.fixture
def generator(device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(0)


@pytest.fixture
def randn(device, generator):
    """Draws normal numbers in float64, whatever they become: all dtypes see the same ones."""

    def randn(*shape, dtype=torch.float64):
        drawn = torch.randn(*shape, device=device, generator=generator, dtype=torch.float64)
        return drawn.to(dtype)

    return randn


@pytest.fixture(scope="session", autouse=True)
def site_in_the_making(request, tmp_path_factory):
    """Gives the folder of the site and its log, when it is built: from the first test on.

    The first process of a run builds it beside its tests, if any test asks for it (tests/site)
    and what ``make site`` built is not of the files as they are.
    """
    if not any("site" in item.fixturenames for item in request.session.items):
        yield None
        return
    if begun := request.config.pluginmanager.get_plugin("site"):  # of one page: make check
        yield begun.result
        return
    # Here, since a machine with a GPU need not have what builds the site.
    from filelock import FileLock

    from book.make import serve

    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # by the processes of a run
    folder, log = shared / "site", shared / "site.log"
    building, building_begins = FileLock(shared / "built.lock"), FileLock(shared / "begun.lock")
    with building_begins:
        making = None
        if not log.exists() and serve.is_current():
            folder.symlink_to(serve.SITE)
            log.write_text("built by make site", encoding="utf-8")
        elif not log.exists():
            building.acquire()
            making = serve.Making(folder)

    def built():
        if making:
            making.result()
            building.release()
        else:
            with building:  # or until the process that builds it is no more
                pass
        return folder, log

    yield built
    built()


@pytest.fixture(autouse=True)
def _modules_of_one_test(tmp_path_factory):
    """What a test lays down to be imported is found by this test alone.

    A file that is checked puts its folder on the path, and the next test would find the modules
    there before those of the same name in its own folder.
    """
    path, loaded = sys.path[:], set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - loaded:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(tmp_path_factory.getbasetemp()):
            del sys.modules[name]


@pytest.fixture
def attnref(monkeypatch, capsys, tmp_path_factory):
    """Runs the command and gives its exit status, standard output and standard error.

    What it remembers is not what the user's own commands remember.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))

    def attnref(*arguments):
        monkeypatch.setattr(sys, "argv", ["attnref", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code, *capsys.readouterr()

    return attnref


@pytest.fixture
def one_rank():
    """A group of this process alone, in which nothing is sent."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
