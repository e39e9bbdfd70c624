"""Checks of a comparison before anything is trained."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from icpe.compare._state import Cell, run_folder
from icpe.errors import ConfigError, DataError
from icpe.files import read_json
from icpe.jobs import Workers, check_workers
from icpe.runs.config import RunConfig
from icpe.runs.folder import CONFIG, SPLIT
from icpe.toml import parse_toml

_NOT_COMPARED = {"data": ("data_dir",), "train": ("device",)}  # settings that say where a run happens, not how
_PATHS = ("source", "train", "valid", "test", "item_info")  # of [data]


def check_request(cells: list[Cell], seeds: list[int], workers: Workers) -> None:
    """Refuse cells, seeds or workers that cannot be run.

    Raises:
        ConfigError: a value or a setting is wrong.
    """
    if not cells:
        raise ConfigError("nothing to compare: name at least one method with --methods")
    check_workers(workers)
    check_seeds(seeds)
    folders = Counter(run_folder(Path(), cell, 0) for cell in cells)
    for cell in cells:
        if folders[run_folder(Path(), cell, 0)] > 1:
            raise ConfigError(f"{cell.label!r} on {cell.backbone} appears twice; every cell needs a name of its own")
        if "train" in cell.config.data and "test" not in cell.config.data:
            raise ConfigError("a comparison needs a test part: add --test FILE")
        effective_settings(cell.config)  # mistakes in settings are reported before any data are read


def check_seeds(seeds: Sequence[int]) -> None:
    """Refuse an empty list, repeated seeds and negative ones.

    Raises:
        ConfigError: the seeds are wrong.
    """
    if not seeds or len(set(seeds)) < len(seeds) or not all(isinstance(seed, int) and seed >= 0 for seed in seeds):
        raise ConfigError(f"seeds are {list(seeds)!r}; expected different whole numbers from 0 up, such as [0, 1, 2]")


def effective_settings(config: RunConfig) -> dict[str, dict[str, Any]]:
    """Return all settings of a run by section, as its ``config.toml`` holds them.

    Raises:
        ConfigError: a setting is wrong.
    """
    method = config.make_method()
    return parse_toml(tomli_w.dumps(config.effective(method, config.train_settings(method))))


def refuse_other_settings(config: RunConfig, folder: Path) -> None:
    """Refuse a folder that holds a run with other settings.

    Data files are compared by name only, because a folder may come from another machine;
    :func:`refuse_other_data` compares their content.

    Raises:
        ConfigError: a setting differs; the message names it.
    """
    if not (folder / CONFIG).exists():
        return
    found, wanted = parse_toml((folder / CONFIG).read_text(encoding="utf-8")), effective_settings(config)
    for section, values in wanted.items():
        there, skipped = found.get(section, {}), _NOT_COMPARED.get(section, ())
        for name in [*values, *(name for name in there if name not in values)]:
            mine, theirs = (_comparable(section, name, some.get(name)) for some in (values, there))
            if name not in skipped and mine != theirs:
                raise ConfigError(
                    f"{folder} holds a run with {section}.{name} = {_in_words(theirs)}, but this comparison asks for "
                    f"{_in_words(mine)}; choose another folder with -o, or delete that run"
                )


def refuse_other_data(run: tuple[Cell, int], folder: Path, finished: Sequence[tuple[Cell, int]]) -> None:
    """Read the data of a run, and refuse them if they differ from those of a finished run with the same split.

    Raises:
        ConfigError: the settings of the data are wrong.
        DataError: the data cannot be read, or have changed.
    """
    cell, seed = run
    now = cell.run_config(seed).open_parts(progress=True).manifest["hashes"]
    for other, other_seed in finished:
        same_split = (other.config.data, other.config.split) == (cell.config.data, cell.config.split)
        if other_seed == seed and same_split:
            place = run_folder(folder, other, seed)
            if read_json(place / SPLIT)["hashes"] != now:
                raise DataError(
                    f"the data have changed since {place} was trained: content hashes of the split differ; "
                    "choose another folder with -o"
                )


def _comparable(section: str, name: str, value: Any) -> Any:
    return Path(value).name if section == "data" and name in _PATHS and isinstance(value, str) else value


def _in_words(value: Any) -> str:
    return "no value" if value is None else repr(value)
