"""Logs that are larger than memory: pairs in files, in the same order and with the same hashes as in memory."""

from icpe.data.stored.log import StoredLog
from icpe.data.stored.reading import read_stored

__all__ = ["StoredLog", "read_stored"]
