"""Toy logs for tests, ours and those of people who build on icpe."""

from icpe.testing.logs import skewed_log

__all__ = ["skewed_log"]
