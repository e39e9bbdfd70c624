"""The four kinds of error that a caller may have to handle.

A message names the value, what was expected, what was found and what to do about it. It must make sense without a
traceback, because the command line prints the message alone. For `DataError`, `ConfigError` and `NotFittedError` the
command line exits with 2. For a plain `IcpeError`, such as when training diverges, it exits with 1, because neither the
data nor the settings are wrong by themselves.
"""


class IcpeError(Exception):
    """Base class of all errors that this package raises on purpose."""


class DataError(IcpeError):
    """The data cannot be used: a file is missing or damaged, a value is invalid, or a filter leaves nothing."""


class ConfigError(IcpeError):
    """A setting is wrong: its name is unknown, its value is out of range, or it contradicts another setting."""


class NotFittedError(IcpeError):
    """A model was used in a way that requires training first."""
