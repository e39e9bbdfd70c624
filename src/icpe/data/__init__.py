"""Logs: reading, cleaning, describing, the catalogue of public data sets, and the generated world."""

from icpe.data.describe import Description, describe
from icpe.data.interactions import Interactions, Reading
from icpe.data.open import open_log

__all__ = ["Description", "Interactions", "Reading", "describe", "open_log"]
