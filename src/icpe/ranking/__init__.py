"""Tables of scores, exact top-n ranking, and the lists it returns."""

from icpe.ranking.chunk import Blocks
from icpe.ranking.lists import Lists
from icpe.ranking.partial import best_of_rows
from icpe.ranking.tables import ScoreTable
from icpe.ranking.topn import stream_top_n, top_n

__all__ = ["Blocks", "Lists", "ScoreTable", "best_of_rows", "stream_top_n", "top_n"]
