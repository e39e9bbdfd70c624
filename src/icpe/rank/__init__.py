"""Exact lists of the best items for users, from any table of scores."""

from icpe.rank.lists import Lists
from icpe.rank.table import ScoreTable
from icpe.rank.topn import stream_top_n, top_n

__all__ = ["Lists", "ScoreTable", "stream_top_n", "top_n"]
