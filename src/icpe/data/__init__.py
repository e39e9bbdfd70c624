"""Logs: reading, cleaning, describing, the catalogue of public data sets, and the generated world."""

from icpe.data.datasets.open import open_log
from icpe.data.description import Description, describe
from icpe.data.interactions import Interactions, Reading
from icpe.data.world.world import World, make_world

__all__ = ["Description", "Interactions", "Reading", "World", "describe", "make_world", "open_log"]
