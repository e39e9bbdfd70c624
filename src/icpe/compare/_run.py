"""One run of a grid, as a process does it."""

import shutil
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from icpe.compare._state import DIALS, NOTE, read_note
from icpe.errors import ConfigError
from icpe.files import write_json
from icpe.jobs.memory import peak_memory
from icpe.runs.config import RunConfig
from icpe.runs.load import load
from icpe.runs.run import CHECKPOINT, CONFIG, PER_USER, RESULT, Run, measure

_NOTE_EVERY = 30.0  # seconds
_ELSEWHERE = {"data": ("data_dir",), "train": ("device",)}  # settings that say where a run happens, not how
_PATHS = ("source", "train", "valid", "test", "item_info")  # of [data]


@dataclass(frozen=True)
class Ended:
    """Of a run.

    Attributes:
        seconds: it took, with those before an interruption.
        peak: bytes of memory its process had at most, None if unknown.
        reason: why it failed; empty if it did not.
    """

    seconds: float
    peak: int | None = None
    reason: str = ""


def run_once(
    config: RunConfig,
    folder: Path,
    dials: list[tuple[str, float]],
    keep_checkpoint: bool,
    on_step: Callable[[], None] | None = None,
) -> Ended:
    """Train from wherever the run is, and measure; whatever goes wrong is told in what comes back."""
    before, started = float(read_note(folder).get("seconds", 0.0)), time.monotonic()
    noted = started

    def step(*position: Any) -> None:
        nonlocal noted
        if on_step is not None:
            on_step()
        if time.monotonic() - noted > _NOTE_EVERY:
            noted = time.monotonic()
            write_json(folder / NOTE, {"seconds": round(before + noted - started, 3)})

    try:
        whole = (folder / RESULT).exists() and (folder / PER_USER).exists()
        if not whole or (folder / CHECKPOINT).exists():
            Run(config, folder, step).train(resume=True)
        if dials:
            _measure_dials(config, folder, dials)
        if not keep_checkpoint:
            shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
        ended = Ended(round(before + time.monotonic() - started, 3), peak_memory())
        write_json(folder / NOTE, {"seconds": ended.seconds, "peak": ended.peak})
        return ended
    except Exception as error:  # one bad run must not end a night of them
        reason = " ".join((str(error) or repr(error)).split())
        return Ended(before + time.monotonic() - started, peak_memory(), reason)


def _measure_dials(config: RunConfig, folder: Path, dials: list[tuple[str, float]]) -> None:
    model, parts, found = load(folder), config.open_parts(), []
    for name, value in dials:
        measured = measure(model.adjusted(**{name: value}), parts, config.depths)
        found.append({"dial": name, "value": value, **measured})
    write_json(folder / DIALS, found)


def effective(config: RunConfig) -> dict[str, dict[str, Any]]:
    """All settings of a run as its ``config.toml`` holds them.

    Raises:
        ConfigError: a setting is wrong.
    """
    method = config.make_method()
    return tomllib.loads(tomli_w.dumps(config.effective(method, config.train_settings(method))))


def refuse_other(config: RunConfig, folder: Path) -> None:
    """Refuse a folder that holds a run of other settings.

    Files of data are compared by name: a folder may come from another machine. Their content is compared elsewhere.

    Raises:
        ConfigError: it does; the message names a setting that differs.
    """
    if not (folder / CONFIG).exists():
        return
    found, wanted = tomllib.loads((folder / CONFIG).read_text(encoding="utf-8")), effective(config)
    for section, values in wanted.items():
        there, skipped = found.get(section, {}), _ELSEWHERE.get(section, ())
        for name in [*values, *(name for name in there if name not in values)]:
            mine, theirs = (_comparable(section, name, some.get(name)) for some in (values, there))
            if name not in skipped and mine != theirs:
                raise ConfigError(
                    f"{folder} holds a run with {section}.{name} = {_said(theirs)}, here it is {_said(mine)}; "
                    "take another folder, or delete that run"
                )


def _comparable(section: str, name: str, value: Any) -> Any:
    return Path(value).name if section == "data" and name in _PATHS and isinstance(value, str) else value


def _said(value: Any) -> str:
    return "not set" if value is None else repr(value)
