"""Exact lists of the best items for users, from any table of scores."""

from icpe.ranking.lists import Lists
from icpe.ranking.tables import ScoreTable
from icpe.ranking.topn import stream_top_n, top_n

__all__ = ["Lists", "ScoreTable", "stream_top_n", "top_n"]
