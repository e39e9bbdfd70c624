"""Optional libraries, imported when something needs them."""

from importlib import import_module
from typing import Any

from icpe.errors import ConfigError


def require(module: str, extra: str, purpose: str) -> Any:
    """Return a module of an optional library.

    Args:
        module: name of the module.
        extra: the extra of icpe that installs it.
        purpose: what needs it, for the message.

    Raises:
        ConfigError: the library is not installed. The message says how to install it.

    Example:
        >>> require("no_such_module", "faiss", "a Faiss index")
        Traceback (most recent call last):
        icpe.errors.ConfigError: a Faiss index needs no_such_module, which is not installed: pip install 'icpe[faiss]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ConfigError(f"{purpose} needs {library}, which is not installed: pip install 'icpe[{extra}]'") from error
