"""What every test may ask for: the device of this run, a seeded generator on it, the command."""

import sys

import pytest
import torch

from attnref import cli


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device", default="cpu", help="device to test on: cpu (default), cuda, cuda:1, …"
    )


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    device = torch.device(request.config.getoption("--device"))
    if device.type == "cuda" and not torch.cuda.is_available():
        pytest.exit(f"--device {device}: no CUDA device is visible to PyTorch here", returncode=2)
    return device


@pytest.fixture
def generator(device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(0)


@pytest.fixture
def attnref(monkeypatch, capsys):
    """Runs the command and gives its exit status, standard output and standard error."""

    def attnref(*arguments):
        monkeypatch.setattr(sys, "argv", ["attnref", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code, *capsys.readouterr()

    return attnref
