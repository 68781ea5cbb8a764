"""A function is found by its name, its options are read, and bad targets get one clear line."""

import functools
import sys

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as fused

import attnref
from attnref.conformance import check
from attnref.conformance.loading import load
from attnref.conformance.settings import parse
from attnref.conformance.signatures import OPTIONS
from attnref.conformance.subject import CheckError, modules, subject

SDPA = ("attn_mask", "is_causal", "scale", "enable_gqa", "dropout_p")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, which is not on the path yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return tmp_path


MODULE = """
print("loading")
def attention(query, key, value, scale=None):
    return value
class Layer:
    def forward(self, query, key, value):
        return value
layer = Layer()
number = 3
"""


@pytest.mark.parametrize("place", ["my_module", "./my_module.py", "sub/my_module.py"])
def test_a_function_is_found_by_module_or_file(folder, place, capsys):
    (folder / "sub").mkdir()
    for path in ("my_module.py", "sub/my_module.py"):
        (folder / path).write_text(MODULE, encoding="utf-8")
    found = subject(load(f"{place}:attention"), name="mine")
    assert (found.name, found.supports) == ("mine", ("scale",))
    assert found.parameters == ("query", "key", "value", "scale")
    assert subject(load(f"{place}:layer.forward")).supports == ()
    out, err = capsys.readouterr()
    assert (out, err.count("loading")) == ("", 1 if place == "my_module" else 2)


def test_a_file_finds_its_neighbours(folder):
    (folder / "part.py").write_text("factor = 2\n", encoding="utf-8")
    path = folder / "whole.py"
    path.write_text("from part import factor\ndef f(query, key, value): ...\n", encoding="utf-8")
    assert callable(load(f"{path}:f"))


def refusal(call, *arguments, **settings):
    with pytest.raises(CheckError) as error:
        call(*arguments, **settings)
    return str(error.value)


def test_ctrl_c_while_it_loads_is_ctrl_c(tmp_path):
    path = tmp_path / "long.py"
    path.write_text("raise KeyboardInterrupt", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        load(f"{path}:f")


NOT_FOUND = {
    "attention": "'attention' is neither module:function nor path/to/file.py:function. Write for",
    "no_such:f": "the module 'no_such' cannot be imported: there is no "
    "'no_such'. Start in the folder where it is, install it, or give its path: "
    "path/to/file.py:function.",
    "torch.no_such:f": "the module 'torch.no_such' cannot be imported: there is no 'torch.no_",
    "broken:f": "broken could not be loaded: ZeroDivisionError: division by zero. Fix it, so that",
    "wants:f": "wants could not be loaded: ModuleNotFoundError: No module named 'nowhere'. Fix it",
    "leaves.py:f": "leaves.py could not be loaded: SystemExit: 3. Fix it, so that it can be",
    "my_module:atention": "my_module has no 'atention'. It has: attention.",
    "broken_too.py:layer.forward": "broken_too.py has no 'layer.forward'. It has: no function.",
    "no/such.py:f": "the file 'no/such.py' does not exist, seen from {}. Check the path.",
}


def test_what_is_not_found_is_said(folder):
    for name, text in {
        "my_module.py": MODULE,
        "broken.py": "1 / 0",
        "broken_too.py": "x = 1",
        "wants.py": "import nowhere",
        "leaves.py": "raise SystemExit(3)",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    for target, said in NOT_FOUND.items():
        told = refusal(load, target)
        assert told.startswith("function: ")
        assert said.format(folder) in told


def takes_any(query, key, value, **options): ...


def takes_two(query, key): ...


def of_parameters(parameters, query, key, value): ...


def test_options_are_read_from_the_signature():
    assert subject(fused).supports == SDPA  # written in C: it is called with each of them
    assert subject(fused).parameters is None
    assert subject(attnref.scaled_dot_product_attention).supports == (*SDPA, "softcap", "sink")
    assert subject(takes_any).supports == OPTIONS
    assert subject(takes_any, ["scale"]).supports == ("scale",)
    assert subject(fused, ["scale"]).supports == ("scale",)
    assert subject(functools.partial(fused, scale=1.0), ["attn_mask"]).supports == ("attn_mask",)
    assert subject(lambda query, key, value, *, window=None: None, name="f").name == "f"


def test_a_name_is_found_for_everything_that_can_be_called():
    assert subject(fused).name == "scaled_dot_product_attention"
    assert subject(functools.partial(takes_any)).name == "partial"


def test_any_error_but_a_type_error_is_a_yes():
    """Of a function written in C, whose names cannot be read."""

    class Strange:
        @property
        def __signature__(self):
            raise ValueError("no signature found")

        def __call__(self, query, key, value, scale=1.0, attn_mask=None):
            if attn_mask is not None:
                raise RuntimeError("not today")

    assert subject(Strange()).supports == ("attn_mask", "scale")


class Layer(torch.nn.Module):
    def forward(self, query, key, value, is_causal=False):
        assert not self.training
        return fused(query, key, value, is_causal=is_causal)


def test_a_module_is_asked_in_evaluation_and_left_as_it_was():
    layer = torch.nn.Sequential(Layer())
    layer.forward = layer[0].__call__
    layer[0].eval()
    assert layer.training
    assert check(layer, only=["oracle"], limit=None).passed()
    assert layer.training
    assert not layer[0].training
    assert subject(Layer()).supports == ("is_causal",)


def strange(query, key, value): ...


WRONG = [
    (subject, Layer, {}, "function: Layer is a class, not a function. Name an instance of"),
    (subject, 3, {}, "function: an object of type int cannot be called. Name the function itself."),
    (subject, takes_two, {}, "cannot be called as f(query, key, value): "),
    (
        subject,
        takes_two,
        {},
        "function: takes_two(query, key) cannot be called as f(query, key, value): too many "
        "positional arguments. Give its other parameters default values, or wrap it in a "
        "function of these three.",
    ),
    (subject, of_parameters, {}, "missing a required argument: 'value'. Give its other "),
    (
        subject,
        takes_any,
        {"supports": ["mask"]},
        "supports: there is no option 'mask'. There are: attn_mask, "
        "is_causal, scale, enable_gqa, dropout_p, softcap, window, ",
    ),
    (subject, strange, {"supports": ["scale"]}, "supports: strange does not take "),
    (
        subject,
        strange,
        {"supports": ["scale"]},
        "does not take 'scale'; its parameters are query, key, value. Add it to them, or "
        "leave it out.",
    ),
    (
        subject,
        strange,
        {"names": {"mask": "mask"}},
        "map: there is no option 'mask'. There are: attn_mask, is_causal, ",
    ),
    (subject, strange, {"names": {"scale": "c"}}, "map: strange has no parameter 'c'; it has"),
    (parse, {"names": ["attn_mask="]}, {}, "map: 'attn_mask=' is not name=value"),
    (
        check,
        fused,
        {"only": ["causalty"]},
        "only: 'causalty' is not the name of a property. Did you mean 'causality'?",
    ),
    (check, fused, {"dtype": "int8"}, "dtype: expected one of float32, float64, bfloat16, float16"),
    (
        check,
        fused,
        {"limit": 0.0},
        "limit: expected a positive, finite number of seconds, got 0.0.",
    ),
    (
        check,
        fused,
        {"device": "gpu"},
        "device: 'gpu' is not the name of a device. Write cpu, cuda or cuda:1.",
    ),
    (check, fused, {"against": 3}, "against: expected a function, got int. Give the function "),
    (check, fused, {"scale": lambda d: d / 0}, "of d_k in Python: ZeroDivisionError: division"),
    (check, fused, {"device": "cuda:99"}, "device: PyTorch cannot compute on 'cuda:99' here"),
]


def test_what_cannot_be_checked_is_said_in_one_line():
    for call, function, settings, said in WRONG:
        told = refusal(call, function, **settings)
        assert said in told
        assert "\n" not in told


def named(query, key, value, mask=None, **others):
    return fused(query, key, value, mask)


def test_an_option_may_have_another_name():
    found = subject(named, names={"attn_mask": "mask"})
    assert found.supports == OPTIONS  # of **others
    assert found.parameters == ("query", "key", "value", "attn_mask")
    assert found.overlooked == {}
    assert subject(named, ["attn_mask"], names={"attn_mask": "mask"}).supports == ("attn_mask",)
    report = check(wants_mask_or_none, names={"attn_mask": "mask"}, only=["mask_polarity"])
    assert report.passed()
    assert subject(wants_mask_or_none).overlooked == {"attn_mask": "mask"}
    report = check(fused, names={"attn_mask": "attn_mask"}, only=["mask_polarity"], limit=None)
    assert report.passed()  # written in C


def wants_mask_or_none(query, key, value, mask=None):
    return fused(query, key, value, mask)


def test_the_modules_behind_a_function_are_found():
    layer = torch.nn.Sequential(Layer())

    @functools.wraps(layer.forward)
    def wrapped(*tensors): ...

    for function in (layer, layer.forward, functools.partial(layer), wrapped):
        assert modules(function) == [layer, layer[0]]
    assert modules(fused) == []


def to_script(query, key, value, is_causal: bool = False):
    return fused(query, key, value, None, 0.0, is_causal)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated")
def test_a_scripted_function_has_the_options_of_its_schema():
    assert subject(torch.jit.script(to_script)).supports == ("is_causal",)


def test_a_layer_that_takes_one_tensor_is_told_from_a_function_of_three():
    def forward(x, attn_mask=None, is_causal=False):
        return x

    with pytest.raises(CheckError, match="its attn_mask is not a tensor to attend to"):
        subject(forward)


def test_the_name_that_is_likest_a_mask_is_taken_beside_swallowed_options():
    def attention(query, key, value, mask=None, bias=None, **others):
        return fused(query, key, value)

    about = subject(attention)
    assert about.overlooked == {"attn_mask": "mask"}
    assert "attn_mask" not in about.swallowed
    assert "scale" in about.swallowed
