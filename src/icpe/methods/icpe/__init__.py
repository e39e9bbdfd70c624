"""ICPE: item cluster-wise Pareto-efficient training with counterfactual ranking."""

from icpe.methods.icpe.method import ICPE

__all__ = ["ICPE"]
