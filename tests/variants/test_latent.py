"""Latent attention: one function in two orders, its cache, and what it asks for."""

import re

import pytest
import torch

import attnref
from attnref import KVCache, masks
from attnref.positions import rotary
from attnref.variants.latent import METHOD, latent_attention
from tests.variants.every import every

H, D_K, D_V, D_C, D_R = 3, 5, 2, 11, 4
CLOSE = {"rtol": 1e-12, "atol": 1e-13}  # a few hundred roundings of float64


@pytest.fixture
def inputs(randn):
    """Query, latent, the two matrices of each head, and the rotary parts."""

    def drawn(n=7, m=13, lead=(2,), heads=H):
        shapes = {
            "query": (*lead, heads, n, D_K),
            "latent": (*lead, m, D_C),
            "key_up": (heads, D_K, D_C),
            "value_up": (heads, D_V, D_C),
            "query_rotary": (*lead, heads, n, D_R),
            "key_rotary": (*lead, m, D_R),
        }
        return {name: randn(*shape).requires_grad_() for name, shape in shapes.items()}

    return drawn


@pytest.mark.claim("latent-orders-agree")
@pytest.mark.parametrize("absorb", [True, False, None])
@every("masked", [None, "bool", "float", "heads", "object"])
@every(("n", "is_causal"), ((0, False), (1, False), (7, False), (7, True)))
def test_both_orders_are_the_definition_in_values_and_gradients(
    absorb, is_causal, masked, n, inputs, randn, assert_same
):
    given = inputs(n=n)
    mask = {
        None: None,
        "bool": randn(2, 1, n, 13) > -0.5,
        "float": randn(n, 13),
        "heads": randn(2, H, n, 13) > -0.5,
        "object": masks.causal(n, 13, alignment="bottom-right"),
    }[masked]
    options = {"is_causal": is_causal, "scale": 0.7}
    ours = latent_attention(**given, attn_mask=mask, absorb=absorb, **options)
    expected = METHOD.formula(**given, attn_mask=mask, **options)
    assert_same(ours, expected, [*given.values()])


@every("lead", [(), (2,), (2, 1, 3)])
@every("absorb", [True, False])
@every("n", [1, 7])
def test_it_does_without_positions_and_with_any_batch(n, absorb, lead, inputs):
    given = inputs(n=n, lead=lead)
    del given["query_rotary"], given["key_rotary"]
    torch.testing.assert_close(
        latent_attention(**given, absorb=absorb), METHOD.formula(**given), **CLOSE
    )


@pytest.mark.claim("latent-holds-multi-head")
@every("absorb", [True, False])
def test_a_latent_of_all_keys_and_values_is_multi_head_attention(absorb, randn):
    """The matrices pick a head's own numbers, so that nothing is compressed."""
    query, key, value = randn(2, H, 7, D_K), randn(2, H, 13, D_K), randn(2, H, 13, D_V)
    latent = torch.cat([x.transpose(1, 2).flatten(2) for x in (key, value)], -1)
    eye = torch.eye(latent.shape[-1], dtype=query.dtype, device=query.device)
    key_up, value_up = eye[: H * D_K].unflatten(0, (H, -1)), eye[H * D_K :].unflatten(0, (H, -1))
    ours = latent_attention(query, latent, key_up, value_up, is_causal=True, absorb=absorb)
    expected = attnref.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(ours, expected, **CLOSE)


@pytest.mark.claim("latent-steps-are-one-pass")
def test_step_by_step_from_the_latents_is_one_causal_pass(inputs, device):
    """What is kept is the latent and the rotated key, in a cache of either kind."""
    m = 11
    given = {name: tensor.detach() for name, tensor in inputs(n=m, m=m).items()}
    turned = {**given}
    for name in ("query_rotary", "key_rotary"):
        turned[name] = rotary(given[name])
    expected = latent_attention(**turned, is_causal=True, absorb=False)
    for cache in (KVCache(), KVCache(max_length=m)):
        steps = []
        for begin, end in ((0, 4), (4, 5), (5, 6), (6, 9), (9, 10), (10, 11)):
            now = slice(begin, end)
            latents, keys = cache.append(
                given["latent"][..., now, :], rotary(given["key_rotary"][..., now, :], offset=begin)
            )
            mask = masks.causal(end - begin, end, alignment="bottom-right")
            steps.append(
                latent_attention(
                    given["query"][..., now, :],
                    latents,
                    given["key_up"],
                    given["value_up"],
                    mask if end - begin > 1 else None,
                    query_rotary=rotary(given["query_rotary"][..., now, :], offset=begin),
                    key_rotary=keys,
                    absorb=True,
                )
            )
        torch.testing.assert_close(torch.cat(steps, -2), expected, **CLOSE)


@pytest.mark.claim("latent-scores-depend-on-distance")
def test_all_positions_moved_alike_change_nothing(inputs):
    given = inputs(n=13)

    def moved(offset):
        turned = {
            name: rotary(given[name], offset=offset) for name in ("query_rotary", "key_rotary")
        }
        return latent_attention(**{**given, **turned}, is_causal=True, absorb=True)

    torch.testing.assert_close(moved(0), moved(1000), rtol=1e-9, atol=1e-10)
    assert (moved(0) - METHOD.formula(**given, is_causal=True)).abs().max() > 1e-3


@pytest.mark.claim("rotation-blocks-absorption")
def test_a_rotation_between_the_matrices_cannot_be_absorbed(randn):
    """A rotated key made of the latent is no one matrix times it: it changes with the position."""
    U, latent = randn(6, D_C), randn(D_C)
    keys = rotary((U @ latent).expand(13, 6))  # the same latent at each position
    assert (keys[0] - keys[1:]).norm(dim=-1).min() > 1e-3 * keys[0].norm()
    plain = (U @ latent).expand(13, 6)
    assert (plain == plain[0]).all()


@pytest.mark.claim("latent-chooses-fewer-operations")
@pytest.mark.parametrize(("n", "absorbed"), [(1, True), (2, True), (64, False)])
def test_without_a_word_it_takes_the_order_of_fewer_operations(n, absorbed, randn, monkeypatch):
    from attnref.variants import latent as module

    def operations(absorb):
        made = (n if absorb else 64) * 32 * (8 + 8)
        return made + n * 64 * ((2 * 32 + 4) if absorb else (8 + 4 + 8))

    assert (operations(True) < operations(False)) == absorbed
    shapes, original = [], module.enter
    monkeypatch.setattr(
        module, "enter", lambda *a, **o: (shapes.append(tuple(a[1].shape)), original(*a, **o))[1]
    )
    latent_attention(
        randn(H, n, 8),
        randn(64, 32),
        randn(H, 8, 32),
        randn(H, 8, 32),
        query_rotary=randn(H, n, 4),
        key_rotary=randn(64, 4),
    )
    assert shapes == [(1, 64, 36) if absorbed else (H, 64, 12)]


@pytest.mark.claim("latent-cache-is-read-once")
def test_a_step_hands_the_kernel_the_latents_once(randn, monkeypatch):
    """As one head with a query for each head of ours, and the same tensor as key and value."""
    from attnref.variants import _kernels

    kernel, seen = _kernels.scaled_dot_product_attention, []

    def recorded(query, key, value, mask, **options):
        same = key.untyped_storage().data_ptr() == value.untyped_storage().data_ptr()
        seen.append((tuple(query.shape), tuple(key.shape), same))
        return kernel(query, key, value, mask, **options)

    monkeypatch.setattr(_kernels, "scaled_dot_product_attention", recorded)
    latent_attention(
        randn(2, 16, 1, D_K),
        randn(2, 13, D_C),
        randn(16, D_K, D_C),
        randn(16, D_V, D_C),
        query_rotary=randn(2, 16, 1, D_R),
        key_rotary=randn(2, 13, D_R),
    )
    assert seen == [((2, 1, 16, D_C + D_R), (2, 1, 13, D_C + D_R), True)]


@every("absorb", [True, False])
@every("n", [1, 3])
def test_a_mask_may_have_any_number_of_dimensions(absorb, n, inputs, randn):
    given = inputs(n=n)
    for shape in ((1,), (13,), (1, 13), (n, 1), (1, n, 13), (H, 1, 13), (2, 1, 1, 13)):
        for mask in (randn(*shape) > -1, randn(*shape)):
            ours = latent_attention(**given, attn_mask=mask, absorb=absorb)
            whole = mask.expand(torch.broadcast_shapes(shape, (2, H, n, 13)))
            torch.testing.assert_close(ours, METHOD.formula(**given, attn_mask=whole), **CLOSE)


def test_of_several_queries_too_the_latents_are_not_copied_for_each_head(inputs, monkeypatch):
    from attnref.variants import latent as module

    seen, original = [], module.blockwise
    monkeypatch.setattr(module, "blockwise", lambda call: (seen.append(call), original(call))[1])
    mask = masks.causal(3, 13, alignment="bottom-right")
    latent_attention(**inputs(n=3), attn_mask=mask, absorb=True)
    assert [tuple(call.key.shape) for call in seen] == [(2, 1, 13, D_C + D_R)]
    assert [tuple(call.query.shape) for call in seen] == [(2, 1, 3 * H, D_C + D_R)]


@every("absorb", [True, False])
def test_the_scale_is_checked_with_the_width_of_query_and_rotary_part(absorb, inputs):
    with pytest.raises(ValueError, match=r"^scale: expected .* 1/sqrt\(9\)"):
        latent_attention(**inputs(), scale=float("inf"), absorb=absorb)


@pytest.mark.parametrize("n", [1, 64])
@every("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_it_errs_no_more_than_the_budget(n, dtype, device, generator):
    """Twice the error of PyTorch's own path, with keys and values made and rounded before."""

    def drawn(*shape, std=1.0):
        return (std * torch.randn(*shape, device=device, generator=generator)).to(dtype)

    m, d_c, heads, d = 509, 64, 4, 32
    query, latent = drawn(heads, n, d), drawn(m, d_c)
    ups = drawn(heads, d, d_c, std=d_c**-0.5), drawn(heads, d, d_c, std=d_c**-0.5)
    exact = latent_attention(query.double(), latent.double(), *(up.double() for up in ups))
    key, value = (latent @ up.mT for up in ups)
    theirs = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    for absorb in (True, False):
        ours = latent_attention(query, latent, *ups, absorb=absorb)
        assert ours.dtype == dtype
        assert (ours - exact).norm() <= 2 * (theirs - exact).norm()


@every(
    ("change", "message"),
    [
        ({"query": (7, D_K)}, "query: expected shape (..., h, n, d_k), got (7, 5)."),
        ({"query": (H, 7, 0)}, "query: expected d_k of at least 1, got 0"),
        ({"latent": (D_C,)}, "latent: expected shape (..., m, d_c), got (11,)."),
        ({"latent": (13, 0)}, "latent: expected d_c of at least 1, got 0"),
        ({"latent": (3, 13, D_C)}, "latent: expected leading dimensions that broadcast"),
        ({"key_up": (H * D_K, D_C)}, "key_up: expected shape (3, 5, 11), a matrix for each head"),
        ({"value_up": (2, D_V, D_C)}, "value_up: expected shape (3, 2, 11), a matrix for each"),
        ({"value_up": (D_V, D_C)}, "value_up: expected shape (3, d_v, 11), a matrix for each"),
        ({"query_rotary": (H, 6, D_R)}, "query_rotary: expected shape (3, 7, 4), got (3, 6, 4)."),
        ({"key_rotary": (13, 3)}, "key_rotary: expected shape (13, 4), got (13, 3)."),
        ({"key_rotary": None}, "key_rotary: expected a tensor beside the other rotary part, got"),
        ({"query_rotary": None}, "query_rotary: expected a tensor beside the other rotary part"),
    ],
)
def test_a_wrong_shape_is_named(change, message, inputs, randn):
    given = inputs(lead=()) | {
        name: None if shape is None else randn(*shape) for name, shape in change.items()
    }
    if "latent" in change and len(change["latent"]) == 3:
        given |= {"query": randn(2, H, 7, D_K), "query_rotary": randn(2, H, 7, D_R)}
        given["key_rotary"] = randn(3, 13, D_R)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        latent_attention(**given)
