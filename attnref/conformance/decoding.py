"""The check of a decoding step with a cache."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attnref.conformance.checker import find_subject, judge
from attnref.conformance.report import Report
from attnref.conformance.settings import LIMIT, Settings

__all__ = ["check_steps"]


def check_steps(
    function: Callable[..., Any],
    *,
    cache: Callable[..., Any] | None = None,
    supports: Sequence[str] | None = None,
    only: Iterable[str] | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    seed: int = 0,
    limit: float | None = LIMIT,
    names: Mapping[str, str] | None = None,
    layout: str | None = None,
    scale: float | str | Callable[[int], float] | None = None,
    draw: Mapping[str, object] | None = None,
    demand: Mapping[str, str] | None = None,
    against: Callable[..., Any] | None = None,
    bound: float | None = None,
) -> Report:
    r"""Judges a decoding step with a cache of keys and values against one causal pass.

        o_t = Σ_(j ≤ t) softmax_j((q_t·k_j)/√(d_k)) v_j

    Args:
        function: called as ``step(query, key, value, cache, **options)`` with tensors
            ``(batch, heads, n, d)`` of the n new positions, one mostly; it returns
            ``(output, cache)``. Queries and keys hold their positions already. The cache may be
            called ``past_key_value``, ``past_key_values``, ``layer_past``, ``kv_cache``, ``past``
            or ``state``, too, or be two, ``k_cache`` and ``v_cache``. One that ``cache`` made may
            be changed in place, and the output returned alone. A parameter such as ``pos``,
            ``input_pos`` or ``cache_seqlens`` is told where the new positions are.
        cache: makes the first cache, called with what it takes by name among ``batch``, ``heads``,
            ``max_len``, ``head_dim``, ``dtype`` and ``device``; None: the first cache is None.
        supports: as in :func:`check`; a mask is ``(n, m)``, new positions by all so far.
        only: names of properties, as the report has them; None means all.
        dtype: as in :func:`check`.
        device: of the inputs.
        seed: of all random numbers.
        limit: as in :func:`check`.
        names: the function's own for options, for ``cache`` and for ``position``.
        layout: as in :func:`check`, but for ``"nd"``.
        scale, draw, demand, against, bound: as in :func:`check`.

    Returns:
        A :class:`Report` with one result per property. An error of a full cache is not claimed,
        a cache that is changed in place a convention; a key that is lost without a word is wrong.

    Raises:
        CheckError: when it cannot be asked. The message says how to fix it.

    Examples:
        >>> import torch
        >>> def step(query, key, value, cache):
        ...     if cache is not None:
        ...         key, value = (torch.cat(pair, -2) for pair in zip(cache, (key, value)))
        ...     scores = query @ key.mT / query.shape[-1] ** 0.5
        ...     return torch.softmax(scores, -1) @ value, (key, value)
        >>> report = check_steps(step, only=["past_kept", "pieces"])
        >>> [each.property for each in report.failures]
        ['pieces']
        >>> print(report.failures[0].diagnosis("en").split(": ")[-1])
        a causal mask is missing.
    """
    settings = Settings.of_call(**locals(), step=True)
    return judge(find_subject(function, settings), settings)
