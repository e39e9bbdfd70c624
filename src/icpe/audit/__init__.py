"""Bias metrics for recommendation lists from any source. Nothing is trained."""

from icpe.audit.findings import Audit, AuditedLists, ItemShare
from icpe.audit.history import History
from icpe.audit.measure import audit
from icpe.audit.rules import Rule, Verdict, judge

__all__ = ["Audit", "AuditedLists", "History", "ItemShare", "Rule", "Verdict", "audit", "judge"]
