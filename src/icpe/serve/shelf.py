"""The models that a process serves at a moment. A request takes the shelf once, so that it never sees two states."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from icpe.serve.answers import ServedModel
from icpe.serve.problems import RequestError
from icpe.serve.settings import ServeSettings
from icpe.serve.version import version_of

_STEPS = 2**64


@dataclass(frozen=True, eq=False)
class Shelf:
    """Loaded models by name, and the shares of the users that they answer. It never changes."""

    models: Mapping[str, ServedModel]
    shares: Mapping[str, float]

    @classmethod
    def load(cls, settings: ServeSettings) -> "Shelf":
        """Return all models of a service.

        Raises:
            DataError: a folder holds no model, or a file is damaged.
            ConfigError: a model needs an unknown backbone or method.
        """
        models = {name: ServedModel.load(name, folder, settings.plugins) for name, folder in settings.folders.items()}
        return cls(models, settings.shares)

    def reloaded(self, settings: ServeSettings, names: Iterable[str]) -> "Shelf":
        """Return a shelf with these models loaded again where their files have changed.

        Raises:
            DataError: a folder holds no model, or a file is damaged.
            ConfigError: a model needs an unknown backbone or method.
        """
        models = dict(self.models)
        for name in names:
            folder = settings.folders[name]
            if version_of(folder) != models[name].version:
                models[name] = ServedModel.load(name, folder, settings.plugins)
        return Shelf(models, self.shares)

    @property
    def default(self) -> str:
        """Name of the model for all users who belong to no share."""
        return next(iter(self.models))

    @property
    def versions(self) -> dict[str, str]:
        """Versions by model."""
        return {name: served.version for name, served in self.models.items()}

    def share_of(self, name: str) -> float:
        """Return the share of the users whom a model answers."""
        return 1 - sum(self.shares.values()) if name == self.default else self.shares.get(name, 0.0)

    def named(self, name: str | None) -> ServedModel:
        """Return the model with this name, or the default one.

        Raises:
            RequestError: there is no such model.
        """
        found = self.models.get(self.default if name is None else name)
        if found is None:
            message = f"no model is called {name!r}; served are {', '.join(self.models)}"
            raise RequestError(404, "unknown_model", message, ["model"])
        return found

    def choose(self, name: str | None, user: Any) -> ServedModel:
        """Return the model with this name. Without a name, the hash of the user decides, always in the same way.

        Raises:
            RequestError: there is no such model.
        """
        if name is None and user is not None and self.shares:
            place = place_of(user)
            for candidate, share in self.shares.items():
                if place < share:
                    return self.models[candidate]
                place -= share
        return self.named(name)


def place_of(user: Any) -> float:
    """Return a number from 0 to 1 that depends on the user alone, the same in every process and on every machine.

    Example:
        >>> round(place_of("u17"), 6), place_of(17) == place_of("17")
        (0.42614, True)
    """
    digest = hashlib.blake2b(str(user).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) / _STEPS
