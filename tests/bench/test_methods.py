"""Who can be measured: every variant, without being listed."""

import pkgutil

import torch

from attnref import variants
from attnref.bench import methods as methods_of
from attnref.bench.fingerprint import fingerprint
from attnref.bench.methods import Registry, discover
from attnref.bench.plan import methods
from attnref.bench.problems import TASKS, Shape
from attnref.record import Method


def test_every_variant_is_found_and_has_its_function():
    found = methods()
    modules = [item.name for item in pkgutil.iter_modules(variants.__path__)]
    modules = [name for name in modules if not name.startswith("_")]
    assert len(modules) > 8
    assert not any(name.startswith("_") for name in found)
    for name in modules:
        assert found[name].defined == (f"attnref.variants.{name}", f"{name}_attention")
        assert len(fingerprint(found[name].defined)) == 16


def test_every_case_is_of_a_known_task():
    for method in methods().values():
        assert method.cases
        assert set(method.cases) <= set(TASKS)


def test_every_task_has_its_baseline():
    for name, task in TASKS.items():
        assert name in methods()[task.baseline].cases


def test_a_variant_is_called_as_its_record_says(monkeypatch):
    def fresh_attention(query, key, value, bonus, *, is_causal=False):
        return query + key + value + bonus * is_causal

    record = Method(
        function=fresh_attention,
        page="variants/fresh",
        formula=None,
        example=lambda given: {"bonus": given.n},
        tasks=("causal",),
    )
    monkeypatch.setattr(variants, "records", lambda: {"fresh": record})
    found = discover({"other": methods_of.Method("other")})
    assert list(found) == ["fresh", "other"]
    problem = TASKS["causal"].make(Shape(3, 2, 5, torch.float32, torch.device("cpu"), 0))
    run = found["fresh"].cases["causal"](problem)
    assert torch.equal(run(), problem.query + problem.key + problem.value + 3)


def test_one_method_may_have_several_ways():
    registry = Registry()
    registry.case("a", "dense", "causal")(one := lambda problem: None)
    registry.case("a", "window")(other := lambda problem: None)
    assert registry.methods["a"].cases == {"dense": one, "causal": one, "window": other}


def test_what_is_missing_is_said_with_its_mend():
    method = methods_of.Method("a", needs="some-package", imports="no_such_module")
    assert method.missing().startswith("some-package is not installed. Run pip install '.[peers]'")
    assert methods_of.Method("b").missing() is None
    assert methods_of.Method("c", needs="torch", imports="torch").missing() is None
