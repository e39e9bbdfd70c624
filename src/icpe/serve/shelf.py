"""The models that a process serves at a moment. A request takes the shelf once, so that it never sees two states."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from icpe.serve.answers import Ranker
from icpe.serve.problems import RequestError
from icpe.serve.settings import ServeSettings

_STEPS = 2**64


@dataclass(frozen=True, eq=False)
class Shelf:
    """Loaded models by name, and the shares of the users that they answer. It never changes."""

    rankers: Mapping[str, Ranker]
    shares: Mapping[str, float]

    @classmethod
    def load(cls, settings: ServeSettings) -> "Shelf":
        """Return all models of a service.

        Raises:
            DataError: a folder holds no model, or a file is damaged.
            ConfigError: a model needs an unknown backbone or method.
        """
        rankers = {name: Ranker.load(name, folder, settings.plugins) for name, folder in settings.folders.items()}
        return cls(rankers, settings.shares)

    def reloaded(self, settings: ServeSettings, names: Iterable[str]) -> "Shelf":
        """Return a shelf with these models loaded again where their files have changed.

        Raises:
            DataError: a folder holds no model, or a file is damaged.
            ConfigError: a model needs an unknown backbone or method.
        """
        from icpe.serve.version import version_of

        rankers = dict(self.rankers)
        for name in names:
            folder = settings.folders[name]
            if version_of(folder) != rankers[name].version:
                rankers[name] = Ranker.load(name, folder, settings.plugins)
        return Shelf(rankers, self.shares)

    @property
    def default(self) -> str:
        """Name of the model for all users who belong to no share."""
        return next(iter(self.rankers))

    @property
    def versions(self) -> dict[str, str]:
        """Versions by model."""
        return {name: ranker.version for name, ranker in self.rankers.items()}

    def share_of(self, name: str) -> float:
        """Return the share of the users whom a model answers."""
        return 1 - sum(self.shares.values()) if name == self.default else self.shares.get(name, 0.0)

    def named(self, name: str | None) -> Ranker:
        """Return the model with this name, or the default one.

        Raises:
            RequestError: there is no such model.
        """
        found = self.rankers.get(self.default if name is None else name)
        if found is None:
            served = ", ".join(self.rankers)
            raise RequestError(404, "unknown_model", f"no model is called {name!r}; served are {served}", ["model"])
        return found

    def choose(self, name: str | None, user: Any) -> Ranker:
        """Return the model with this name. Without a name, the hash of the user decides, always in the same way.

        Raises:
            RequestError: there is no such model.
        """
        if name is None and user is not None and self.shares:
            place = place_of(user)
            for candidate, share in self.shares.items():
                if place < share:
                    return self.rankers[candidate]
                place -= share
        return self.named(name)


def place_of(user: Any) -> float:
    """Return a number from 0 to 1 that depends on the user alone, the same in every process and on every machine.

    Example:
        >>> round(place_of("u17"), 6), place_of(17) == place_of("17")
        (0.563577, True)
    """
    digest = hashlib.blake2b(str(user).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) / _STEPS
