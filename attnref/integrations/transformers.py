r"""Hugging Face Transformers on the definition: ``attn_implementation="attnref"``.

    O = softmax(s tanh(c QKᵀ / s) + B)V

Importing this module registers the name. A model that takes its attention from Transformers'
interface then runs on :func:`attnref.scaled_dot_product_attention`, in training and in
``generate``, once it is loaded with ``attn_implementation="attnref"`` or told so by
``model.set_attn_implementation("attnref")``. What a call says is honoured or refused.

Examples:
    >>> from transformers import AutoModel, LlamaConfig
    >>> sizes = {"hidden_size": 10, "num_attention_heads": 5, "num_hidden_layers": 1}
    >>> config = LlamaConfig(**sizes, intermediate_size=7, vocab_size=11)
    >>> model = AutoModel.from_config(config, attn_implementation="attnref")
    >>> model(torch.tensor([[1, 2, 3]]), output_attentions=True).attentions[0].shape
    torch.Size([1, 5, 3, 3])
"""

import functools
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from attnref.book import install
from attnref.masks.tensors import combine_masks
from attnref.reference import attend

__all__ = ["attnref_attention_forward", "attnref_mask"]

# Imported by name, since what the package needs at run time is PyTorch and NumPy.
try:
    _transformers: Any = import_module("transformers")
    _masking: Any = import_module("transformers.masking_utils")
except ImportError as error:
    raise ImportError(
        f"transformers: expected the package of version 5.23 or later, got: {error}. "
        f"{install('peers')}"
    ) from error

# What reaches an attention by way of a model's ``**kwargs`` and asks nothing of it.
HARMLESS = (
    # what the model should give back
    *("logits_to_keep", "num_items_in_batch", "output_attentions", "output_hidden_states"),
    *("output_router_logits", "return_dict"),
    # what has done its work: positions are in query and key, the cache is in key and value
    *("cache_params", "cache_position", "cycle_offset", "past_key_values", "position_embeddings"),
    *("position_ids", "t_cond", "use_cache"),
    # inputs of the model itself
    *("decoder_attention_mask", "decoder_input_ids", "decoder_inputs_embeds"),
    *("decoder_position_ids", "encoder_outputs", "input_ids", "inputs_embeds"),
    # how a kernel should go about it; the sequences are told apart by cu_seq_lens
    *("deterministic", "max_length_k", "max_length_q", "max_seqlen"),
)


def attnref_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    *,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    indices: Tensor | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    seq_idx: Tensor | None = None,
    **others: object,
) -> tuple[Tensor, Tensor]:
    r"""Attention as a layer of Transformers calls it, by the definition.

        o_i = Σ_j p_ij v_j
        p_ij = e^(s_ij) / (e^σ + Σ_l e^(s_il))
        s_ij = softcap(c q_i·k_j) + b_ij

    Args:
        module: the layer. ``is_causal`` and ``sinks`` are taken from it if they are not passed.
        query: ``(b, h, n, d_k)``.
        key: ``(b, h_k, m, d_k)``; consecutive query heads share a key head.
        value: ``(b, h_k, m, d_v)``.
        attention_mask: broadcasts to ``(b, h, n, m)``. Bool: ``True`` = may attend. Float: added
            to the scores; ``-inf``, or the lowest number of a dtype, as Transformers writes it,
            = may not attend.
        dropout: share of the weights set to 0; a layer passes 0.0 outside training.
        scaling: the factor c; None means ``1/sqrt(d_k)``.
        is_causal: query i sees the keys j <= i; counts without a mask and for n > 1 only.
        softcap: bounds the scaled scores before the mask.
        s_aux: the score σ of each head's sink, ``(h,)``.
        position_bias: added to the scores, broadcasts to ``(b, h, n, m)``.
        indices: the keys that each query may attend to, ``(b, n, k)``, of sparse attention.
        sliding_window: what the mask already says; looked at only if there is none.
        cu_seq_lens_q, cu_seq_lens_k: where packed sequences begin and the last one ends; the mask
            has to keep them apart.
        seq_idx: the number of each token's sequence, ``(b, n)``; likewise.
        others: what is in ``HARMLESS``, or None.

    Returns:
        The output, ``(b, n, h, d_v)`` and contiguous, and the weights, ``(b, h, n, m)``.

    Raises:
        NotImplementedError: for an argument that the definition does not know.
        ValueError: for a window or packed sequences that no mask has, and as in
            :func:`attnref.attend`, which has exactness and cost, too.

    Source: Transformers 5.23, ``integrations/sdpa_attention.py``.

    Examples:
        >>> query = key = value = torch.ones(1, 2, 3, 4)
        >>> output, weights = attnref_attention_forward(nn.Identity(), query, key, value)
        >>> output.shape
        torch.Size([1, 3, 2, 4])
        >>> weights[0, 0]
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.3333, 0.3333, 0.3333]])
    """
    for name, given in others.items():
        if given is not None and name not in HARMLESS:
            raise NotImplementedError(
                f"{name}: expected None, got {type(given).__name__}. The definition has no such "
                "argument: call the model without it, or load it with "
                "attn_implementation='eager'."
            )
    n, m = query.shape[-2], key.shape[-2]
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    is_causal = bool(is_causal) and attention_mask is None and n > 1
    if attention_mask is None and sliding_window is not None and m > sliding_window:
        raise ValueError(
            f"sliding_window: expected an attention_mask with it for {m} keys, got "
            f"{sliding_window} and no mask. Make one with create_sliding_window_causal_mask of "
            "transformers.masking_utils."
        )

    masks = [] if attention_mask is None else [_exclude(attention_mask, query.dtype)]
    if position_bias is not None:
        masks.append(position_bias)
    if indices is not None:
        chosen = indices.new_zeros((*indices.shape[:-1], m), dtype=torch.bool)
        masks.append(chosen.scatter(-1, indices.long(), True)[:, None])  # (b, 1, n, m)
    mask = functools.reduce(combine_masks, masks) if masks else None
    starts = [given for given in (cu_seq_lens_q, cu_seq_lens_k) if given is not None]
    if starts:
        _check_apart("cu_seq_lens_q", mask, _number(starts[0], query), _number(starts[-1], key))
    if seq_idx is not None:
        _check_apart("seq_idx", mask, seq_idx, seq_idx)

    # Under autocast a norm or rotation leaves queries and keys in float32, the values are not.
    dtype = functools.reduce(torch.promote_types, (query.dtype, key.dtype, value.dtype))
    inputs = query.to(dtype), key.to(dtype), value.to(dtype)
    sink: Any = getattr(module, "sinks", None) if s_aux is None else s_aux
    options: tuple[Any, ...] = (mask, dropout, is_causal, scaling, True)
    output, weights, _ = attend(*inputs, *options, softcap=softcap, sink=sink)
    return output.transpose(1, 2).contiguous(), weights


def attnref_mask(*, config: Any, allow_is_bidirectional_skip: bool = False, **sizes: Any) -> Tensor:
    r"""The mask that a model of Transformers hands to each of its attentions.

        b_ij = 0 where query i may attend to key j, else the lowest number of the dtype

    Padding, windows, chunks and packed sequences are in it. It is always made, where others leave
    it out for a kernel's ``is_causal``. It is that of ``"eager"``, of numbers, since some layers
    append numbers to it (DeepSeek-V4), which a mask of bools would take for their contrary.

    Args:
        config: that of the model.
        allow_is_bidirectional_skip: that a mask which hides nothing may be left out; it is not.
        sizes: the other arguments of ``transformers.masking_utils.eager_mask``.

    Returns:
        ``(b, 1, n, m)`` in the dtype of the model.

    Raises:
        NotImplementedError: for a model that computes its attention by itself, as Bloom does,
            and would not call :func:`attnref_attention_forward`.

    Source: Transformers 5.23, ``masking_utils.py``.

    Examples:
        >>> attnref_mask(config=None, batch_size=1, q_length=2, kv_length=2)[0, 0] == 0
        tensor([[ True, False],
                [ True,  True]])
    """
    if _computes_its_own(config.__class__):
        raise NotImplementedError(
            "attn_implementation: expected a model that takes its attention from Transformers' "
            f"interface, got {config.model_type}, which computes its own. Load it with "
            "attn_implementation='eager'."
        )
    mask: Tensor = _masking.eager_mask(**sizes, allow_is_bidirectional_skip=False)
    return mask


def _exclude(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask, ``-inf`` where it has about the lowest number of ``dtype``, biased or not."""
    if mask.dtype == torch.bool:
        return mask
    return mask.masked_fill(mask <= torch.finfo(dtype).min / 2, -torch.inf)


def _number(cu_seq_lens: Tensor, tokens: Tensor) -> Tensor:
    """The number of each token's sequence, ``(b, n)``; the batch is one row of sequences."""
    batch, _, length, _ = tokens.shape
    positions = torch.arange(batch * length, device=tokens.device)
    return torch.bucketize(positions, cu_seq_lens[1:], right=True).view(batch, length)


def _check_apart(name: str, mask: Tensor | None, rows: Tensor, columns: Tensor) -> None:
    joined = (rows[:, :, None] != columns[:, None, :])[:, None]  # (b, 1, n, m)
    if mask is not None:
        joined = joined & (mask if mask.dtype == torch.bool else mask != -torch.inf)
    if joined.any():
        got = "none" if mask is None else "one that joins some"
        raise ValueError(
            f"{name}: expected an attention_mask that keeps the packed sequences apart, got "
            f"{got}. Transformers makes one of position_ids that begin at 0 with each sequence, "
            "if the model is called with use_cache=False and without an attention_mask."
        )


def _computes_its_own(kind: type) -> bool:
    """Whether all models with such a config are Transformers' own and bypass the interface."""
    found, rest = [], [_transformers.PreTrainedModel]
    while rest:
        model = rest.pop()
        rest += model.__subclasses__()
        if model.config_class is kind and model.__module__.startswith("transformers."):
            found.append(model._can_set_attn_implementation())
    return bool(found) and not any(found)


_transformers.AttentionInterface.register("attnref", attnref_attention_forward)
_transformers.AttentionMaskInterface.register("attnref", attnref_mask)
