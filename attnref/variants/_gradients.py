"""The gradients of attention to some of the keys, when the weights are known from all of them."""

import torch
from torch import Tensor

from attnref._door import Call, own_precision
from attnref.masks import Mask
from attnref.softmax import Partial
from attnref.variants._autograd import Core
from attnref.variants.blockwise import _Blockwise, _Kernel, _kernel_is_as_fast, _on_cpu


def gradients(call: Call, grad: Tensor, found: Partial) -> tuple[Tensor, Tensor, Tensor]:
    """What the keys of this call add to the gradients of query, key and value.

    ``found`` may be merged with attention over other keys: the weights come from its maximum and
    normaliser, and ``grad`` is the gradient of its output. In the dtype of computation; a mask has
    all rows and keys of the call.
    """
    lead, mask = call.shape[:-2], call.attn_mask
    query, key, value = (x.expand(*lead, *x.shape[-2:]) for x in call.tensors())
    known: tuple[Tensor, Tensor, Tensor]
    core: Core
    if _on_cpu(call) and _kernel_is_as_fast(call) and value.shape == key.shape and call.scale > 0:
        core = _Kernel(call.is_causal, call.scale)
        lse = found.log_sum_exp()[..., None]  # (..., n, 1)
        known = found.output, lse[..., :0], lse
    else:
        core = _Blockwise(mask if isinstance(mask, Mask) else None, call.is_causal, call.scale)
        maximum = found.maximum.masked_fill(found.maximum == -torch.inf, 0.0)
        known = found.output, found.normaliser, maximum / core.unit
    tensors = [mask] if isinstance(mask, Tensor) else []
    with own_precision(query.device):
        nothing = torch.zeros_like(known[1])  # of the normaliser, which is not asked for
        pulled = core.backward(grad, nothing, query, key, value, *known, *tensors)
    d_query, d_key, d_value = (x.to(call.dtype) for x in pulled)
    if call.enable_gqa:  # a key head has the gradients of all query heads that it serves
        heads = *lead[:-1], call.key.shape[-3], -1
        d_key, d_value = (x.reshape(*heads, *x.shape[-2:]).sum(-3) for x in (d_key, d_value))
    return (
        d_query.sum_to_size(call.query.shape),
        d_key.sum_to_size(call.key.shape),
        d_value.sum_to_size(call.value.shape),
    )
