"""What runs and models read from the disk of this machine, in a form that travels to other machines."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.files import read_folder, write_folder
from icpe.jobs.engine import Input
from icpe.recommender.model import Model
from icpe.runs.config import RunConfig
from icpe.runs.load import load
from icpe.runs.plugins import load_plugins
from icpe.split import Parts

DATA, MODEL = "data", "model"  # names of the arguments


@dataclass(frozen=True)
class _Packed:
    """What travels: something, and the plugins without which it cannot be used, as Python source."""

    content: Interactions | Parts | dict[str, bytes]
    plugins: dict[str, bytes]


def data_input(config: RunConfig) -> Input:
    """Return the data and the plugins of a run as an input; the function receives :attr:`RunConfig.opened`.

    Raises:
        ConfigError: the run starts from an earlier one, whose folder would have to travel too.
    """
    if config.start:
        raise ConfigError(
            "runs that start from an earlier run cannot be trained on a cluster; remove [start] from the "
            "configuration, or train without --engine ray"
        )
    return Input(DATA, repr((config.data, config.plugins)), partial(_pack_data, config), _unpack_data)


def model_input(model: Model, plugins: Iterable[str]) -> Input:
    """Return a model as an input; the function receives a :class:`Model`. The files of its folder travel."""
    return Input(MODEL, str(id(model)), partial(_pack_model, model, tuple(plugins)), _unpack_model)


def _pack_data(config: RunConfig) -> _Packed:
    return _Packed(config.read_data(), _sources(config.plugins))


def _unpack_data(packed: _Packed) -> Interactions | Parts:
    _register(packed.plugins)
    assert isinstance(packed.content, Interactions | Parts)
    # Arrays in Ray's object store are read-only, and compiled loops would be compiled again for such arrays.
    return copy.deepcopy(packed.content)


def _pack_model(model: Model, plugins: tuple[str, ...]) -> _Packed:
    with TemporaryDirectory(prefix="icpe-") as place:
        model.save(Path(place) / MODEL)
        return _Packed(read_folder(Path(place) / MODEL), _sources(plugins))


def _unpack_model(packed: _Packed) -> Model:
    _register(packed.plugins)
    assert isinstance(packed.content, dict)
    with TemporaryDirectory(prefix="icpe-") as place:
        write_folder(Path(place) / MODEL, packed.content)
        return load(Path(place) / MODEL)


def _sources(plugins: Iterable[str]) -> dict[str, bytes]:
    return {str(path): Path(path).read_bytes() for path in plugins}


def _register(plugins: dict[str, bytes]) -> None:
    """Make the backbones and methods of plugins known in this process. Their files are not needed afterwards."""
    for path, source in plugins.items():
        with TemporaryDirectory(prefix="icpe-") as place:
            write_folder(Path(place) / "plugin", {Path(path).name: source})
            load_plugins([Path(place) / "plugin" / Path(path).name])
