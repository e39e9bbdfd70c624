"""Figures of the paper. They draw the frames of findings and compute nothing that a study reports."""

from icpe.paper.figures.case import cluster_popularity, two_lists
from icpe.paper.figures.fronts import dial_figure, front_figure
from icpe.paper.figures.gradients import conflict_figure, gradient_figure
from icpe.paper.figures.runs import curves, dots, niche_weights, parts_left_out
from icpe.paper.figures.theory import bound_figure, exponent_figure

__all__ = [
    "bound_figure",
    "cluster_popularity",
    "conflict_figure",
    "curves",
    "dial_figure",
    "dots",
    "exponent_figure",
    "front_figure",
    "gradient_figure",
    "niche_weights",
    "parts_left_out",
    "two_lists",
]
