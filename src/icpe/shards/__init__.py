"""Processes that torchrun starts, and tables whose rows are divided among them.

Without torchrun :func:`current` returns None, and nothing else in this package is used.
"""

from icpe.shards.group import Group, current, first, join, wait
from icpe.shards.share import Share

__all__ = ["Group", "Share", "current", "first", "join", "wait"]
