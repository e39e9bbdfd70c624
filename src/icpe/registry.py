"""Named classes: those of the package, those that installed packages provide, and those of plugin files."""

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import TypeVar

from icpe.errors import ConfigError
from icpe.suggest import unknown_name

Kind = TypeVar("Kind", bound=type)


class Registry(Mapping[str, Kind]):
    """Classes of one kind by name; :meth:`find` also looks at the entry points of installed packages.

    Args:
        kind: what they are, for messages, such as ``"method"``.
        group: entry-point group through which installed packages provide more of them.
        builtin: classes of this package.
    """

    def __init__(self, kind: str, group: str, builtin: Iterable[Kind]) -> None:
        self.kind, self._group = kind, group
        self._known: dict[str, Kind] = {_name(one): one for one in builtin}

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, name: str) -> Kind:
        return self._known[name]

    def names(self) -> list[str]:
        """Return all names, those of installed packages included."""
        return [
            *self._known,
            *(entry.name for entry in entry_points(group=self._group) if entry.name not in self._known),
        ]

    def find(self, name: str) -> Kind:
        """Return the class of this name.

        Raises:
            ConfigError: no class has this name; the message suggests the nearest one and how to provide it.
        """
        if name not in self._known:
            entry = next((one for one in entry_points(group=self._group) if one.name == name), None)
            if entry is None:
                error = unknown_name(self.kind, name, self.names())
                raise ConfigError(f"{error}. Provide your own {self.kind} with --plugin FILE.py")
            self._known[name] = entry.load()
        return self._known[name]

    def add(self, one: Kind) -> None:
        """Add a class from a plugin; a later class replaces an earlier plugin of the same name.

        Raises:
            ConfigError: the class has no name, or a class of this package has the same one.
        """
        name, present = _name(one), self._known.get(_name(one))
        if present is not None and present.__module__.partition(".")[0] == __name__.partition(".")[0]:
            raise ConfigError(f"{self.kind} {name!r} already exists in icpe; give {one.__name__} another name")
        self._known[name] = one

    def remove(self, name: str) -> None:
        """Forget a class that :meth:`add` or an entry point has provided."""
        del self._known[name]


def _name(one: type) -> str:
    name = getattr(one, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"class {one.__name__} has no name; add a line such as name = {one.__name__.lower()!r}")
    return name
