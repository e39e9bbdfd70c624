"""A generated world with known true preferences, against which debiasing can be measured."""

from icpe.data.world.generate import make_world
from icpe.data.world.names import GENRES
from icpe.data.world.world import World

__all__ = ["GENRES", "World", "make_world"]
