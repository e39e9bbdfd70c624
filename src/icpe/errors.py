"""The four kinds of error a caller may have to handle.

A message names the value, what was expected, what was found and what to do about it. The command line prints
it as one line and exits with 2, so a message must make sense without a traceback; where it is the base class, as when
training diverges, neither data nor settings are wrong by themselves and the exit code is 1.
"""


class IcpeError(Exception):
    """Base of everything this package raises on purpose."""


class DataError(IcpeError):
    """The data cannot be used: a file is missing or broken, a value is out of place, a filter leaves nothing."""


class ConfigError(IcpeError):
    """A setting is wrong: an unknown name, a value out of range, two settings that exclude each other."""


class NotFittedError(IcpeError):
    """A model was asked for something it can only answer after training."""
