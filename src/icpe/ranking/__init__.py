"""Tables of scores, exact top-n ranking, and the lists it returns."""

from icpe.ranking.chunk import Blocks
from icpe.ranking.lists import Lists
from icpe.ranking.tables import ScoreTable
from icpe.ranking.topn import stream_top_n, top_n

__all__ = ["Blocks", "Lists", "ScoreTable", "stream_top_n", "top_n"]
