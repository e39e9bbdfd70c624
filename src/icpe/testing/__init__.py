"""Toy logs and conformance checks, for the tests of this package and of user-defined backbones and methods."""

from icpe.testing.logs import skewed_log

__all__ = ["skewed_log"]
