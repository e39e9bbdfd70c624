"""What a service is started with: the models, their shares of the users, and where it listens."""

import os
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from icpe.errors import ConfigError
from icpe.extras import require

KEY_VARIABLE = "ICPE_API_KEY"
"""Environment variable with the key that clients must send. A command line would show it to everyone on the machine."""
SETTINGS_VARIABLE = "ICPE_SERVE_SETTINGS"  # how worker processes learn what to serve
BODY_LIMIT = 2**21  # bytes of a request

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class ServeSettings(BaseModel):
    """What to serve.

    Attributes:
        folders: folder of each model, by name. The first model is the default.
        shares: share of the users who get a model, by name. The default model gets the rest.
        workers: number of processes.
        plugins: Python files with backbones or methods of the models.
        board: folder in which worker processes meet, or None if there is only one process.
    """

    model_config = ConfigDict(frozen=True)

    folders: dict[str, Path]
    shares: dict[str, float] = {}
    workers: int = 1
    plugins: tuple[str, ...] = ()
    board: Path | None = None

    @property
    def default(self) -> str:
        """Name of the model for all users who belong to no share."""
        return next(iter(self.folders))

    def publish(self) -> None:
        """Leave the settings in the environment, where worker processes find them."""
        os.environ[SETTINGS_VARIABLE] = self.model_dump_json()

    @classmethod
    def published(cls) -> "ServeSettings":
        """Return the settings that :meth:`publish` left."""
        return cls.model_validate_json(os.environ[SETTINGS_VARIABLE])


def parse_models(words: tuple[str, ...]) -> dict[str, Path]:
    """Return folders by name from words like ``run`` and ``new=runs/tonight``. Without a name, the folder's is taken.

    Raises:
        ConfigError: a name is not allowed or occurs twice.

    Example:
        >>> parse_models(("demo/icpe", "old=demo/normal"))
        {'icpe': PosixPath('demo/icpe'), 'old': PosixPath('demo/normal')}
    """
    found: dict[str, Path] = {}
    for word in words:
        given, equals, folder = word.partition("=")
        if not equals or not _NAME.fullmatch(given):  # a folder's path may contain "=" as well
            given, folder = "", word
        name = given or Path(folder).resolve().name
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} cannot be the name of a model: names have up to 64 letters, digits, '-', '_' and '.'; "
                f"name it, as in main={folder}"
            )
        if name in found:
            raise ConfigError(f"two models are called {name!r}; give them names, as in old=RUN new=RUN")
        found[name] = Path(folder)
    return found


def parse_shares(words: tuple[str, ...], folders: dict[str, Path]) -> dict[str, float]:
    """Return shares of users by model from words like ``new=0.1``.

    Raises:
        ConfigError: a word has another form, names no served model or the default one, or the shares exceed 1.

    Example:
        >>> parse_shares(("new=0.1",), {"old": Path("a"), "new": Path("b")})
        {'new': 0.1}
    """
    found: dict[str, float] = {}
    names = list(folders)
    for word in words:
        name, _, number = word.partition("=")
        try:
            share = float(number)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise ConfigError(f"--share {word} should look like NAME=0.1, with a share of the users from 0 to 1")
        if name not in names[1:]:
            some = f"one of {', '.join(names[1:])}" if names[1:] else "a second model, as in RUN new=RUN"
            raise ConfigError(f"--share {word} names no further model; expected {some}. {names[0]!r} gets the rest")
        if name in found:
            raise ConfigError(f"--share names {name!r} twice; give one share for each model")
        found[name] = share
    if sum(found.values()) > 1 + 1e-9:
        raise ConfigError(f"the shares add up to {sum(found.values()):g}; expected at most 1")
    return found


def require_extra() -> None:
    """Check that the libraries of the extra ``serve`` are installed.

    Raises:
        ConfigError: one is missing. The message says how to install it.
    """
    for name in ("fastapi", "prometheus_client", "uvicorn"):
        require(name, "serve", "the service")
