"""Figures, drawn with matplotlib (extra ``plot``): one module for each subject.

This package exports what every figure needs, and the figures of logs and splits.
"""

from icpe.report.figures.canvas import SIZE, SUFFIXES, check_suffix, legend_above, panels, save_figure
from icpe.report.figures.logs import long_tail, split_balance
from icpe.report.figures.style import GREY, HEAD, NICHE, PALETTE, Style, colour, method_styles, position_style

__all__ = [
    "GREY",
    "HEAD",
    "NICHE",
    "PALETTE",
    "SIZE",
    "SUFFIXES",
    "Style",
    "check_suffix",
    "colour",
    "legend_above",
    "long_tail",
    "method_styles",
    "panels",
    "position_style",
    "save_figure",
    "split_balance",
]
