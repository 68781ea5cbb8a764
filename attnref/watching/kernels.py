"""Why PyTorch chose no fused kernel, where that is cheap to change."""

import warnings
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.backends import cuda

from attnref.text import Text

SWITCHED_OFF = Text(
    "fused kernels are switched off (sdpa_kernel, or enable_flash_sdp). Allow them unless that is "
    "on purpose."
)
AXES = Text(
    "query has {axes} axes, and the fused kernel needs 4 (batch, heads, queries, width): use "
    "unsqueeze(0) or flatten(0, -4), and restore the shape of the output."
)
MASK_AXES = Text("attn_mask has {axes} axes, but needs 2 or 4: use unsqueeze(0).")
STRIDE = Text("the last axis of {name} is not contiguous: use {name}.contiguous().")
LEARNED = Text("attn_mask requires a gradient. If it is not learned, pass attn_mask.detach().")
WIDTHS = Text(
    "value has {d_v} components and query {d_k}. Pad the narrower with zeros: if that is value, "
    "trim the output; if it is query and key, also pass scale={d_k} ** -0.5."
)
HEADS = Text(
    "query has {heads} heads and key {shared}: pass enable_gqa=True, so that heads share keys "
    "without a broadcast."
)
NEED_WEIGHTS = Text(
    "nn.MultiheadAttention was called with need_weights=True, its default, and computes every "
    "weight. Pass need_weights=False unless you use them."
)
TOLD = Text("{said}")


def reason(given: Mapping[str, Any]) -> Text | None:
    """What to change of a call of ``scaled_dot_product_attention`` that no fused kernel took.

    None where nothing is known, or where it is asked for, as dropout is.
    """
    query, key, value = (given[name] for name in ("query", "key", "value"))
    mask = given.get("attn_mask")
    if query.is_cuda:
        return _told(query, key, value, mask, given)
    if query.is_nested or given.get("dropout_p") or not min(query.numel(), key.numel()):
        return None
    if not cuda.flash_sdp_enabled():  # type: ignore[no-untyped-call]
        return SWITCHED_OFF
    if query.dim() != 4:
        return AXES.fill({"axes": query.dim()})
    if isinstance(mask, Tensor):
        if mask.dim() not in (2, 4):
            return MASK_AXES.fill({"axes": mask.dim()})
        if mask.requires_grad:
            return LEARNED
    if key.shape[1] != query.shape[1] and not given.get("enable_gqa"):
        return HEADS.fill({"shared": key.shape[1], "heads": query.shape[1]})
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.stride(-1) != 1:
            return STRIDE.fill({"name": name})
    if value.shape[-1] != query.shape[-1]:
        return WIDTHS.fill({"d_v": value.shape[-1], "d_k": query.shape[-1]})
    return None


def _told(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, given: Mapping[str, Any]
) -> Text | None:
    """What PyTorch says itself, on a GPU."""
    options = (given.get("dropout_p", 0.0), given.get("is_causal", False))
    asked = cuda.SDPAParams(query, key, value, mask, *options, bool(given.get("enable_gqa", False)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if cuda.can_use_flash_attention(asked, debug=True):
            return None
        cuda.can_use_efficient_attention(asked, debug=True)
    lines = [str(each.message).partition(" (Triggered")[0] for each in said]
    return TOLD.fill({"said": " ".join(lines[:2])}) if lines else None
