"""Efficient attention, one method a module, each with its error and its cost."""
