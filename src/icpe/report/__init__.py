"""Pictures and pages that show what a log, a model or anybody's recommendations look like."""

from icpe.report.auditing import Audit, audit

__all__ = ["Audit", "audit"]
