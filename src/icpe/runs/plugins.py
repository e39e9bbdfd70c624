"""User-defined backbones and methods from Python files.

A plugin file defines subclasses of :class:`icpe.backbones.Backbone` and :class:`icpe.methods.Method`. Loading it runs
its code, so it happens only when the user names the file; a saved model never loads one by itself. Installed packages
can provide backbones and methods through the entry-point groups ``icpe.backbones`` and ``icpe.methods`` instead.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from icpe.backbones import BACKBONES, Backbone
from icpe.errors import ConfigError
from icpe.methods import METHODS, Method

Plugin = str | Path | type[Backbone] | type[Method]


def load_plugins(plugins: Iterable[Plugin]) -> None:
    """Make the backbones and methods of plugins available by name.

    Args:
        plugins: paths of Python files, or classes.

    Raises:
        ConfigError: a file cannot be loaded or defines neither a backbone nor a method.
    """
    for plugin in plugins:
        if isinstance(plugin, type):
            _register(plugin)
        else:
            _load_file(Path(plugin))


def _load_file(path: Path) -> None:
    path = path.absolute()
    # The name depends on the path, so that two plugins of the same file name do not replace each other.
    name = f"icpe_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    module = sys.modules.get(name) or _import_file(name, path)
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == name]
    found = [one for one in own if issubclass(one, Backbone | Method) and isinstance(getattr(one, "name", None), str)]
    if not found:
        raise ConfigError(f"plugin {path} defines no subclass of icpe.Backbone or icpe.Method with a name")
    for one in found:
        _register(one)


def _import_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"plugin {path} is not a Python file; expected a path such as my_method.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"plugin {path} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def _register(one: type[Backbone] | type[Method]) -> None:
    if issubclass(one, Backbone):
        BACKBONES.add(one)
    elif issubclass(one, Method):
        METHODS.add(one)
    else:
        raise ConfigError(f"plugin {one!r} is neither a backbone nor a method; expected a file or such a class")
