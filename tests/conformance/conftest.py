"""What takes long in the checker and does not depend on whom it asks is done once for all tests."""

import gc
import importlib
import multiprocessing

import pytest
from torch import Tensor

from attnref.conformance import budget

KNOWN = {}


def bits(given):
    """Of a tensor: equal for those alone that are equal to the last bit."""
    if not isinstance(given, Tensor):
        return given
    return given.dtype, given.shape, given.detach().double().numpy().tobytes()


def once(compute):
    def answer(question, *given, **options):
        asked = (*question[:3], *question.setting, question.device, *given, *options.items())
        key = (compute, *map(bits, asked))
        if key not in KNOWN:
            KNOWN[key] = compute(question, *given, **options)
        return KNOWN[key]

    return answer


@pytest.fixture(scope="module", autouse=True)
def remembered():
    """The oracle, slow and sure, answers each question once, whoever is asked beside it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("truth", "gradients"):
            patch.setattr(budget, name, once(getattr(budget, name)))
        yield


@pytest.fixture(scope="session", autouse=True)
def ready_to_be_forked():
    """What PyTorch imports when it is first wanted is here, and the collector looks at it no more.

    Otherwise each forked process would import it for itself, and each pytest within pytest, which
    collects several times when it ends, would go through all of it.
    """
    importlib.import_module("torch._inductor")
    gc.collect()
    gc.freeze()


@pytest.fixture
def no_process_stays():
    """A test leaves no process behind; the ranks that other tests share were there before."""
    before = set(multiprocessing.active_children())
    yield
    assert not set(multiprocessing.active_children()) - before
