"""The sizes of query, key and value, and the bytes of what they make."""

from dataclasses import dataclass

import torch

from attnref.checks import check_integer


@dataclass(frozen=True, kw_only=True)
class Sizes:
    r"""The sizes of query ``(b, h, n, d_k)``, key ``(b, h_kv, m, d_k)`` and value ``(…, m, d_v)``.

    Args:
        n: number of queries; 1 while decoding.
        m: number of keys; while decoding, those in the cache and the new one.
        d_k: size of a query and of a key.
        d_v: size of a value; 0 in a cache whose values are read out of the keys.
        batch: sequences side by side.
        num_heads: heads of query.
        num_kv_heads: heads of key and value; None means ``num_heads``.
        dtype: of all tensors.

    Raises:
        ValueError: for a size below 1 (d_v: below 0), or heads that num_kv_heads does not divide.
        TypeError: for something that is not a dtype.

    Examples:
        >>> Sizes(n=2048, m=2048, d_k=128, d_v=128, num_heads=32, dtype=torch.float16).score_bytes
        268435456
    """

    n: int
    m: int
    d_k: int
    d_v: int
    batch: int = 1
    num_heads: int = 1
    num_kv_heads: int | None = None
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        check_sizes(n=self.n, m=self.m, d_k=self.d_k, batch=self.batch, num_heads=self.num_heads)
        check_sizes(0, d_v=self.d_v)
        check_sizes(num_kv_heads=self.kv_heads)
        itemsize(self.dtype)
        if self.num_heads % self.kv_heads:
            raise ValueError(
                f"num_kv_heads: expected a divisor of num_heads = {self.num_heads}, got "
                f"{self.num_kv_heads}. Each key head serves an equal group of query heads."
            )

    @property
    def kv_heads(self) -> int:
        """Heads of key and value."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def score_bytes(self) -> int:
        """All scores, or all weights: ``b h n m`` numbers."""
        return itemsize(self.dtype) * self.batch * self.num_heads * self.n * self.m

    @property
    def cache_bytes(self) -> int:
        """The KV cache of one layer: ``b h_kv m (d_k + d_v)`` numbers.

        Multi-head latent attention keeps one head of latent and rotary numbers whose values
        are part of its keys: ``num_kv_heads=1, d_k=512 + 64, d_v=0`` in DeepSeek-V2.

        Source: Shazeer 2019, arXiv 1911.02150 (one key head); Ainslie et al. 2023, arXiv
        2305.13245 (groups); DeepSeek-AI 2024, arXiv 2405.04434 (latent).

        Examples:
            >>> token = dict(n=1, m=1, d_k=128, d_v=128, num_heads=64, dtype=torch.float16)
            >>> [80 * Sizes(**token, num_kv_heads=heads).cache_bytes for heads in (64, 8, 1)]
            [2621440, 327680, 40960]
        """
        numbers = self.batch * self.kv_heads * self.m * (self.d_k + self.d_v)
        return itemsize(self.dtype) * numbers

    @property
    def state_bytes(self) -> int:
        """What linear attention keeps in place of a cache: ``b h (d_k d_v + d_k)`` numbers."""
        return itemsize(self.dtype) * self.batch * self.num_heads * self.d_k * (self.d_v + 1)


def itemsize(dtype: torch.dtype) -> int:
    if not isinstance(dtype, torch.dtype):
        raise TypeError(
            f"dtype: expected a torch.dtype, got {dtype!r}. Write for example torch.float16."
        )
    return dtype.itemsize


def check_type(sizes: Sizes) -> None:
    if not isinstance(sizes, Sizes):
        raise TypeError(
            f"sizes: expected attnref.cost.Sizes, got {type(sizes).__name__}. Write for example "
            "cost.Sizes(n=2048, m=2048, d_k=128, d_v=128)."
        )


def check_sizes(least: int = 1, /, **counts: int) -> None:
    for name, count in counts.items():
        check_integer(name, count, least, "Read it off the shape of a tensor.")
