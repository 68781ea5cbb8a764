import pytest
import torch

import attnref
from attnref import masks
from attnref.variants.varlen import METHOD, varlen_attention
from tests.variants.every import every

D_K, D_V = 5, 3
LENGTHS = [7, 1, 0, 5, 5, 5, 11]


def borders(lengths, device):
    return torch.tensor([0, *lengths], device=device).cumsum(0)


def draw_inputs(randn, n, m, lead=(2, 3)):
    shapes = ((*lead, n, D_K), (*lead, m, D_K), (*lead, m, D_V))
    return [randn(*shape).requires_grad_() for shape in shapes]


@pytest.mark.claim("borders-as-packed-mask")
@pytest.mark.parametrize("is_causal", [False, True])
def test_each_sequence_sees_itself_alone(is_causal, device, randn, assert_same):
    inputs = draw_inputs(randn, sum(LENGTHS), sum(LENGTHS))
    mask = masks.packed(LENGTHS).dense(device)
    ours = varlen_attention(*inputs, borders(LENGTHS, device), is_causal=is_causal)
    expected = attnref.scaled_dot_product_attention(*inputs, mask, is_causal=is_causal)
    assert_same(ours, expected, inputs)
    # Without the borders the sequences would contaminate each other.
    wrong = attnref.scaled_dot_product_attention(*inputs, is_causal=is_causal)
    assert (wrong - expected).abs().max() > 0.1


@pytest.mark.claim("keys-have-their-own-borders")
@pytest.mark.parametrize("is_causal", [False, True])
def test_keys_may_have_borders_of_their_own(is_causal, device, randn, assert_same):
    """Cross-attention; the third sequence has no keys, the last no queries."""
    lengths, key_lengths = [7, 2, 3, 5, 0], [3, 11, 0, 5, 2]
    inputs = draw_inputs(randn, sum(lengths), sum(key_lengths))
    options = {"cu_seqlens_key": borders(key_lengths, device), "is_causal": is_causal}
    ours = varlen_attention(*inputs, borders(lengths, device), **options)
    expected = METHOD.formula(*inputs, borders(lengths, device), **options)
    assert_same(ours, expected, inputs)
    assert (ours[..., 9:12, :] == 0).all()


@pytest.mark.claim("padded-as-packed")
def test_padded_batches_give_the_same(device, randn):
    """The same sequences padded and masked: equal where they are real."""
    lengths = [7, 3, 11]
    padded = [randn(3, 2, 11, width) for width in (D_K, D_K, D_V)]
    packed = [
        torch.cat([x[sample, :, :length] for sample, length in enumerate(lengths)], -2)
        for x in padded
    ]
    ours = varlen_attention(*packed, borders(lengths, device)).split(lengths, -2)
    expected = attnref.scaled_dot_product_attention(
        *padded, masks.padding(lengths, 11).dense(device)
    )
    for sample, length in enumerate(lengths):
        torch.testing.assert_close(
            ours[sample], expected[sample, :, :length], rtol=1e-12, atol=1e-12
        )


@pytest.mark.claim("equal-lengths-share-a-call")
def test_neighbours_of_one_length_share_a_call(device, randn):
    calls = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function is torch.nn.functional.scaled_dot_product_attention:
                calls.append(tuple(args[0].shape))
            return function(*args, **(kwargs or {}))

    inputs = [x.detach() for x in draw_inputs(randn, sum(LENGTHS), sum(LENGTHS))]
    with Watch():
        varlen_attention(*inputs, borders(LENGTHS, device))
    assert calls == [(count, 6, length, D_K) for count, length in ((1, 7), (1, 1), (3, 5), (1, 11))]


@every(
    ("wrong", "kind", "came"),
    [
        (torch.tensor([0.0, 5.0]), TypeError, r"got shape \(2,\) of torch\.float32"),
        (
            torch.tensor([[0, 5]]),
            ValueError,
            r"got shape \(1, 2\) of torch\.int64.* lengths\.cumsum\(0\)",
        ),
    ],
)
def test_borders_are_integers(wrong, kind, came, randn):
    with pytest.raises(kind, match=rf"^cu_seqlens: expected integers.*{came}"):
        varlen_attention(*draw_inputs(randn, 5, 5), wrong)


@every("wrong", [[0, 4], [1, 5], [0, 4, 3, 5], []])
def test_borders_rise_from_0_to_the_number_of_tokens(wrong, randn):
    with pytest.raises(ValueError, match=r"^cu_seqlens: expected borders that rise from 0 to 5"):
        varlen_attention(*draw_inputs(randn, 5, 5), torch.tensor(wrong, dtype=torch.int32))


def test_queries_and_keys_have_as_many_sequences(device, randn):
    text = r"^cu_seqlens_key: expected 3 borders.* got 2\..* repeats its border"
    with pytest.raises(ValueError, match=text):
        varlen_attention(
            *draw_inputs(randn, 5, 7), borders([2, 3], device), cu_seqlens_key=borders([7], device)
        )


@every("lead", [(), (0,), (2, 0)])
@every("width", [0, 3])
def test_nothing_gives_nothing(lead, width):
    tokens = torch.ones(*lead, 4, 2)
    borders = torch.tensor([0, 1, 4])
    output = varlen_attention(tokens, tokens, torch.ones(*lead, 4, width), borders)
    assert output.shape == (*lead, 4, width)
