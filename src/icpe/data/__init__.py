"""Logs: reading, filtering and describing them, the catalogue of public data sets, and the generated world.

* ``interactions``: the log itself, with ids, codes and the k-core.
* ``readers``: one reader per file format.
* ``datasets``: the catalogue of public data sets, where they are found and how they are downloaded.
* ``world``: the generated world whose true preferences are known.
* ``sources``: :func:`open_log`, which takes a path or the name of a data set.
"""

from icpe.data.description import Description, describe
from icpe.data.interactions import Interactions, Reading
from icpe.data.sources import open_log
from icpe.data.world import World, make_world

__all__ = ["Description", "Interactions", "Reading", "World", "describe", "make_world", "open_log"]
