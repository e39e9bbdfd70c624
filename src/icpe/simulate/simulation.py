"""A whole simulation: all arms, adoptions and seeds, in one folder."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from icpe.data.interactions import Interactions
from icpe.data.world import World
from icpe.errors import ConfigError, DataError
from icpe.files import lock_folder, opened, read_json, sealed, write_json, write_together
from icpe.jobs import Job, JobResult, run_jobs
from icpe.runs.config import RunConfig
from icpe.simulate.arms import REFERENCES, arm_config, arms_of
from icpe.simulate.fidelity import measure_fidelity, repeat_share
from icpe.simulate.fitted import LIKING, check_liking, fit_world
from icpe.simulate.measures import EVERYONE
from icpe.simulate.population import Population
from icpe.simulate.results import collect_items, collect_measures, source_of
from icpe.simulate.settings import LoopSettings
from icpe.simulate.trajectory import Trajectory, population_of, run_trajectory

ROUNDS, WORLD, SETTINGS = "rounds", "world", "simulation.json"
MEASURES, ITEMS, FIT = "measures.parquet", "items.parquet", "fit.json"
ADOPTION = 0.5
CANDIDATES = 100  # in a world that is fitted to a log; docs/simulation.md says what ten would change

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Simulation:
    """The results of a simulation.

    Attributes:
        folder: where everything is saved.
        arms: names of the arms, the methods first.
        adoptions: all adoptions η, ascending; 0 is always among them.
        seeds: of everything random.
        settings: of the loop.
    """

    folder: Path
    arms: list[str]
    adoptions: list[float]
    seeds: list[int]
    settings: LoopSettings

    @property
    def adoption(self) -> float:
        """The adoption at which rounds are compared over time: the middle one of those above 0."""
        above = [one for one in self.adoptions if one > 0] or self.adoptions
        return above[(len(above) - 1) // 2]

    @property
    def measures(self) -> pl.DataFrame:
        """One row per ``arm, adoption, seed, round, group``."""
        return pl.read_parquet(self.folder / MEASURES, glob=False)

    @property
    def items(self) -> pl.DataFrame:
        """One row per ``arm, adoption, seed, item_id``: quality, and how often it was shown and consumed."""
        return pl.read_parquet(self.folder / ITEMS, glob=False)

    @property
    def fit(self) -> dict[str, float] | None:
        """How the world was fitted to a log, and how well it reproduces the log; None for a generated world."""
        path = self.folder / FIT
        return opened(read_json(path)) if path.exists() else None

    @property
    def population(self) -> Population:
        """The users and items of the world."""
        return population_of(self.folder / WORLD)

    def over_time(self) -> pl.DataFrame:
        """The measures of all users in every round, at the adoption of :attr:`adoption`."""
        at = pl.col("adoption") == self.adoption
        return self.measures.filter(at & (pl.col("group") == EVERYONE))

    def by_group(self) -> pl.DataFrame:
        """The measures of each group of users in every round, at the adoption of :attr:`adoption`."""
        at = pl.col("adoption") == self.adoption
        return self.measures.filter(at & (pl.col("group") != EVERYONE))

    def across_adoption(self) -> pl.DataFrame:
        """The measures of all users in the last round, at every adoption."""
        last = pl.col("round") == self.settings.rounds
        return self.measures.filter(last & (pl.col("group") == EVERYONE))


def simulate(
    world: World | Interactions,
    methods: Sequence[str],
    folder: Path | str,
    *,
    adoption: float | Sequence[float] = ADOPTION,
    seeds: Sequence[int] = (0,),
    backbones: Sequence[str] | None = None,
    train: dict[str, Any] | None = None,
    config: RunConfig | None = None,
    liking: float = LIKING,
    workers: int = 1,
    force: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Simulation:
    """Simulate how methods change what people consume when they are trained on what their own lists have caused.

    The same call continues a simulation that was stopped, and ends with the same files.

    Args:
        world: the world, whose true preferences are known, see :func:`icpe.make_world`; or a log, to which a world is
            fitted, see :func:`icpe.simulate.fit_world`. The defaults of ``candidates`` and ``repeat`` are then 100 and
            the share of repeated rows that was found when the log was read.
        methods: names of methods. The arms oracle, random, popularity and none are always there.
        folder: for the results. It is created if necessary.
        adoption: probability η that a visit follows the list, or several of them.
        seeds: of everything random; each is a repetition.
        backbones: names of backbones, by default mf. With several, each method has an arm on each of them.
        train: settings of training, such as ``epochs`` or ``niche_share``, the wish for the dials.
        config: settings of backbones and of training in one object, instead of ``train``.
        liking: of a fitted world, the mean probability that users accept what they have chosen in the log.
        workers: number of processes that play trajectories at the same time.
        force: whether to replace another simulation in the folder.
        progress: called after each round with the number of rounds so far and in total, and the trajectory.
        settings: settings of the loop, see :class:`LoopSettings`.

    Raises:
        ConfigError: an argument is wrong, or the folder holds another simulation.

    Example:
        >>> import tempfile
        >>> from icpe import make_world
        >>> world = make_world(users=60, items=40, interactions=500)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = simulate(world, ["popularity"], folder, rounds=2, n=5)
        ...     found.over_time().filter(round=2)["arm"].to_list()
        ['oracle', 'random', 'popularity', 'none']
    """
    config = RunConfig(train=train or {}) if config is None else config
    named = [config.backbone.get("name", "mf")] if backbones is None else backbones
    config = config.updated("backbone", {"name": named[0]}) if len(named) == 1 else config
    log = world.log if isinstance(world, World) else world
    if not isinstance(world, World):
        check_liking(liking)
        settings = {"candidates": CANDIDATES, "repeat": repeat_share(log.reading), **settings}
    made = Simulation(
        Path(folder),
        arms_of(methods, named),
        _adoptions(adoption),
        _seeds(seeds),
        LoopSettings.parse(settings, "a simulation"),
    )
    if made.settings.n > len(log.items):
        raise ConfigError(
            f"n is {made.settings.n}, but the world has {len(log.items)} items. Pass a smaller n (command line: "
            "a smaller --loop.n)"
        )
    for arm in made.arms:  # finds mistakes before anything runs
        if arm not in REFERENCES:
            arm_config(arm, config).prepare()
    with lock_folder(made.folder):
        if _begin(made, _record(made, world, config, liking), force):
            _prepare_world(made, world, liking, config)
            _play(made, config, workers, progress)
            _finish(made)
    return made


def _adoptions(adoption: float | Sequence[float]) -> list[float]:
    given = [adoption] if isinstance(adoption, int | float) else list(adoption)
    for one in given:
        if isinstance(one, bool) or not isinstance(one, int | float) or not 0 <= one <= 1:
            raise ConfigError(
                f"adoption is {one!r}; expected a share from 0 to 1. Pass adoption=0.5 or another (command line: "
                "--adoption 0.5)"
            )
    return sorted({0.0, *map(float, given)})


def _seeds(seeds: Sequence[int]) -> list[int]:
    if not seeds or len(set(seeds)) < len(seeds) or not all(isinstance(one, int) and one >= 0 for one in seeds):
        raise ConfigError(f"seeds is {list(seeds)}; expected different whole numbers from 0 up, at least one")
    return list(seeds)


def _record(made: Simulation, world: World | Interactions, config: RunConfig, liking: float) -> dict[str, Any]:
    """What identifies the simulation."""
    log = world.log if isinstance(world, World) else world
    return {
        "world": log.content_hash,
        "liking": None if isinstance(world, World) else liking,
        "arms": made.arms,
        "adoptions": made.adoptions,
        "seeds": made.seeds,
        "settings": made.settings.as_dict(),
        "backbone": config.backbone,
        "train": config.train,
    }


def _begin(made: Simulation, record: dict[str, Any], force: bool) -> bool:
    """Write what the simulation is. Return whether rounds may be missing.

    Raises:
        ConfigError: the folder holds another simulation, or something else.
    """
    path = made.folder / SETTINGS
    found = None if force else _read_record(path)
    if found is not None and found != record:
        differing = ", ".join(name for name in record if found.get(name) != record[name])
        raise ConfigError(
            f"{made.folder} holds another simulation, which differs in: {differing}. Choose another folder with -o, "
            "or replace it with --force"
        )
    if found is None:
        if not force and any(not one.name.startswith(".") for one in made.folder.iterdir()):
            raise ConfigError(f"{made.folder} is not empty and holds no simulation; choose another folder with -o")
        _clear(made.folder)
        write_json(path, sealed(record))
    return found is None or not (made.folder / MEASURES).exists()


def _prepare_world(made: Simulation, world: World | Interactions, liking: float, config: RunConfig) -> None:
    """Save the world. It is fitted to a log once: a simulation that continues must meet the same users."""
    folder = made.folder / WORLD
    if isinstance(world, World):
        world.save(folder)  # the same bytes if the simulation continues
    elif not (made.folder / FIT).exists():
        training = {name: value for name, value in config.train.items() if name not in ("goal", "niche_share", "seed")}
        fitted, choice = fit_world(world, liking, **training)
        fitted.save(folder)
        fidelity = measure_fidelity(Population.of(fitted), made.settings)
        write_json(made.folder / FIT, sealed({"liking": liking, **asdict(choice), **fidelity}))
    population_of.cache_clear()  # another simulation in the same folder may have had another world


def _read_record(path: Path) -> dict[str, Any] | None:
    try:
        return opened(read_json(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}; choose another folder with -o") from error


def _clear(folder: Path) -> None:
    """Remove an earlier simulation, but no file that does not belong to it."""
    (folder / SETTINGS).unlink(missing_ok=True)
    for path in [*folder.glob(f"{ROUNDS}/*/*-[0-9]*.parquet"), folder / MEASURES, folder / ITEMS, folder / FIT]:
        path.unlink(missing_ok=True)
    for path in folder.glob(f"{ROUNDS}/*/model-[0-9]*"):
        shutil.rmtree(path)


def _play(made: Simulation, config: RunConfig, workers: int, progress: Progress | None) -> None:
    cases = [(arm, one, seed) for seed in made.seeds for one in made.adoptions for arm in made.arms]
    trajectories = list(dict.fromkeys(source_of(*case) for case in cases))
    total, done = len(trajectories) * made.settings.rounds, 0

    def on_round(trajectory: Trajectory, rounds: int = 1) -> None:
        nonlocal done
        done += rounds
        if progress is not None:
            progress(done, total, trajectory.name)

    jobs = iter(_job(made, config, one, partial(on_round, one) if workers == 1 else None) for one in trajectories)

    def on_done(result: JobResult[None]) -> None:
        if result.failed:
            raise result.as_error(f"{result.key.name}: ")
        if workers > 1:
            on_round(result.key, made.settings.rounds)

    run_jobs(lambda: next(jobs, None), run_trajectory, on_done, workers=workers)


def _job(made: Simulation, config: RunConfig, one: Trajectory, on_round: Callable[[], None] | None) -> Job:
    folder = made.folder / ROUNDS / one.name
    return Job(one, (one, made.folder / WORLD, folder, made.settings, config, on_round), group=one.arm)


def _finish(made: Simulation) -> None:
    folder, case = made.folder / ROUNDS, (made.arms, made.adoptions, made.seeds)
    measures = collect_measures(folder, *case, made.settings.rounds)
    items = collect_items(folder, made.population, *case, made.settings)
    write_together(made.folder, {MEASURES: measures.write_parquet, ITEMS: items.write_parquet}, keep=[SETTINGS])
