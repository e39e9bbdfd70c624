"""Bias metrics for recommendation lists from any source. Nothing is trained."""

from icpe.audit.findings import Audit, AuditedLists, ItemShare
from icpe.audit.measure import audit

__all__ = ["Audit", "AuditedLists", "ItemShare", "audit"]
