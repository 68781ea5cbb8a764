"""Exercises: attention written by a learner, and judged by the package.

What a learner meets is the command, ``attnref exercise``.
"""
