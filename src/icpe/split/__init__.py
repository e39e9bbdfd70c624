"""Splits on which debiasing can be judged.

* :func:`unbiased`: held-out interactions spread evenly over items, the split of the paper.
* :func:`chronological`: one cut in time for everybody; nobody's future is in training.
* :func:`random`: every interaction with the same chance.
* :func:`given`: parts somebody else has made.

Each returns :class:`Parts`, whose users and items are those of its training part, and whose manifest says with
counts and content hashes what was done.
"""

from icpe.split._chronological import chronological
from icpe.split._given import given
from icpe.split._random import random
from icpe.split._unbiased import unbiased
from icpe.split.parts import Parts, load

__all__ = ["Parts", "chronological", "given", "load", "random", "unbiased"]
