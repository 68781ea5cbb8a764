"""A cache in pages: keys and values of many sequences in one pool, each found through a table."""

from attnref.paged_cache.cache import PagedCache

__all__ = ["PagedCache"]
