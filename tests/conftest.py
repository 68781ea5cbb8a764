"""What every test may ask for: the device of this run and a seeded generator on it."""

import pytest
import torch


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
