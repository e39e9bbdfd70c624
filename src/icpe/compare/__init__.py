"""Experiments with many runs side by side: grids of methods, backbones and seeds, and their tables."""
