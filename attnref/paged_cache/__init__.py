"""A cache in pages: keys and values of many sequences in one pool, each found through a table."""

from attnref.paged_cache.cache import PagedCache, PagedSequence

__all__ = ["PagedCache", "PagedSequence"]
