r"""Multi-head attention: several attentions side by side, each in its own projection.

    MHA(X) = Σ_h softmax(c Q_h K_hᵀ) V_h W_O^(h)
    Q_h = XW_Q^(h), K_h = XW_K^(h), V_h = XW_V^(h)

The heads differ because each has a softmax of its own and because chance made their weights
different at the start; nothing else tells them apart. Which attention is computed, and how
positions enter it, are functions handed in. A gate may let each head speak more or less.
"""

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from attnref import checks, masks
from attnref._door import check_mask_type
from attnref.cache import KVCache
from attnref.masks import Mask
from attnref.masks.tensors import combine_masks
from attnref.reference import Attention, attend, scaled_dot_product_attention
from attnref.scaling import scale_query
from attnref.streaming_cache import StreamingCache

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    r"""Attention of several heads, between a projection for each and one back.

        o = [ O_0 | … | O_(h-1) ] W_O
        O_i = softmax(c_i XW_Q^(i)(YW_K^(g(i)))ᵀ + B) YW_V^(g(i))

    with Y = X in self-attention. With fewer key and value heads than query heads, neighbouring
    query heads share one: ``g(i) = ⌊i h_kv/h⌋``. As many is multi-head,
    one is multi-query, between them is grouped-query attention. With a gate, ``O_i`` becomes
    ``σ(XW_G^(i)) ⊙ O_i``, which can also be 0: the head then says nothing.

    Args:
        embed_dim: D, the width of inputs and outputs.
        num_heads: h, the number of query heads.
        num_kv_heads: a divisor of h; None means h.
        head_dim: ``d_k``; None means D/h.
        value_head_dim: ``d_v``; None means ``head_dim``.
        bias: whether the four projections add one.
        scale: the factor c of all heads; None means ``1/√(d_k)``.
        head_scale: instead of ``scale``, one factor per head, multiplied into the query: fixed,
            a tensor ``(h,)``; or learned, a module that returns ``(h, 1, 1)``, such as
            :class:`attnref.scaling.LearnedTemperature`.
        attention: a function with the arguments of PyTorch's ``scaled_dot_product_attention``.
            It gets only those in use, so that it need not know the others, and a mask as an
            object of :mod:`attnref.masks` only if its annotation of ``attn_mask`` names
            :class:`attnref.Mask`; otherwise as a tensor.
        rotate: applied to queries and keys as ``rotate(x, offset=...)``, with ``positions=...``
            in calls that have them: :func:`attnref.positions.rotary` or another of its kind.
        position_bias: gives the bias of the scores as ``position_bias(h, n, m, alignment=...,
            dtype=..., device=...)``: :func:`attnref.positions.alibi` or another of its kind.
        gate: what multiplies each head's answer before the output projection, between 0 and 1 and
            read from the query's token: ``"headwise"`` one number per head, ``"elementwise"`` one
            for each of its components; None means no gate.
        dropout_p: share of the weights dropped in training, and in training only.
        generator: source of the initial weights, None = PyTorch's global one. They have mean 0
            and variance 1 over the width that they read, so that inputs of variance 1 give
            scores of variance 1. Biases start at 0.
        device, dtype: of the parameters.

    Raises:
        TypeError, ValueError: naming the argument, what was expected, what came and how to fix it.

    As exact as the function handed in. Time ``2 n D (h + h_kv) (d_k + d_v)`` operations for the
    projections beside those of the attention; weights ``D (h + h_kv) (d_k + d_v)``, and biases.
    A gate adds ``2 n D h`` operations and ``D h`` weights, elementwise ``d_v`` times as many.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2; shared heads: Shazeer 2019,
    arXiv 1911.02150, and Ainslie et al. 2023, arXiv 2305.13245; gates: Qiu et al. 2025,
    arXiv 2505.06708, section 2.2.

    Examples:
        >>> layer = MultiHeadAttention(embed_dim=12, num_heads=4, num_kv_heads=2)
        >>> layer(torch.ones(5, 7, 12), is_causal=True).shape
        torch.Size([5, 7, 12])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        value_head_dim: int | None = None,
        bias: bool = True,
        scale: float | None = None,
        head_scale: Tensor | nn.Module | None = None,
        attention: Callable[..., Any] = scaled_dot_product_attention,
        rotate: Callable[..., Tensor] | None = None,
        position_bias: Callable[..., Tensor] | None = None,
        gate: Literal["headwise", "elementwise"] | None = None,
        dropout_p: float = 0.0,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        embed_dim, num_heads = _check_positive(embed_dim=embed_dim, num_heads=num_heads)
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        (num_kv_heads,) = _check_positive(num_kv_heads=num_kv_heads)
        if num_heads % num_kv_heads:
            raise ValueError(
                f"num_kv_heads: expected a divisor of num_heads={num_heads}, got {num_kv_heads}. "
                "Each key and value head serves an equal group of query heads."
            )
        if head_dim is None and embed_dim % num_heads:
            raise ValueError(
                f"head_dim: expected a number because num_heads={num_heads} does not divide "
                f"embed_dim={embed_dim}, got None. Name the width of a head, which is free."
            )
        head_dim = embed_dim // num_heads if head_dim is None else head_dim
        value_head_dim = head_dim if value_head_dim is None else value_head_dim
        head_dim, value_head_dim = _check_positive(head_dim=head_dim, value_head_dim=value_head_dim)
        if scale is not None and head_scale is not None:
            raise ValueError(
                f"scale: expected None beside head_scale, got {scale}. Multiply it into the "
                "factors of head_scale."
            )
        checks.check_scale(scale, head_dim)
        if not (head_scale is None or isinstance(head_scale, Tensor | nn.Module)):
            raise TypeError(
                "head_scale: expected a tensor, a module or None, got "
                f"{type(head_scale).__name__}. Convert a list with torch.tensor; for one factor "
                "for all heads use scale."
            )
        if not callable(attention):
            raise TypeError(
                f"attention: expected a function, got {type(attention).__name__}. Leave it out for "
                "attnref.scaled_dot_product_attention."
            )
        checks.check_drawn(generator=generator, kind=torch.Generator, dtype=dtype)
        if isinstance(head_scale, Tensor) and head_scale.shape != (num_heads,):
            raise ValueError(
                f"head_scale: expected one factor a head, shape ({num_heads},), got "
                f"{tuple(head_scale.shape)}. For one factor for all heads use scale."
            )
        if gate not in (None, "headwise", "elementwise"):
            raise ValueError(
                f"gate: expected 'headwise', 'elementwise' or None, got {gate!r}. Headwise is one "
                "number per head and token, elementwise one for each component of its answer."
            )
        checks.check_dropout(dropout_p)

        self.embed_dim, self.num_heads, self.num_kv_heads = embed_dim, num_heads, num_kv_heads
        self.head_dim, self.value_head_dim = head_dim, value_head_dim
        self.scale, self.dropout_p = scale, dropout_p
        self.attention, self.rotate, self.position_bias = attention, rotate, position_bias
        self.head_scale: Tensor | nn.Module | None
        if isinstance(head_scale, Tensor):
            self.register_buffer("head_scale", head_scale.to(device=device, copy=True))
        else:
            self.head_scale = head_scale

        def linear(inputs: int, outputs: int) -> nn.Linear:
            # nn.Linear's own initialisation would draw from the global generator.
            place = torch.get_default_device() if device is None else device
            layer = nn.Linear(inputs, outputs, bias=bias, device="meta", dtype=dtype)
            layer = layer.to_empty(device=place)
            nn.init.normal_(layer.weight, std=inputs**-0.5, generator=generator)
            if bias:
                nn.init.zeros_(layer.bias)
            return layer

        self.query_proj = linear(embed_dim, num_heads * head_dim)
        self.key_proj = linear(embed_dim, num_kv_heads * head_dim)
        self.value_proj = linear(embed_dim, num_kv_heads * value_head_dim)
        self.out_proj = linear(num_heads * value_head_dim, embed_dim)
        self.gate_proj: nn.Linear | None = None
        if gate is not None:
            gates = 1 if gate == "headwise" else value_head_dim
            self.gate_proj = linear(embed_dim, num_heads * gates)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        attn_mask: Tensor | Mask | None = None,
        is_causal: bool = False,
        cache: KVCache | StreamingCache | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Attend from ``query`` to ``key`` and ``value``, or within ``query`` without them.

        Args:
            query: ``(..., n, D)``; leading dimensions are batches, none is fine.
            key: ``(..., m, D)``; None means ``query``: self-attention.
            value: ``(..., m, D)``; None means ``key``.
            attn_mask: a mask of :mod:`attnref.masks`, or a tensor that broadcasts to
                ``(..., h, n, m)``. Bool: ``True`` = may attend, which is the opposite of
                ``nn.MultiheadAttention``. Float: added to the scores.
            is_causal: position i sees no key of its future. Both sequences begin together,
                as in PyTorch; with a cache they end together.
            cache: a :class:`attnref.KVCache` holds the earlier tokens, takes in these, and m
                counts all of them. With a :class:`attnref.StreamingCache`, each token sees the
                first ones and its window, however many come in a call, and m counts what is
                returned; without ``position_bias``. A call that fails leaves it as it was.
            positions: ``(n,)`` or ``(b, n)`` integers, where each token is after the cached ones,
                for ``rotate``; None means 0, 1, 2, … Needed where neighbours are not successive,
                as in the drafts of :func:`attnref.masks.tree`, whose parents must come before
                their children here, since ``is_causal`` goes by the places in the row.

        Returns:
            ``(..., n, D)``.

        Raises:
            TypeError, ValueError: naming the argument, what was expected, what came and how to
                fix it.
        """
        return self._check_and_attend(
            self.attention, query, key, value, attn_mask, is_causal, cache, positions
        )[0]

    def attend(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        attn_mask: Tensor | Mask | None = None,
        is_causal: bool = False,
        cache: KVCache | StreamingCache | None = None,
        positions: Tensor | None = None,
    ) -> Attention:
        """The same with what it went through, as :func:`attnref.attend` does.

        Args:
            query, key, value, attn_mask, is_causal, cache, positions: as in :meth:`forward`.

        Returns:
            The output, ``(..., n, D)``; the weights of each head, before a gate, ``(..., h, n,
            m)``; and their log-sum-exp, ``(..., h, n)``.

        Raises:
            TypeError, ValueError: as :meth:`forward` does, and for a layer with another attention
                than the definition, which alone forms weights.
        """
        if self.attention is not scaled_dot_product_attention:
            raise ValueError(
                "attention: expected attnref.scaled_dot_product_attention, which alone forms "
                "weights, got another function. Make the layer without attention= to see them."
            )
        given = query, key, value, attn_mask, is_causal, cache, positions
        output, found = self._check_and_attend(attend, *given)
        whole: Attention = found._replace(output=output)
        return whole

    def _check_and_attend(
        self,
        attention: Callable[..., Any],
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        attn_mask: Tensor | Mask | None,
        is_causal: bool,
        cache: KVCache | StreamingCache | None,
        positions: Tensor | None,
    ) -> tuple[Tensor, Any]:
        """The output, and what the attention returned."""
        self._check_types(query, key, value, cache, positions)
        checks.check_flag("is_causal", is_causal, "A mask goes into attn_mask.")
        if cache is not None and (key is not None or not is_causal):
            raise ValueError(
                "cache: expected causal self-attention, got "
                f"{f'is_causal={is_causal}' if key is None else 'a key'}. Cached tokens are the "
                "past of the query: pass is_causal=True and no key or value."
            )
        if key is None and value is not None:
            raise ValueError(
                "value: expected None without a key, got a tensor. Pass the key that goes with it."
            )
        if positions is not None and (
            key is not None or self.rotate is None or self.position_bias is not None
        ):
            raise ValueError(
                "positions: expected None except in self-attention with rotate= and without "
                "position_bias=, got a value. Nothing else here takes positions that are not "
                "those of the row."
            )
        key = query if key is None else key
        value = key if value is None else value
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            if tensor.dim() < 2 or tensor.shape[-1] != self.embed_dim:
                raise ValueError(
                    f"{name}: expected shape (..., length, embed_dim={self.embed_dim}), got "
                    f"{tuple(tensor.shape)}. Batches come first: a sequence-first tensor needs "
                    f"{name}.transpose(0, 1)."
                )
        if attn_mask is not None:
            check_mask_type(attn_mask)

        held = None if cache is None else vars(cache).copy()
        try:
            return self._attend(
                attention, query, key, value, attn_mask, is_causal, cache, positions
            )
        except BaseException:
            if cache is not None and held is not None:
                vars(cache).update(held)
            raise

    def _check_types(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        cache: KVCache | StreamingCache | None,
        positions: Tensor | None,
    ) -> None:
        """Tensors of the dtype of the weights, and a cache of which this layer knows the rules."""
        weight = getattr(self.query_proj, "weight", None)
        dtype = weight.dtype if isinstance(weight, Tensor) else None
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            if tensor is None and name != "query":
                continue
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"{name}: expected a torch.Tensor, got {type(tensor).__name__}. Convert it "
                    f"with torch.as_tensor({name})."
                )
            kind = tensor.device.type
            is_autocast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
            if is_autocast and tensor.is_floating_point():
                continue  # which gives tensor and weights one dtype
            if dtype is not None and tensor.dtype != dtype:
                raise TypeError(
                    f"{name}: expected {dtype}, the dtype of the weights, got {tensor.dtype}. "
                    f"Convert it with {name}.to({dtype})"
                    + (
                        f", or the layer with layer.to({tensor.dtype})."
                        if tensor.is_floating_point()
                        else "."
                    )
                )
        if positions is not None and not isinstance(positions, Tensor):
            raise TypeError(
                f"positions: expected a torch.Tensor of integers, got {type(positions).__name__}. "
                "Convert it with torch.as_tensor(positions)."
            )
        if cache is not None and not isinstance(cache, KVCache | StreamingCache):
            raise TypeError(
                f"cache: expected a KVCache, a StreamingCache or None, got {type(cache).__name__}. "
                "Make one for each layer, cache=attnref.KVCache(), and pass it to each call; of a "
                "PagedCache, take attnref.paged_attention."
            )
        if isinstance(cache, StreamingCache) and self.position_bias is not None:
            raise ValueError(
                "cache: expected a KVCache beside position_bias=, got a StreamingCache. What it "
                "has forgotten would change the distances: use rotate=, or masks of a KVCache."
            )

    def _attend(
        self,
        attention: Callable[..., Any],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | Mask | None,
        is_causal: bool,
        cache: KVCache | StreamingCache | None,
        positions: Tensor | None,
    ) -> tuple[Tensor, Any]:
        q = _split_heads(self.query_proj(query), self.num_heads)  # (..., h, n, d_k)
        k = _split_heads(self.key_proj(key), self.num_kv_heads)  # (..., h_kv, m, d_k)
        v = _split_heads(self.value_proj(value), self.num_kv_heads)  # (..., h_kv, m, d_v)
        past = 0 if cache is None else cache.length
        if self.rotate is not None:
            own = {} if positions is None else {"positions": positions.unsqueeze(-2)}
            q, k = self.rotate(q, offset=past, **own), self.rotate(k, offset=past, **own)
        if cache is not None:
            k, v = cache.append(k, v)  # (..., h_kv, past + n, d_k), (..., h_kv, past + n, d_v)

        seen = None  # by the new tokens, where that is not all that comes before them
        if isinstance(cache, StreamingCache) and q.shape[-2] > 1:
            seen = cache.mask(q.shape[-2])
        options = self._mask_options(q, k, attn_mask, is_causal, past, seen)
        if self.head_scale is not None:
            # The function knows one factor only; the query can carry one per head.
            factors = (  # (h, 1, 1)
                self.head_scale()
                if isinstance(self.head_scale, nn.Module)
                else self.head_scale[:, None, None]
            )
            q, options["scale"] = scale_query(q, factors), 1.0
        elif self.scale is not None:
            options["scale"] = self.scale
        if self.training and self.dropout_p:
            options["dropout_p"] = self.dropout_p
        if self.num_kv_heads != self.num_heads:
            options["enable_gqa"] = True
        found = attention(q, k, v, **options)
        attended: Tensor = found.output if isinstance(found, Attention) else found  # (..., n, d_v)
        if self.gate_proj is not None:
            gates = torch.sigmoid(_split_heads(self.gate_proj(query), self.num_heads))
            attended = attended * gates  # (..., h, n, 1), or (..., h, n, d_v) elementwise
        return self.out_proj(_join(attended)), found  # (..., n, D)

    def _mask_options(
        self,
        q: Tensor,
        k: Tensor,
        attn_mask: Tensor | Mask | None,
        is_causal: bool,
        past: int,
        seen: Mask | None,
    ) -> dict[str, Any]:
        """Masks, position bias and causality as one ``attn_mask``, or a plain ``is_causal``."""
        n, m = q.shape[-2], k.shape[-2]
        alignment = "bottom-right" if past else "top-left"
        if attn_mask is not None:
            shape = checks.scores_shape(q.shape, k.shape, enable_gqa=True)
            checks.check_mask(attn_mask.shape, shape)
        parts: list[Tensor | Mask] = [part for part in (attn_mask, seen) if part is not None]
        if self.position_bias is not None:
            bias = self.position_bias(  # in the dtype that fused kernels ask of a mask
                self.num_heads, n, m, alignment=alignment, dtype=q.dtype, device=q.device
            )
            parts.append(bias)  # (h, n, m)
        if past and n == 1:
            is_causal = False  # the newest token sees all that is cached
        # A function's own is_causal is aligned top-left, and need not go with a mask.
        if is_causal and (past or parts):
            is_causal = False
            parts.append(masks.causal(n, m, alignment=alignment))
        objects = [part for part in parts if isinstance(part, Mask)]
        tensors = [part for part in parts if isinstance(part, Tensor)]
        joined: Tensor | Mask | None = reduce(operator.and_, objects) if objects else None
        declared = getattr(self.attention, "__annotations__", {}).get("attn_mask")
        if isinstance(joined, Mask) and (tensors or Mask not in get_args(declared)):
            tensors.append(joined.dense(q.device))
        if tensors:
            joined = reduce(combine_masks, tensors)
        options: dict[str, Any] = {} if joined is None else {"attn_mask": joined}
        return options | ({"is_causal": True} if is_causal else {})

    @classmethod
    def from_torch(
        cls,
        module: nn.MultiheadAttention,
        *,
        attention: Callable[..., Any] = scaled_dot_product_attention,
    ) -> "MultiHeadAttention":
        """The same layer as one of ``nn.MultiheadAttention``, with a copy of its weights.

        Outputs and gradients are the same up to rounding. What differs is how it is called:

        - boolean masks mean the opposite: ``attn_mask=~theirs``, and a ``key_padding_mask`` of
          shape ``(b, m)`` becomes ``attn_mask=~theirs[:, None, None, :]``;
        - batches come first, whatever its ``batch_first``: transpose what is ``(n, b, D)``;
        - a row without allowed keys gives the output's bias instead of NaN.

        Args:
            module: with ``kdim`` and ``vdim`` equal to ``embed_dim``, without ``add_bias_kv``
                and ``add_zero_attn``.
            attention: as in the constructor.

        Raises:
            TypeError, ValueError: for a module of another kind.

        Examples:
            >>> ours = MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3))
            >>> ours(torch.ones(2, 5, 12)).shape
            torch.Size([2, 5, 12])
        """
        if not isinstance(module, nn.MultiheadAttention):
            raise TypeError(
                f"module: expected nn.MultiheadAttention, got {type(module).__name__}. Copy the "
                "weights of others yourself, with load_state_dict."
            )
        weight, bias = module.in_proj_weight, module.in_proj_bias
        if weight is None or module.bias_k is not None or module.add_zero_attn:
            raise ValueError(
                "module: expected nn.MultiheadAttention with kdim and vdim equal to embed_dim, "
                "without add_bias_kv and add_zero_attn, got one with "
                f"kdim={module.kdim}, vdim={module.vdim}, add_bias_kv={module.bias_k is not None}, "
                f"add_zero_attn={module.add_zero_attn}. Those have no counterpart here."
            )
        layer = cls(
            module.embed_dim,
            module.num_heads,
            bias=bias is not None,
            attention=attention,
            dropout_p=module.dropout,
            device="meta",  # nothing to initialise
        )
        names = ("query_proj", "key_proj", "value_proj")
        state = {
            f"{name}.weight": part for name, part in zip(names, weight.chunk(3), strict=True)
        } | {"out_proj.weight": module.out_proj.weight}
        if bias is not None:
            state |= {f"{name}.bias": part for name, part in zip(names, bias.chunk(3), strict=True)}
            state |= {"out_proj.bias": module.out_proj.bias}
        copies = {name: tensor.detach().clone() for name, tensor in state.items()}
        layer.load_state_dict(copies, assign=True)
        for name, parameter in layer.named_parameters():  # what was frozen stays so
            whole = getattr(module, f"in_proj_{name.rpartition('.')[-1]}")
            source = module.out_proj.get_parameter(name[9:]) if name[:9] == "out_proj." else whole
            parameter.requires_grad_(source.requires_grad)
        return layer.train(module.training)


def _split_heads(tensor: Tensor, heads: int) -> Tensor:
    """``(..., n, heads d)`` as ``(..., heads, n, d)``: each head a block of columns."""
    *lead, width = tensor.shape
    return tensor.reshape(*lead, heads, width // heads).transpose(-3, -2)  # (..., heads, n, d)


def _join(tensor: Tensor) -> Tensor:
    """Undo :func:`_split_heads`."""
    return tensor.transpose(-3, -2).flatten(-2)  # (..., n, heads d)


def _check_positive(**counts: int) -> list[int]:
    advice = "Widths and numbers of heads come from the model's configuration."
    return [checks.check_integer(name, count, 1, advice) for name, count in counts.items()]
