"""How a function is judged: every kind of difference, told in both languages."""

import pytest
import torch
from torch import Tensor

import attnref
from attnref.exercises import advice, findings, samples
from attnref.exercises.course import scaled_attention, stable_softmax
from attnref.exercises.grading import (
    Case,
    Watch,
    difference,
    format_value,
    grade,
    gradient_of,
    kind_of,
    largest_tensor,
)

ROW = torch.tensor([1.0, 2.0])


def found(function, case, without=frozenset()):
    def check():
        yield case

    return grade(check, function, __file__, without)


def said(finding, language="en"):
    return finding.text.say(language, finding.values)


def doubled(x: Tensor) -> Tensor:
    return 2 * x


DOUBLE = Case({"x": ROW}, torch.tensor([2.0, 4.0]))


def test_a_right_answer_has_no_finding():
    assert found(doubled, DOUBLE) is None


def test_the_first_case_that_fails_is_shown():
    def check():
        yield DOUBLE
        yield Case({"x": torch.tensor(3.0)}, torch.tensor(7.0))
        yield Case({"x": torch.tensor(4.0)}, torch.tensor(9.0))

    finding = grade(check, doubled, __file__, frozenset())
    assert said(finding) == "The result is 6, expected 7."
    assert finding.counterexample.arguments == {"x": "tensor(3.)"}
    assert finding.counterexample.got == "tensor(6.)"
    assert finding.counterexample.expected == "tensor(7.)"


TOLD = [
    (
        lambda x: 2 * x + ROW // 2,
        "is wrong in 1 of 2 numbers, first at",
        "em 1 de 2 números, o primeiro em [1]: deveria ser 4, mas é 5.",
    ),
    (lambda x: 2 * x + ROW // 2, "at [1]: expected 4, got 5.", "em [1]: deveria ser 4, mas é 5."),
    (
        lambda x: 2 * x / 0,
        "first at [0]: expected 2, got inf.",
        "em [0]: deveria ser 2, mas é inf.",
    ),
    (
        lambda x: 2 * x[None],
        "has shape (1, 2), expected (2,).",
        "a forma (1, 2), mas deveria ser (2,)",
    ),
    (
        lambda x: 2 * x.double(),
        "is of torch.float64, expected torch.float32.",
        "é de torch.float64, mas deveria",
    ),
    (lambda x: [2.0, 4.0], "of type list(float, float), expected Tensor(2,)", "do tipo list(float"),
    (lambda x: None, "The result is None. Does every", "é None. Todo caminho termina em return?"),
    (
        lambda x: x.mul_(2),
        "It changed its argument x. Make a new",
        "Ela alterou o argumento x. ",
    ),
]


def test_what_is_wrong_is_told_in_both_languages():
    for function, *told in TOLD:
        finding = found(function, DOUBLE)
        for part, language in zip(told, ("en", "pt"), strict=True):
            assert part in said(finding, language)
        assert finding.counterexample.arguments == {"x": "tensor([1., 2.])"}


def unpacked(x):
    n, m = x.shape
    return n + m


def unassigned(x):
    late = late + x  # noqa: F821
    return late


ADVICE = [
    (lambda x: 3 * x, ROW, None),
    (lambda x: None, ROW, None),
    (lambda x: torch.softmax(x, -1), ROW, None),
    (lambda x: x[None], ROW, advice.SHAPE),
    (lambda x: x, ROW > 1, advice.BOOLS),
    (lambda x: x, ROW.int(), advice.INTEGERS),
    (lambda x: x > 1, ROW, advice.FLOATS),
    (lambda x: 1.0, ROW, advice.TYPE),
    (lambda x: x.mul_(2), ROW, advice.CHANGED),
    (lambda x: x.long() >= 0 & x.long() < 3, ROW > 1, advice.ONE_TRUTH),
    (lambda x: x >= 0 & x, ROW > 1, advice.DTYPES),  # a NotImplementedError of PyTorch
    (lambda x: x if x > 0 else -x, ROW, advice.ONE_TRUTH),
    (lambda x: x @ x.double(), ROW, advice.DTYPES),
    (lambda x: torch.eye(2) @ x.long(), ROW, advice.DTYPES),
    (lambda x: x + torch.ones(3), ROW, advice.SIZES),
    (lambda x: torch.ones(2, 3) @ x[None].mT.mT, ROW, advice.SIZES),
    (lambda x: x.sum(-2), ROW, advice.PLACES),
    (lambda x: (lambda a, b: a)(*[x]), ROW, advice.CALLS),
    (unpacked, ROW, advice.PLACES),
    (unassigned, ROW, advice.NAMES),
    (lambda x: quary, ROW, advice.NAMES),  # noqa: F821
    (lambda x: x.nope, ROW, advice.ATTRIBUTES),
    (lambda x: 1 / 0, ROW, advice.OTHERWISE),
]


@pytest.mark.claim("slips-explain-what-came")
def test_each_kind_of_failure_has_its_own_advice(subtests):
    for function, expected, text in ADVICE:
        finding = found(function, Case({"x": ROW}, expected), frozenset({"softmax"}))
        with subtests.test(said(finding)):
            assert advice.advice(finding) is text


@pytest.mark.claim("no-shortcuts-in-exercises")
def test_what_would_do_the_exercise_may_not_be_called():
    finding = found(lambda x: torch.softmax(x, -1), DOUBLE, frozenset({"softmax", "exp"}))
    assert said(finding) == "It calls softmax. That is what you are to write yourself."
    assert said(finding, "pt") == "Ela chama softmax. É justamente isso que cabe a você escrever."
    assert finding.counterexample is None


SOFTMAXES = [
    (lambda s: torch.softmax(s, -1), "softmax"),
    (lambda s: torch.nn.functional.softmin(-s, -1), "softmin"),
    (lambda s: torch.nn.Softmin(-1)(-s), "softmin"),
    (lambda s: (s - s.logsumexp(-1, keepdim=True)).exp(), "logsumexp"),
    (lambda s: torch._softmax(s, -1, False), "_softmax"),
    (lambda s: torch.ops.aten._softmax(s, -1, False), "_softmax"),
    (lambda s: torch.ops.aten.softmax.int(s, -1), "softmax.int"),
    (lambda s: unseen_softmax(s), "_softmax"),
    (lambda s: attnref.softmax.stable(s), "attnref.softmax.stable"),
    (lambda s: attnref.softmax.online(s, block_size=3), "attnref.softmax.online"),
]


def is_refused(grader, shortcut, called):
    for check in grader.checks:
        finding = grade(check, shortcut, __file__, grader.without)
        assert finding is not None
        assert finding.text is findings.SHORTCUT
        assert called in finding.values["called"].split(", ")


@pytest.mark.claim("no-shortcuts-in-exercises")
def test_no_softmax_that_is_there_passes_for_ones_own(subtests):
    """Each gives the right numbers: without being watched it would have solved the exercise."""
    for shortcut, called in SOFTMAXES:
        with subtests.test(called):
            is_refused(stable_softmax.GRADER, shortcut, called)


@pytest.mark.claim("other-solutions-pass")
def test_a_softmax_of_ones_own_passes_mapped_over_rows_too():
    def mapped(scores):
        return torch.vmap(torch_free_softmax)(scores.reshape(-1, scores.shape[-1])).view_as(scores)

    for check in stable_softmax.GRADER.checks:
        for function in (torch_free_softmax, mapped):
            assert grade(check, function, __file__, stable_softmax.GRADER.without) is None


def unseen_softmax(scores: Tensor) -> Tensor:
    """Past the functions, as a compiled script would call it."""
    with torch._C.DisableTorchFunction():
        return torch.softmax(scores, -1)


def torch_free_softmax(scores: Tensor) -> Tensor:
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, scale: float | None = None
) -> Tensor:
    """The kernel itself, which wants four dimensions and one width."""
    width, d_v = max(query.shape[-1], value.shape[-1]), value.shape[-1]
    lead, scale = query.shape[:-1], query.shape[-1] ** -0.5 if scale is None else scale
    query, key, value = (
        torch.nn.functional.pad(x, (0, width - x.shape[-1])).reshape(1, -1, x.shape[-2], width)
        for x in (query, key, value)
    )
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return kernel(query, key, value, scale=scale)[0].reshape(*lead, width)[..., :d_v]


def math_attention(query, key, value, *, scale):
    return torch._scaled_dot_product_attention_math(query, key, value, scale=scale)[0]


ATTENTIONS = {
    "scaled_dot_product_attention": torch.nn.functional.scaled_dot_product_attention,
    "_scaled_dot_product_attention_math": math_attention,
    "_scaled_dot_product_flash_attention_for_cpu": fused_attention,
    "attnref.reference.scaled_dot_product_attention": attnref.scaled_dot_product_attention,
}


@pytest.mark.claim("no-shortcuts-in-exercises")
def test_no_attention_that_is_there_passes_for_ones_own(subtests):
    for called, attention in ATTENTIONS.items():

        def shortcut(query, key, value, scale=None, attention=attention):
            return attention(query, key, value, scale=scale)

        with subtests.test(called):
            is_refused(scaled_attention.GRADER, shortcut, called)


def test_an_error_names_the_line_of_the_file():
    def broken(x):
        return x @ torch.ones(3)

    finding = found(broken, DOUBLE)
    line = broken.__code__.co_firstlineno + 1
    start = "It raised RuntimeError: inconsistent tensor size"
    assert said(finding).startswith(start)
    assert said(finding).endswith(f", in line {line}: return x @ torch.ones(3)")
    assert said(finding, "pt").endswith(f", na linha {line}: return x @ torch.ones(3)")


def test_an_error_without_a_line_or_a_message_is_told_without():
    finding = grade(lambda: iter([DOUBLE]), int, "learner.py", frozenset())
    assert said(finding).startswith("It raised ")
    assert "in line" not in said(finding)

    def stops(x):
        raise SystemExit

    assert said(found(stops, DOUBLE)).startswith("It raised SystemExit, in line ")


def test_a_function_that_is_not_written_is_known():
    def unwritten(x):
        raise NotImplementedError("yours to write")

    finding = found(unwritten, DOUBLE)
    assert finding.text == findings.UNWRITTEN
    assert said(finding, "pt") == "Ela ainda não foi escrita."


def test_parts_of_a_tuple_are_named():
    pair = Case({"x": ROW}, (ROW, ROW + 1))
    assert found(lambda x: (x, x + 1), pair) is None
    assert found(lambda x: [x, x + 1], pair) is None
    finding = found(lambda x: (x, x), pair)
    assert said(finding).startswith("Result 2 of 2 is wrong in 2 of 2 numbers")
    assert said(finding, "pt").startswith("O resultado 2 de 2 está errado em 2 de 2 números")
    assert finding.counterexample.expected == "(tensor([1., 2.]),\n tensor([2., 3.]))"
    finding = found(lambda x: (x, x + 1, x), pair)
    types = "tuple(Tensor(2,), Tensor(2,), Tensor(2,)), expected tuple(Tensor(2,), Tensor(2,))"
    assert said(finding) == f"The result is of type {types}."
    assert said(found(lambda x: (x, None), pair)).startswith("Result 2 of 2 is None.")


def test_bools_are_compared_exactly():
    case = Case({"n": 2}, torch.tensor([True, False]))
    assert found(lambda n: torch.tensor([True, False]), case) is None
    finding = found(lambda n: torch.tensor([True, True]), case)
    assert "first at [1]: expected False, got True" in said(finding)


def test_nan_and_inf_are_compared_by_place():
    expected = torch.tensor([torch.nan, torch.inf, 1.0])
    assert difference(expected, expected.clone()) is None
    assert difference(expected, torch.tensor([torch.nan, -torch.inf, 1.0])) is not None
    assert difference(expected, torch.tensor([0.0, torch.inf, 1.0])) is not None
    assert difference(torch.tensor([torch.nan]), torch.tensor([torch.nan])) is None


def test_the_tolerance_is_that_of_the_largest_number_or_of_one():
    allowed = 2.0**-14
    for size in (0.0, 1.0, 8.0):
        expected = torch.tensor([0.0, size])
        near = allowed * max(1.0, size) * 0.99
        far = allowed * max(1.0, size) * 1.01
        assert difference(expected, expected + torch.tensor([near, 0.0])) is None
        assert difference(expected, expected + torch.tensor([far, 0.0])) is not None


def test_gradients_can_be_looked_at():
    case = Case({"x": ROW}, torch.tensor([2.0, 6.0]), gradient_of("x", torch.tensor([1.0, 3.0])))
    assert found(doubled, case) is None
    finding = found(lambda x: 3 * x, case)
    assert said(finding).startswith("The gradient of x is wrong in 2 of 2 numbers")
    assert said(finding, "pt").startswith("O gradiente de x está errado em 2 de 2 números")
    assert found(lambda x: 2 * x.detach(), case).text == findings.NO_GRADIENT
    assert found(lambda x: None, case).text == findings.NOTHING
    assert found(lambda x: 2 * x[None], case).text == findings.SHAPE


def test_the_largest_tensor_can_be_looked_at():
    def spread(x):
        return (x[:, None] * torch.ones(1, 5)).sum(-1)

    assert found(spread, Case({"x": ROW}, 10, largest_tensor(10))) is None
    finding = found(spread, Case({"x": ROW}, 9, largest_tensor(9)))
    expected = "The largest tensor that it makes, in numbers, is 10, expected at most 9."
    assert said(finding) == expected
    assert said(finding, "pt").endswith("é 10, mas deveria ser no máximo 9.")


def test_expanding_makes_no_tensor():
    with Watch() as watch:
        torch.ones(3).expand(1000, 3)
    assert watch.largest == 3
    assert {"ones", "expand"} <= watch.called


def test_lists_of_tensors_may_be_arguments():
    case = Case({"blocks": [ROW, ROW]}, torch.tensor(6.0))
    assert found(lambda blocks: torch.cat(blocks).sum(), case) is None
    finding = found(lambda blocks: torch.cat([blocks.pop(), ROW]).sum(), case)
    assert finding.values == {"argument": "blocks"}
    assert found(lambda blocks: blocks[1].zero_().sum(), case).text == findings.CHANGED
    named = Case({"weights": {"w": ROW}}, torch.tensor(3.0))
    assert found(lambda weights: weights["w"].sum(), named) is None
    assert found(lambda weights: weights.pop("w").sum(), named).text == findings.CHANGED


def test_what_is_shown_is_short():
    assert format_value(torch.ones(7, 7)) == "Tensor(7, 7)"
    assert format_value(torch.ones(2, requires_grad=True)) == "tensor([1., 1.])"
    assert format_value([1, 0.5]) == "[1,\n 0.5]"
    assert format_value({"w": torch.ones(7, 7), "n": 1}) == "{'w': Tensor(7, 7),\n 'n': 1}"
    assert kind_of((torch.ones(()), [3])) == "tuple(Tensor(), list(int))"


def test_samples_are_the_books():
    scores = samples.SIX_WORDS @ samples.SIX_WORDS[samples.JOURNEY]
    assert [f"{score:.4f}" for score in scores][:3] == ["0.9544", "1.4950", "1.4754"]
