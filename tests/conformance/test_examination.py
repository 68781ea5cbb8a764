"""How a property is asked: errors, refusals, cautions, and counterexamples made small."""

import functools

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as fused

from attnref.conformance import Verdict, check
from attnref.conformance.case import Case, Sizes
from attnref.conformance.right import attention
from attnref.conformance.subject import CheckError


def judged(function, rule, **settings):
    (result,) = check(function, only=[rule], limit=None, **settings).results
    return result


def raising(error, **when):
    """Raises where an option that is named has the value that is named, or always."""

    def attention(query, key, value, attn_mask=None, is_causal=False):
        given = {"attn_mask": attn_mask is not None, "is_causal": is_causal}
        if all(given[name] == wanted for name, wanted in when.items()):
            raise type(error)(*error.args)  # a new one, for each keeps all its tracebacks
        return fused(query, key, value, attn_mask, is_causal=is_causal)

    return attention


SIZES = RuntimeError("size 5 must match size 7")


def test_what_it_raises_is_reported_with_its_place():
    found = judged(raising(SIZES, is_causal=True), "causality")
    assert found.verdict is Verdict.WRONG
    said = f"It raised RuntimeError: size 5 must match size 7 (at {__file__}:"
    assert found.diagnosis("en").startswith(said)
    assert found.counterexample.arguments["query"] == [[[[2.0]]]]

    found = judged(raising(NotImplementedError()), "shape")  # in each call: not written at all
    assert found.verdict is Verdict.WRONG
    said = f"It is not written yet: it raised NotImplementedError (at {__file__}:"
    assert found.diagnosis("en").startswith(said)
    assert found.diagnosis("pt").startswith("Ela ainda não foi escrita: lançou NotImplementedErro")

    found = judged(raising(SystemExit(3), is_causal=True), "causality")
    assert "It raised SystemExit: 3" in found.diagnosis("en")


def test_what_never_answers_is_said_once():
    with pytest.raises(CheckError, match=r"failed in a call .*: IndexError: too many indices"):
        check(raising(IndexError("too many indices")), limit=None)


def test_an_option_may_be_declined_with_a_clear_error():
    for error, verdict in (
        (ValueError("not today"), Verdict.NOT_CLAIMED),
        (NotImplementedError(), Verdict.NOT_CLAIMED),
        (AssertionError(), Verdict.NOT_CLAIMED),
        (RuntimeError("is_causal is not for me"), Verdict.NOT_CLAIMED),
        (SIZES, Verdict.WRONG),
        (IndexError("list index out of range"), Verdict.WRONG),
    ):
        found = judged(raising(error, is_causal=True), "causality")
        assert found.verdict is verdict, error
        if verdict is Verdict.NOT_CLAIMED:
            said = f"It declines with a clear error: {type(error).__name__}"
            assert found.diagnosis("en").startswith(said)


def test_masks_may_be_declined():
    declines = raising(ValueError("attn_mask: expected None"), attn_mask=True)
    rules = ["mask_polarity", "float_mask", "fully_masked", "mask_broadcast", "padding_amount"]
    found = check(declines, only=rules, limit=None).results
    assert {each.verdict for each in found} == {Verdict.NOT_CLAIMED}


def four_axes(query, key, value, attn_mask=None):
    if attn_mask is not None and attn_mask.dim() == 2:
        raise ValueError("attn_mask: expected four dimensions")
    return fused(query, key, value, attn_mask)


def no_more_queries(query, key, value, is_causal=False):
    if query.shape[-2] > key.shape[-2]:
        raise ValueError("query: expected no more queries than keys")
    return fused(query, key, value, is_causal=is_causal)


def as_many_queries(query, key, value, is_causal=False):
    if query.shape[-2] != key.shape[-2]:
        raise ValueError("query: expected as many queries as keys")
    return fused(query, key, value, is_causal=is_causal)


def of_one_dtype(query, key, value):
    if query.dtype != torch.float32:
        raise TypeError("query: expected float32")
    return fused(query, key, value)


def without_gradients(query, key, value, attn_mask=None):
    return fused(query, key, value, attn_mask).detach()


def no_masks_of_bfloat16(query, key, value, attn_mask=None):
    """What is refused under one dtype is asked under the other."""
    if attn_mask is not None and query.dtype == torch.bfloat16:
        raise TypeError("attn_mask: expected float32 or float16, got bfloat16")
    return fused(query, key, value, attn_mask)


COLLIDES = raising(SIZES, attn_mask=True, is_causal=True)
NEVER = raising(ValueError("never"), is_causal=True)


@pytest.mark.parametrize(
    ("function", "rule", "verdict", "settings"),
    [
        (COLLIDES, "mask_with_causal", "WRONG", {}),
        (COLLIDES, "silent_arguments", "PASS", {}),
        (NEVER, "silent_arguments", "PASS", {}),
        (four_axes, "mask_broadcast", "NOT_CLAIMED", {"mask_means": "allowed"}),
        (four_axes, "mask_broadcast", "PASS", {}),  # it is read as it wants it
        (no_more_queries, "alignment", "CONVENTION", {}),
        (no_more_queries, "rectangular", "NOT_CLAIMED", {}),
        (as_many_queries, "alignment", "NOT_CLAIMED", {}),
        (as_many_queries, "rectangular", "NOT_CLAIMED", {}),
        (as_many_queries, "single_token", "PASS", {}),  # of one query and one key
        (of_one_dtype, "dtype", "PASS", {}),
        (without_gradients, "gradients", "NOT_CLAIMED", {}),
        (without_gradients, "gradient_penalty", "PASS", {}),
        (without_gradients, "fully_masked_gradient", "PASS", {}),
        (no_masks_of_bfloat16, "half_precision", "PASS", {}),
        (attention, "softcap_order", "PASS", {"supports": ["softcap"]}),
        (attention, "softcap_order", "PASS", {"supports": ["softcap", "is_causal"]}),
    ],
)
def test_what_a_function_does_not_do_is_judged_as_that(function, rule, verdict, settings):
    assert judged(function, rule, **settings).verdict is Verdict[verdict]


def test_the_only_dtype_it_takes_must_be_the_one_that_is_asked():
    with pytest.raises(CheckError, match="TypeError: query: expected float32"):
        judged(of_one_dtype, "dtype", dtype="float64")


def test_without_an_option_there_is_nothing_behind_a_mask():
    found = judged(lambda query, key, value: fused(query, key, value), "nan_behind_mask")
    assert found.verdict is Verdict.NOT_CLAIMED
    assert found.diagnosis("en") == (
        "It takes no attn_mask, is_causal; its parameters are query, key, value."
    )


def test_a_result_that_is_no_plain_tensor_is_said():
    found = judged(lambda query, key, value: fused(query, key, value).to_sparse(), "oracle")
    assert "a tensor of torch.float32 and torch.sparse_coo" in found.diagnosis("en")
    found = judged(lambda query, key, value: 3, "oracle")
    assert "It returned int, not a tensor" in found.diagnosis("en")
    found = judged(lambda query, key, value: fused(query, key, value)[0], "oracle")
    assert "It returned shape (1, 1, 1), expected (1, 1, 1, 1)" in found.diagnosis("en")


def test_a_function_without_a_line_of_python_is_named_by_its_name():
    with pytest.raises(CheckError, match=r"\(at partial\)"):
        judged(functools.partial(torch.nn.functional.linear), "oracle")


def test_a_backward_that_raises_is_reported():
    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, query, key, value):
            return fused(query, key, value)

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("no way back")

    found = judged(lambda q, k, v: Forward.apply(q, k, v), "gradients")
    assert "It raised KeyError: 'no way back'" in found.diagnosis("en")


def test_gradients_under_causality_are_looked_at_too():
    class Causal(torch.autograd.Function):
        @staticmethod
        def forward(ctx, query, key, value):
            ctx.save_for_backward(query, key, value)
            return fused(query, key, value, is_causal=True)

        @staticmethod
        def backward(ctx, grad):  # forgets the mask
            leaves = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            with torch.enable_grad():
                return torch.autograd.grad(fused(*leaves), leaves, grad)

    def attention(query, key, value, is_causal=False):
        return Causal.apply(query, key, value) if is_causal else fused(query, key, value)

    found = judged(attention, "gradients")
    assert found.verdict is Verdict.WRONG
    assert found.counterexample.arguments["is_causal"] is True
    ignores = judged(lambda q, k, v, is_causal=False: fused(q, k, v), "gradients")
    assert ignores.verdict is Verdict.PASS  # causality tells of it


def test_what_is_unsafe_in_pytorch_too_is_said():
    found = judged(fused, "nan_behind_mask")
    assert found.verdict is Verdict.UNSAFE
    assert found.diagnosis("en").endswith("PyTorch's own function does so too.")
    assert found.diagnosis("pt").endswith("A função do próprio PyTorch também faz isso.")


def test_random_numbers_are_left_as_they_were():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    judged(fused, "dropout_scale")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.claim("same-seed-same-inputs")
def test_inputs_depend_on_the_seed_alone():
    one = Case.draw(Sizes(), 3)
    torch.randn(11)  # moves PyTorch's own generator, which must not matter
    same, other = (Case.draw(Sizes(), seed) for seed in (3, 4))
    for drawn in ("query", "key", "value"):
        assert torch.equal(getattr(one, drawn), getattr(same, drawn))
        assert not torch.equal(getattr(one, drawn), getattr(other, drawn))
    assert one.query.shape == one.key.shape == one.value.shape == (2, 3, 7, 8)


def test_smaller_sizes_come_in_order_and_keep_what_must_stay():
    base = Sizes(heads=4, key_heads=2, d_k=16, keep=("d_k",))
    smaller = list(base.shrink())
    assert smaller[0] == Sizes(1, 1, 1, 1, None, 16)
    assert {sizes.d_k for sizes in smaller} == {16}
    assert all(sizes.heads % sizes.key_heads == 0 for sizes in smaller)
    counts = [sizes.numbers() for sizes in smaller]
    assert counts == sorted(counts)
    assert max(counts) <= base.numbers()


def test_a_counterexample_is_as_small_as_it_can_be():
    def attention(query, key, value, is_causal=False):
        mask = torch.ones(query.shape[-2], key.shape[-2]).tril(1).bool() if is_causal else None
        return fused(query, key, value, mask)

    arguments = judged(attention, "causality").counterexample.arguments
    assert torch.tensor(arguments["query"]).shape == (1, 1, 3, 1)  # with 2 it is as if ignored
    assert torch.tensor(arguments["query"]).frac().eq(0).all()


@pytest.mark.parametrize(("mended", "verdict"), [(True, Verdict.PASS), (False, Verdict.WRONG)])
def test_blocks_that_are_too_large_for_an_answer_by_hand_are_left_out(mended, verdict):
    """Whole blocks of 128 make long rows large problems; the other sizes are asked all the same."""

    def attention(query, key, value):
        assert query.shape[-1] == 64
        assert query.shape[-2] % 128 == key.shape[-2] % 128 == 0
        if mended or query.shape[0] < 5:
            return fused(query, key, value)
        return fused(query, key, value.flip(0))

    assert judged(attention, "other_sizes").verdict is verdict


def test_only_what_pytorch_does_for_the_same_tensor_is_shared_with_it():
    """PyTorch loses NaN of a query on this kind of machine, and none of a value."""

    def attention(query, key, value):
        return fused(query, key, value.nan_to_num(0.0))

    found = judged(attention, "nan_seen")
    assert "NaN in a value" in found.diagnosis("en")
    assert "PyTorch" not in found.diagnosis("en")


def test_an_option_that_raises_in_each_call_is_named_in_the_verdict():
    """Otherwise what was never answered would read as right."""

    def attention(query, key, value, attn_mask=None, is_causal=False):
        if attn_mask is not None or is_causal:
            raise NotImplementedError("neither masks nor causality")
        return fused(query, key, value)

    rules = ["mask_polarity", "mask_gradient", "scaling_order", "causality", "oracle"]
    report = check(attention, only=rules, limit=None)
    assert report.declined == ("attn_mask", "is_causal")
    assert report.verdict("en") == (
        "Right in all that was tested. "
        "Not accepted: attn_mask, is_causal; each call with it raised an error."
    )
    half = raising(NotImplementedError("no masks"), attn_mask=True)
    assert check(half, only=rules, limit=None).declined == ("attn_mask",)
    assert check(fused, only=rules, limit=None).declined == ()


def test_a_mask_that_nobody_asked_for_is_named_as_what_it_is():
    """What is causal by itself has no option that could be at fault."""

    def attention(query, key, value):
        scores = query @ key.mT * query.shape[-1] ** -0.5
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        return scores.masked_fill(~seen, -1e10).softmax(-1) @ value

    found = judged(attention, "very_negative_scores")
    assert found.verdict is Verdict.UNSAFE
    assert "Its causal mask is not obeyed, or puts a number above them" in found.diagnosis("en")


def test_a_number_that_is_none_where_scores_are_low_is_unsafe():
    def attention(query, key, value):
        scores = query @ key.mT * query.shape[-1] ** -0.5
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        low = (scores < -1e9).any(-1, keepdim=True)
        return scores.masked_fill(~seen, -1e30).softmax(-1).masked_fill(low, torch.nan) @ value

    assert judged(attention, "very_negative_scores").verdict is Verdict.UNSAFE
