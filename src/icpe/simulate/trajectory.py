"""One trajectory: an arm with one adoption and one seed, round by round, in a folder of its own.

Every round leaves three Parquet files: what was consumed, what was shown, and the measures, which are written last. A
round counts once its measures exist. A trajectory that was stopped reads the rounds that count and plays the others;
everything random depends on the seed and the round alone, so the files are the same as without the stop.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.lookup import positions
from icpe.data.world import World
from icpe.errors import DataError
from icpe.files import write_atomically
from icpe.runs.config import RunConfig
from icpe.simulate.changes import next_round, with_newcomers
from icpe.simulate.history import History
from icpe.simulate.learner import Learner
from icpe.simulate.measures import measure_round
from icpe.simulate.population import Population
from icpe.simulate.rounds import Round, play_round
from icpe.simulate.settings import LoopSettings
from icpe.types import IntArray

RECOMMENDED, ORGANIC = "recommended", "organic"


@dataclass(frozen=True)
class Trajectory:
    """What identifies a trajectory.

    Attributes:
        arm: name of the arm.
        adoption: probability η that a visit follows the list.
        seed: of everything random.
    """

    arm: str
    adoption: float
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder, such as ``icpe-adoption-0.5-seed-0``."""
        return f"{self.arm.replace('/', '-')}-adoption-{self.adoption:g}-seed-{self.seed}"


@dataclass(frozen=True)
class RoundFiles:
    """The files of one round of a trajectory.

    Attributes:
        folder: of the trajectory.
        number: of the round, from 1.
    """

    folder: Path
    number: int

    @property
    def consumption(self) -> Path:
        """The rows ``user_id, item_id, visit, cause, place`` of everything consumed."""
        return self.folder / f"consumption-{self.number:04}.parquet"

    @property
    def shown(self) -> Path:
        """How often lists have shown an item, ``item_id, shown``; items that were not shown are left out."""
        return self.folder / f"shown-{self.number:04}.parquet"

    @property
    def measures(self) -> Path:
        """One row of measures for all users and for each group."""
        return self.folder / f"measures-{self.number:04}.parquet"


def run_trajectory(
    trajectory: Trajectory,
    world: Path,
    folder: Path,
    settings: LoopSettings,
    config: RunConfig,
    on_round: Callable[[], None] | None = None,
) -> None:
    """Play all rounds that the folder does not have yet.

    Args:
        trajectory: arm, adoption and seed.
        world: folder of the world.
        folder: for the files of the rounds.
        settings: of the loop.
        config: settings of the backbone and of training.
        on_round: called after every round, also one that was there already.
    """
    population = with_newcomers(population_of(world), settings, trajectory.seed)
    history = History(population)
    learner = Learner(trajectory.arm, trajectory.seed, config, folder, settings.warm)
    for number in range(1, settings.rounds + 1):
        if learner.trains and (number - 1) % settings.retrain == 0:
            # Those who join now have no interactions yet, so the training does not know them.
            learner.learn_from(history.log(population.users_present, population.items_present), number)
        if number > 1:
            population = next_round(population, settings, trajectory.seed, number)
        files = RoundFiles(folder, number)
        if files.measures.exists():
            history.add(*_read(files, population))
        else:
            played = play_round(
                population,
                history,
                learner.table(population),
                settings,
                adoption=trajectory.adoption,
                seed=trajectory.seed,
                number=number,
            )
            rows, shown = measure_round(population, history, played, settings, number)
            _write(files, population, played, rows, shown)
        if on_round is not None:
            on_round()
    learner.forget()


def read_rows(path: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """The rows of one file of a round.

    Raises:
        DataError: the file is missing or damaged.
    """
    try:
        return pl.read_parquet(path, columns=columns, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{path} cannot be read: {reason}. Delete the folder {path.parent} and run the same command again"
        ) from error


@lru_cache(maxsize=1)
def population_of(world: Path) -> Population:
    """The population of a saved world. A worker that plays several trajectories reads it once."""
    return Population.of(World.load(world))


def _write(files: RoundFiles, population: Population, played: Round, rows: pl.DataFrame, shown: IntArray) -> None:
    log = population.world.log
    cause = pl.Series("cause", np.where(played.place > 0, RECOMMENDED, ORGANIC))
    consumption = pl.DataFrame(
        [
            log.users.gather(played.user),
            log.items.gather(played.item),
            pl.Series("visit", played.visit + 1, dtype=pl.Int32),
            cause,
            pl.Series("place", played.place, dtype=pl.Int32),
        ]
    )
    some = np.flatnonzero(shown)
    counts = pl.DataFrame([log.items.gather(some), pl.Series("shown", shown[some])])
    write_atomically(files.consumption, consumption.write_parquet)
    write_atomically(files.shown, counts.write_parquet)
    write_atomically(files.measures, rows.write_parquet)


def _read(files: RoundFiles, population: Population) -> Iterator[IntArray]:
    """Yield users, items and shown counts of a round, in codes."""
    log = population.world.log
    consumption, counts = read_rows(files.consumption), read_rows(files.shown)
    yield positions(consumption[col.USER], log.users).astype(np.int64)
    yield positions(consumption[col.ITEM], log.items).astype(np.int64)
    shown = np.zeros(population.items, np.int64)
    shown[positions(counts[col.ITEM], log.items)] = counts["shown"].to_numpy()
    yield shown
