"""A generated world with known tastes, in which debiasing can be judged against the truth."""

from icpe.data.world.world import World, make_world

__all__ = ["World", "make_world"]
