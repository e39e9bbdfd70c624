"""Reproduction of the paper's tables and figures on any data set.

A :class:`Reproduction` holds the data and the settings. Each study of :data:`STUDIES` turns it into a :class:`Finding`:
the measured numbers, and for each :class:`Claim` of the paper whether it held. ``studies`` contains the studies,
``analysis`` the computations that need more than trained runs, and ``figures`` the drawings.
"""

from icpe.paper.finding import Claim, Finding
from icpe.paper.reproduction import BACKBONES, METHODS, Reproduction
from icpe.paper.studies import STUDIES

__all__ = ["BACKBONES", "METHODS", "STUDIES", "Claim", "Finding", "Reproduction"]
