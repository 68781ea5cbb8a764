"""The small model: its file is what the notebook's training gives, rounded to eight bits."""

import pytest
import torch

from docs.explorers import small_model

FACTOR = 32**-0.5


@pytest.fixture(scope="module")
def trained():
    return small_model.train_model()


@pytest.fixture(scope="module")
def recorded():
    return small_model.unpack(small_model.WEIGHTS.read_bytes())


@pytest.mark.audit
def test_the_recorded_file_is_what_training_gives(trained):
    """To the byte: in float64 machines differ by far less than what is rounded off here."""
    again = small_model.pack(trained.state_dict())
    same = again == small_model.WEIGHTS.read_bytes()  # bytes compared by pytest take minutes
    assert same, "run python docs/explorers/small_model.py"


def test_the_file_is_of_the_notebook_as_it_is(recorded):
    header, weights = recorded
    assert header["of"] == small_model.digest(), "run python docs/explorers/small_model.py"
    assert list(header["letters"]) == small_model.notebook()["letters"]
    assert small_model.pack(weights) == small_model.WEIGHTS.read_bytes()


@pytest.fixture
def of_float64():
    """As in the notebook, and in what comes after it not."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("of_float64")
def test_the_first_steps_of_training_are_what_they_were(monkeypatch):
    for name, value in {"steps": 3, "every": 1}.items():
        monkeypatch.setitem(small_model.notebook(), name, value)
    _, losses, _ = small_model.notebook()["train"](lambda: {"scale": FACTOR})
    before = [4.757146854131, 4.078592858603, 3.775042089499, 3.619856301057]
    assert losses == pytest.approx(before, rel=1e-9), (
        "run python docs/explorers/small_model.py, and note these"
    )


@pytest.mark.audit
def test_each_weight_is_within_half_a_step_of_its_rows(trained, recorded):
    for name, weight in trained.state_dict().items():
        rounded = recorded[1][name]
        step = weight.abs().amax(dim=-1, keepdim=True) / 127
        assert ((weight - rounded).abs() <= 0.5001 * step).all(), name
        assert (weight != rounded).any(), name


def test_it_has_learned_to_read(recorded):
    """To read text that was held out."""
    loss, _ = small_model.notebook()["examine"](small_model.model(recorded[1], FACTOR))
    assert loss < 1.75


@pytest.mark.audit
def test_eight_bits_change_the_loss_by_less_than_a_hundredth(trained, recorded):
    """The page says so, of the text that was held out."""
    examine = small_model.notebook()["examine"]
    whole, _ = examine(trained)
    rounded, _ = examine(small_model.model(recorded[1], FACTOR))
    assert rounded == pytest.approx(whole, rel=0.01)
    assert rounded != whole


def test_a_file_is_read_as_it_was_packed():
    content = small_model.pack({"a.weight": torch.tensor([[1.0, -4.0], [0.5, 0.25]]),
                                  "a.bias": torch.tensor([3.0, -1.0, 0.0])})  # fmt: skip
    header, weights = small_model.unpack(content)
    assert header["matrices"] == [["a.weight", 2, 2], ["a.bias", 1, 3]]
    steps = torch.tensor([[4 / 127], [0.5 / 127]]).double()
    whole = torch.tensor([[32.0, -127.0], [127.0, 64.0]]).double()
    torch.testing.assert_close(weights["a.weight"], whole * steps)
    torch.testing.assert_close(weights["a.bias"], torch.tensor([127.0, -42, 0]).double() * 3 / 127)
    start = 4 + int.from_bytes(content[:4], "little")
    assert start % 4 == 0
    assert content[-7:] == bytes([32, 256 - 127, 127, 64, 127, 256 - 42, 0])


def test_the_notebook_leaves_the_type_of_new_tensors_alone():
    small_model.notebook.cache_clear()
    small_model.notebook()
    assert torch.get_default_dtype() == torch.float32
