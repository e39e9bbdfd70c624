"""Work over many runs: tuning."""

from icpe.studies.tune import Progress, Tuned, tune

__all__ = ["Progress", "Tuned", "tune"]
