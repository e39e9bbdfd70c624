"""Splits of a log into training, validation and test parts.

* :func:`unbiased`: held-out interactions are spread evenly over items; the split of the paper.
* :func:`chronological`: the same moments in time separate the parts of all users, so no future is in training.
* :func:`random`: every interaction has the same chance to be held out.
* :func:`given`: parts that already exist.
* :func:`everything`: nothing is held out, for a model that goes live.
* :func:`cut`: one of the first three, chosen by its name in ``KINDS``.
* :func:`cut_stored`: the same for a log that is larger than memory.

Each returns :class:`Parts`. Its users and items are those of the training part, and its manifest records settings,
counts and content hashes.
"""

from icpe.split.chronological_split import chronological
from icpe.split.everything_split import everything
from icpe.split.given_parts import given
from icpe.split.kinds import cut
from icpe.split.parts import Parts, load
from icpe.split.random_split import random
from icpe.split.settings import KINDS, ChronologicalSettings, RandomSettings, UnbiasedSettings
from icpe.split.stored_split import cut_stored
from icpe.split.unbiased_split import unbiased

__all__ = [
    "KINDS",
    "ChronologicalSettings",
    "Parts",
    "RandomSettings",
    "UnbiasedSettings",
    "chronological",
    "cut",
    "cut_stored",
    "everything",
    "given",
    "load",
    "random",
    "unbiased",
]
