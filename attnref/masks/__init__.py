r"""Masks: which query may attend to which key.

A :class:`attnref.Mask` is a rule and a shape. ``True`` means *may attend*, as in PyTorch's
``scaled_dot_product_attention`` (``nn.MultiheadAttention`` means the opposite). Masks combine
with ``&`` (both allow), ``|`` (either allows) and ``~`` (the opposite), and become a tensor of
booleans only where one is needed: whole with :meth:`Mask.dense`, in part with
:meth:`Mask.block`.

Where nothing else is said, the shape is ``(n, m)``, the same for all samples and heads. Masks
with others, such as one row of keys for each sample, broadcast as tensors do. To make a mask
costs no more than its arguments; to ask it costs a few operations per pair.

Examples:
    Longformer's pattern is a window and global tokens:

    >>> mask = sliding_window(6, window=3) | global_tokens(6, positions=[0])
    >>> mask
    Mask(shape=(6, 6))
    >>> print(mask.picture())
    ######
    ###...
    ####..
    #.###.
    #..###
    #...##
    >>> mask.count()
    24

    A batch of samples of different lengths:

    >>> mask = causal(3) & padding([2, 3], 3)
    >>> mask
    Mask(shape=(2, 1, 3, 3))
    >>> mask.dense()[0, 0]
    tensor([[ True, False, False],
            [ True,  True, False],
            [ True,  True, False]])
"""

from attnref.masks.mask import EMPTY as EMPTY
from attnref.masks.mask import FULL as FULL
from attnref.masks.mask import MIXED as MIXED
from attnref.masks.mask import Mask as Mask
from attnref.masks.patterns import (
    bigbird,
    block_layout,
    causal,
    dilated,
    documents,
    dyadic,
    global_tokens,
    packed,
    padding,
    prefix_lm,
    sliding_window,
    strided,
    tree,
)
from attnref.masks.patterns import window_reach as window_reach

# In the order in which the reference shows them.
__all__ = [  # noqa: RUF022
    "causal",
    "sliding_window",
    "dilated",
    "strided",
    "dyadic",
    "padding",
    "prefix_lm",
    "documents",
    "packed",
    "global_tokens",
    "tree",
    "block_layout",
    "bigbird",
]
