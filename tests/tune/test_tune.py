"""Tuning: equal budgets, validation only, nothing tried twice, and continued from wherever it was stopped."""

import itertools
import os
import shutil
import signal
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import mean

import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.trial import TrialState, create_trial
from sqlalchemy import event

from icpe.backbones import BACKBONES
from icpe.errors import ConfigError, IcpeError
from icpe.methods import METHODS
from icpe.methods._parts.sampled_loss import LossSettings, SampledLoss
from icpe.runs.config import RunConfig
from icpe.runs.measure import measure
from icpe.settings import setting
from icpe.testing import skewed_log
from icpe.tune.proposals import distributions_of, propose
from icpe.tune.search import tune, write_presets
from icpe.tune.space import LR, REG, Space, search_space
from icpe.tune.storage import open_storage, quiet_optuna
from icpe.tune.study import CellStudy
from icpe.tune.trial import validation_score

SEEDS = [100, 101]


@pytest.fixture(scope="module")
def log_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "log.csv"
    skewed_log(users=60, items=40, pairs=900).write(path)
    return path


@pytest.fixture(scope="module")
def empty_study(tmp_path_factory) -> Path:
    """Return a database with tables, which take long to create."""
    path = tmp_path_factory.mktemp("empty") / "study.db"
    with quiet_optuna():
        open_storage(f"sqlite:///{path}")
    return path


@pytest.fixture
def new_folder(empty_study, tmp_path):
    """Return a function that makes the folder of a tuning without trials."""

    def make_folder(name: str = "tuning") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(empty_study, folder / "study.db")
        return folder

    return make_folder


@pytest.fixture
def folder(new_folder) -> Path:
    return new_folder()


@pytest.fixture
def make(log_file):
    """Return a function that makes the configuration of a method on small data."""

    def make_config(method: str = "normal", backbone: str = "mf", /, train=(), **settings) -> RunConfig:
        return RunConfig(
            data={"source": str(log_file)},
            backbone={"name": backbone, **({"dim": 4} if backbone == "mf" else {})},
            method={"name": method, **settings},
            train={"epochs": 1, "batch_size": 256, **dict(train)},
        )

    return make_config


class Scripted:
    """Takes the place of training: answers with a function of configuration and seed, and keeps its calls."""

    def __init__(self, answer) -> None:
        self._answer, self.calls = answer, []

    def __call__(self, config: RunConfig, seed: int) -> float:
        self.calls.append((config, seed))
        return self._answer(config, seed)


def always(score: float) -> Scripted:
    return Scripted(lambda config, seed: score)


def trials_of(folder: Path, name: str = "log.csv/normal/mf") -> list[optuna.trial.FrozenTrial]:
    with quiet_optuna():
        return optuna.load_study(storage=f"sqlite:///{folder / 'study.db'}", study_name=name).trials


def history(folder: Path, name: str = "log.csv/normal/mf") -> list[tuple[dict, str, float | None]]:
    """Return the trials that count, in their order."""
    counted = [trial for trial in trials_of(folder, name) if trial.state not in (TrialState.FAIL, TrialState.WAITING)]
    return [(trial.params, trial.state.name, trial.value) for trial in counted]


# What is searched


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("method", METHODS)
def test_the_first_point_is_the_default(method, backbone):
    config = RunConfig(method={"name": method}, backbone={"name": backbone})
    space = search_space(config)
    usual = space.apply(config, space.defaults)
    assert usual.make_method().settings == config.make_method().settings
    assert usual.train_settings(usual.make_method()) == config.train_settings(config.make_method())
    if method in ("popularity", "random"):  # they learn nothing
        assert (space.values, space.size) == ({}, 1)
        return
    assert set(space.values["method.reg"]) >= set(METHODS[method].Settings.search_space().get("reg", REG))
    assert set(space.values["train.lr"]) >= set(LR)
    for name in METHODS[method].Settings.search_space():
        assert f"method.{name}" in space.values
    for choices in space.values.values():
        CategoricalDistribution(list(choices))  # warnings are errors: labels fit a database


def test_what_is_fixed_is_not_searched_and_a_preset_is_where_it_starts():
    config = RunConfig(method={"name": "icpe", "preset": "paper", "shrink": 0.02}, train={"lr": 0.5})
    space = search_space(config)
    assert list(space.values) == [
        "method.alpha",
        "method.bounds",
        "method.reg",
        "method.strength",
        "method.temperature",
    ]
    assert space.defaults["method.alpha"] == 2e-3  # not among the method's values, so added
    assert list(space.values["method.alpha"]) == [2e-3, 0.03, 0.1, 0.3]
    assert space.defaults["method.bounds"] == "[0.8, 1.0]"
    tried = space.apply(config, {**space.defaults, "method.alpha": 0.3})
    assert tried.make_method().settings.bounds == (0.8, 1.0)
    assert (tried.make_method().settings.alpha, tried.make_method().settings.shrink) == (0.3, 0.02)


# What is found


def test_budgets_are_equal_and_the_best_is_the_mean_over_seeds_on_validation(make, folder):
    configs = [make("normal"), make("penalty"), make("logit_adjustment")]
    seen = []
    found = tune(configs, folder, trials=3, seeds=SEEDS, on_trial=seen.append)
    assert [(one.method, one.backbone, one.trials, one.failed) for one in found] == [
        ("normal", "mf", 3, 0),
        ("penalty", "mf", 3, 0),
        ("logit_adjustment", "mf", 3, 0),
    ]
    # At any time no method is more than one trial ahead.
    for count in range(1, 10):
        begun = [one.method for one in seen[:count]]
        counts = [begun.count(method) for method in ("normal", "penalty", "logit_adjustment")]
        assert max(counts) - min(counts) <= 1
    assert [one.done for one in seen] == list(range(1, 10))
    assert {one.total for one in seen} == {9}
    for config, one in zip(configs, found, strict=True):
        tried = history(folder, f"log.csv/{one.method}/mf")
        assert tried[0][0] == search_space(config).defaults
        assert len({tuple(sorted(point.items())) for point, _, _ in tried}) == 3
        assert one.score == max(value for _, _, value in tried)
        # The same settings trained in the usual way have that score.
        best = replace(config, **{name: {**getattr(config, name), **values} for name, values in one.settings.items()})
        scores = {}
        for seed in SEEDS:
            run = best.updated("train", {"seed": seed})
            method, parts = run.make_method(), run.open_parts()
            model = method.fit(parts.train, parts.valid, seed, **run.train_settings(method).as_dict())
            scores[seed] = measure(model, parts, [20])["valid"]["ndcg@20"]
        assert one.scores == scores
        assert one.score == mean(scores.values())


def test_the_test_part_is_never_looked_at(make, folder, monkeypatch):
    class Poison:
        def __getattribute__(self, name):
            raise AssertionError(f"somebody looked at {name} of the test part")

        def __len__(self):
            raise AssertionError("somebody counted the test part")

    whole = RunConfig.open_parts
    monkeypatch.setattr(RunConfig, "open_parts", lambda self: replace(whole(self), test=Poison()))
    [found] = tune([make(train={"batch_size": 255})], folder, trials=2, seeds=SEEDS)
    assert (found.trials, found.failed) == (2, 0)


def test_given_parts_without_test(make, folder, tmp_path):
    parts = make().open_parts()
    parts.train.write(tmp_path / "train.csv")
    parts.valid.write(tmp_path / "valid.csv")
    given = {"train": str(tmp_path / "train.csv"), "valid": str(tmp_path / "valid.csv")}
    [found] = tune([replace(make(), data=given)], folder, trials=1, seeds=[7])
    assert found.score > 0
    assert (found.data, found.split) == ("train.csv", {"kind": "given"})
    with pytest.raises(ConfigError, match="add --valid FILE"):
        tune([replace(make(), data={"train": given["train"]})], folder, trials=1, seeds=[7])


def test_a_small_space_ends_the_search_early(make, folder):
    score = always(0.5)
    [found] = tune([make(reg=0.0, train={"lr": 0.01})], folder, trials=30, seeds=[1], score=score)
    assert (found.trials, len(score.calls)) == (2, 2)  # negatives is 1 or 4
    assert {point["method.negatives"] for point, _, _ in history(folder)} == {1, 4}


def proposed(space: Space, worth, most: int, name: str = "name") -> list[dict]:
    """Return the points that are tried one after the other, if a function says what each is worth."""
    distributions = distributions_of(space)
    trials = []
    with quiet_optuna():
        while len(trials) < most and (point := propose(trials, space, name)) is not None:
            trials.append(create_trial(params=point, distributions=distributions, value=worth(point)))
    return [trial.params for trial in trials]


def test_the_sampler_learns_and_tries_nothing_twice():
    values = {name: dict.fromkeys(range(5)) for name in ("method.a", "method.b", "method.c")}
    space = Space(values, dict.fromkeys(values, 4))
    good = 0
    for name in "xyz":
        tried = proposed(space, lambda point: -point["method.a"] - 0.1 * point["method.b"], 24, name)
        assert tried[0] == space.defaults
        assert len({tuple(point.values()) for point in tried}) == 24
        good += [point["method.a"] for point in tried[8:]].count(0)
    assert good >= 16  # of 48; by chance 9.6, standard deviation 2.8
    assert tried == proposed(space, lambda point: -point["method.a"] - 0.1 * point["method.b"], 24, "z")


def test_a_small_space_is_tried_to_the_end():
    """Also where the sampler insists on what is best."""
    space = Space(
        {"method.a": dict.fromkeys(range(4)), "method.b": dict.fromkeys("xyz")}, {"method.a": 2, "method.b": "y"}
    )
    tried = proposed(space, lambda point: float(point["method.a"] == 2), most=99)
    assert len(tried) == len({tuple(point.values()) for point in tried}) == 12


def test_nothing_is_searched_if_everything_is_fixed(make, folder):
    config = make(negatives=2, reg=0.0, train={"lr": 0.01})
    [found] = tune([config], folder, trials=3, seeds=[1], score=always(0.5))
    assert (found.trials, found.score) == (1, 0.5)
    assert found.settings["method"] == {"negatives": 2, "reg": 0.0}


# Pruning, failures, time


def by_number(values) -> Scripted:
    """Scores by the order of settings, the same for all seeds."""
    points: list = []

    def answer(config, seed):
        point = (config.method, config.train["lr"])
        if point not in points:
            points.append(point)
        return values[points.index(point)]

    return Scripted(answer)


def test_a_trial_below_the_median_is_pruned_after_its_first_seed(make, folder):
    values = [0.5, 0.1, 0.4, 0.2, 0.3, 0.29, 0.31, 0.0]
    score, seen = by_number(values), []
    [found] = tune([make()], folder, trials=8, seeds=SEEDS, score=score, on_trial=seen.append)
    # A median needs five trials; then 0.29 is below 0.3, 0.31 is not, and 0 is below 0.305.
    assert [one.state for one in seen] == [*["complete"] * 5, "pruned", "complete", "pruned"]
    assert [one.score for one in seen] == pytest.approx(values)
    assert [seed for _, seed in score.calls] == [*SEEDS * 5, 100, *SEEDS, 100]
    assert (found.trials, found.pruned, found.failed, found.score) == (8, 2, 0, 0.5)


def test_without_pruning_all_seeds_are_trained(make, folder):
    score = by_number([0.5, 0.1, 0.4, 0.2, 0.3, 0.29, 0.31, 0.0])
    [found] = tune([make()], folder, trials=8, seeds=SEEDS, prune=False, score=score)
    assert (len(score.calls), found.trials, found.pruned) == (16, 8, 0)


def test_a_pruned_trial_is_never_the_best(make, folder):
    first = iter([0.9, 0.9, 0.9, 0.9, 0.9, 0.8])
    score = Scripted(lambda config, seed: next(first) if seed == 100 else 0.1)
    [found] = tune([make()], folder, trials=6, seeds=SEEDS, score=score)
    assert (found.pruned, found.score) == (1, 0.5)


class FragileSettings(LossSettings):
    temperature: float = setting(0.2, "Temperature of the softmax.", above=0.0, search=(0.2, -1.0))
    neg_weight: float = setting(1.0, "Factor of the negative term.", search=(1.0, 2.0))


class Fragile(SampledLoss):
    """A method that cannot be trained with some of its settings."""

    name = "fragile"
    Settings = FragileSettings

    def loss(self, batch, rng=None):
        return super().loss(batch, rng) * (float("nan") if self.settings.neg_weight == 2.0 else 1.0)


def test_failing_trials_count_and_do_not_stop_the_rest(make, folder):
    METHODS.add(Fragile)
    seen = []
    configs = [make("fragile", reg=0.0, train={"lr": 0.01}), make("normal")]
    found = tune(configs, folder, trials=4, seeds=[1], on_trial=seen.append)
    assert [(one.trials, one.failed) for one in found] == [(4, 3), (4, 0)]
    assert found[0].settings["method"] == {"reg": 0.0, "neg_weight": 1.0, "temperature": 0.2}
    reasons = sorted(one.reason for one in seen if one.state == "failed")
    assert ["temperature is -1.0" in one or "loss is nan at step 1" in one for one in reasons] == [True] * 3
    assert all(one.score is None for one in seen if one.state == "failed")


def test_a_method_that_cannot_take_the_backbone_is_given_up(make, folder):
    found = tune([make("in_batch", "neumf"), make("normal")], folder, trials=3, seeds=[1])
    assert [(one.trials, one.failed, one.score is None) for one in found] == [(1, 1, True), (3, 0, False)]
    assert "NeuMF" in found[0].reason
    presets = write_presets(folder, found, "1.0").read_text()
    assert "[normal.mf]" in presets
    assert "in_batch" not in presets


def test_minutes_end_a_cell(make, folder):
    def slow(config, seed):
        time.sleep(0.1)
        return 0.5

    seen = []
    [found] = tune([make()], folder, trials=30, seeds=[1], minutes=0.25 / 60, score=slow, on_trial=seen.append)
    assert sum(one.seconds for one in seen[:-1]) < 0.25 <= found.seconds
    assert found.trials == len(seen) < 30


# Stopped and continued


def test_interrupted_anywhere_it_continues_as_without_the_interruption(make, new_folder):
    """With Ctrl-C at every other training, the trials and their order are the same, and no training is repeated."""
    whole, pieces = new_folder("whole"), new_folder("pieces")
    config, name = make("logit_adjustment"), "log.csv/logit_adjustment/mf"
    tune([config], whole, trials=4, seeds=SEEDS)
    trained = []

    def interrupt(config, seed):
        if len(trained) % 2 == 1 and trained[-1] is not None:
            trained.append(None)
            raise KeyboardInterrupt
        trained.append(seed)
        return validation_score(config, seed)

    for _ in range(20):
        try:
            tune([config], pieces, trials=4, seeds=SEEDS, score=interrupt)
            break
        except KeyboardInterrupt:
            assert not any(one.state == TrialState.RUNNING for one in trials_of(pieces, name))
    assert trained.count(None) >= 3
    assert [seed for seed in trained if seed is not None] == SEEDS * 4
    assert history(pieces, name) == history(whole, name)
    assert len(trials_of(pieces, name)) == 4 + trained.count(None)


@contextmanager
def commits(folder: Path, on_commit) -> Iterator[None]:
    """Call a function before each commit of this thread to the study; heartbeats come from another thread."""
    engine = open_storage(f"sqlite:///{folder / 'study.db'}").engine

    def listen(connection) -> None:
        if threading.current_thread() is threading.main_thread():
            on_commit()

    event.listen(engine, "commit", listen)
    yield
    event.remove(engine, "commit", listen)


def killed_after(number: int, folder: Path, config: RunConfig, score) -> None:
    """Tune in a copy of this process that kills itself before it commits once more."""
    done = itertools.count()

    def count() -> None:
        if next(done) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads, of which the copy uses none
        process = os.fork()
    if process == 0:
        try:
            with commits(folder, count):
                tune([config], folder, trials=2, seeds=SEEDS, score=score)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_any_moment_it_ends_with_the_same_trials(make, new_folder):
    score, whole, done = Scripted(lambda config, seed: config.train["lr"] + seed), new_folder("whole"), []
    with commits(whole, lambda: done.append(1)):
        tune([make()], whole, trials=2, seeds=SEEDS, score=score)
    total, running, between_seeds = len(done), 0, 0
    assert total > 20
    for number in range(1, total, total // 8):
        folder = new_folder(str(number))
        killed_after(number, folder, make(), score)
        before = optuna.get_all_study_names(f"sqlite:///{folder / 'study.db'}") and trials_of(folder)
        trained = {
            (str(one.params), seed) for one in before for seed in one.user_attrs.get("found", {}).get("scores", {})
        }
        running += any(one.state == TrialState.RUNNING for one in before)
        between_seeds += len(trained) in (1, 3)
        score.calls.clear()
        [found] = tune([make()], folder, trials=2, seeds=SEEDS, score=score)
        assert (found.trials, found.running) == (2, 0)
        assert len(score.calls) == 4 - len(trained)  # no seed that was recorded is trained again
        assert history(folder) == history(whole)
    assert running > 2  # the moments include many in the middle of a trial
    assert between_seeds > 0


def test_more_trials_continue_from_those_that_exist(make, folder):
    score = always(0.5)
    tune([make()], folder, trials=2, seeds=[1], score=score)
    [found] = tune([make(), make("penalty")], folder, trials=3, seeds=[1], score=score)[:1]
    assert (found.trials, len(score.calls)) == (3, 6)
    tune([make()], folder, trials=3, seeds=[1], score=score)
    assert len(score.calls) == 6


@pytest.mark.parametrize(("silent", "lost"), [(60, False), (3600, True)])
def test_a_trial_of_another_process_is_taken_over_when_its_heartbeats_stop(make, folder, tmp_path, silent, lost):
    """The study is shared, so only heartbeats say whether the process of a running trial still exists."""
    url, config = f"sqlite:///{folder / 'study.db'}", make()
    space = search_space(config)
    with quiet_optuna():
        study = CellStudy(open_storage(url), "log.csv/normal/mf", space)
        found = {"scores": {"100": 0.25}, "seconds": 2.0}
        begun = create_trial(
            state=TrialState.RUNNING,
            params=space.defaults,
            distributions=distributions_of(space),
            user_attrs={"found": found, "job": "of another process"},
        )
        study.optuna.add_trial(begun)
        open_storage(url).record_heartbeat(1)
    with closing(sqlite3.connect(folder / "study.db")) as connection, connection:
        connection.execute(f"update trial_heartbeats set heartbeat = datetime('now', '-{silent} seconds')")
    score = always(0.75)
    [found] = tune([config], tmp_path / "other", trials=3, seeds=SEEDS, storage=url, score=score)
    assert (found.trials, found.running) == ((3, 0) if lost else (2, 1))
    defaults = [trial for trial in trials_of(folder) if trial.params == space.defaults]
    assert [one.state.name for one in defaults] == (["FAIL", "COMPLETE"] if lost else ["RUNNING"])
    if lost:
        assert len(score.calls) == 5  # the seed that was trained is not trained again
        assert defaults[1].value == 0.5


def test_two_processes_that_start_the_last_trial_at_once(make, folder):
    """Of two processes that have both seen room for one trial, the later one gives way."""
    space = search_space(make())
    with quiet_optuna():
        url = f"sqlite:///{folder / 'study.db'}"
        first, second = (CellStudy(open_storage(url), "data/m/b", space) for _ in range(2))
        assert first.is_open(1, 9.0)
        assert second.is_open(1, 9.0)
        queue = optuna.load_study(storage=url, study_name="data/m/b")
        for negatives in (1, 4):
            queue.enqueue_trial({**space.defaults, "method.negatives": negatives})
        trials = [queue.ask(distributions_of(space)) for _ in range(2)]
        for trial in trials:
            trial.set_user_attr("job", "of another process")
    points = [study.point_of(trial) for study, trial in zip((first, second), trials, strict=True)]
    assert not first.is_surplus(trials[0], points[0], 1)
    assert second.is_surplus(trials[1], points[1], 1)
    assert not second.is_surplus(trials[1], points[1], 2)
    assert second.is_surplus(trials[1], points[0], 2)  # the same settings


def test_a_queued_trial_is_taken_once(folder):
    """Processes that start at once after an interruption must not take the same trial from the queue."""
    storage = open_storage(f"sqlite:///{folder / 'study.db'}")
    with quiet_optuna(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna prefers heartbeats with optimize, which is not needed here
        study = optuna.create_study(storage=storage, study_name="queue")
        for number in range(40):
            study.enqueue_trial({"x": number})
        with ThreadPoolExecutor(4) as pool:
            taken = list(pool.map(lambda _: study.ask().number, range(40)))
    assert sorted(taken) == list(range(40))


@pytest.mark.parametrize("change", ["seeds", "settings", "data", "split", "values"])
def test_another_tuning_in_the_same_folder_is_refused(make, folder, tmp_path, change):
    score = always(0.5)
    tune([make()], folder, trials=1, seeds=[1], score=score)
    config, seeds = make(), [1]
    if change == "seeds":
        seeds = [2]
    elif change == "settings":
        config = config.updated("train", {"epochs": 2})
    elif change == "split":
        config = config.updated("split", {"mode": "item_quota"})
    elif change == "values":
        config = config.updated("method", {"reg": 0.0})
    else:
        skewed_log(seed=3).write(tmp_path / "log.csv")
        config = config.updated("data", {"source": str(tmp_path / "log.csv")})
    expected = "settings|values" if change == "values" else change if change != "seeds" else "data|seeds"
    with pytest.raises(ConfigError, match=f"another tuning of log.csv/normal/mf: its ({expected}) are"):
        tune([config], folder, trials=1, seeds=seeds, score=score)
    assert len(score.calls) == 1


def test_settings_that_only_say_where_a_run_happens_may_change(make, folder):
    score = always(0.5)
    tune([make()], folder, trials=1, seeds=[1], score=score)
    tune([make(train={"device": "cpu"})], folder, trials=1, seeds=[1], score=score)
    assert len(score.calls) == 1


# Workers


def test_results_do_not_depend_on_the_number_of_workers(make, new_folder):
    """All settings of a small space are tried, in any order, with the same scores."""
    configs = [make(reg=0.0, train={"lr": 0.01}), make("penalty", loss="bce", temperature=0.2, reg=0.0)]
    one, two = new_folder("one"), new_folder("two")
    alone = tune(configs, one, trials=9, seeds=SEEDS, prune=False)
    together = tune(configs, two, trials=9, seeds=SEEDS, prune=False, workers=2)
    assert [replace(found, seconds=0.0) for found in together] == [replace(found, seconds=0.0) for found in alone]
    for name in ("log.csv/normal/mf", "log.csv/penalty/mf"):
        assert len(history(one, name)) > 1
        assert sorted(map(str, history(two, name))) == sorted(map(str, history(one, name)))


SCORING = """
import os

def kill_or_score(config, seed):
    if config.method.get("negatives") == 4 and config.method["name"] == "normal":
        os.kill(os.getpid(), 9)
    return 0.5
"""


def test_a_worker_that_dies_costs_its_trial_only(make, folder, write, monkeypatch):
    """The worker is killed in the middle of training, as by the operating system when memory runs out."""
    monkeypatch.syspath_prepend(write("scoring.py", SCORING).parent)  # workers import the function by its name
    from scoring import kill_or_score

    seen = []
    configs = [make(reg=0.0, train={"lr": 0.01}), make("penalty")]
    found = tune(configs, folder, trials=2, seeds=[1], workers=2, score=kill_or_score, on_trial=seen.append)
    assert [(one.trials, one.failed) for one in found] == [(2, 1), (2, 0)]
    [failed] = [one for one in seen if one.state == "failed"]
    assert (failed.method, failed.settings["method"]) == ("normal", {"negatives": 4})
    assert "process ended" in failed.reason
    assert [one.score for one in found] == [0.5, 0.5]


# Wrong use


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trials": 0}, "trials is 0; expected a whole number from 1 up"),
        ({"workers": 0}, "workers is 0"),
        ({"minutes": 0}, "minutes is 0"),
        ({"seeds": []}, "seeds are"),
        ({"seeds": [1, 1]}, "seeds are"),
        ({"seeds": [-1]}, "seeds are"),
        ({"storage": "nonsense://x"}, "the database of --storage cannot be opened"),
        ({"storage": "postgresql://me:secret@nowhere.invalid/x"}, "the database of --storage cannot be opened"),
    ],
)
def test_wrong_arguments(make, folder, change, message):
    with pytest.raises(ConfigError, match=message) as error:
        tune([make()], folder, **change)
    assert "secret" not in str(error.value)


def test_a_missing_driver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(ConfigError, match=r"its driver psycopg2 is not installed.*pip install psycopg2"):
        open_storage("postgresql+psycopg2://me@nowhere.invalid/x")


def test_a_folder_in_use_is_refused(make, folder):
    def start_again(config, seed):
        tune([make()], folder, trials=1, seeds=[1])

    seen = []
    tune([make()], folder, trials=1, seeds=[1], score=start_again, on_trial=seen.append)
    assert "another process is working in" in seen[0].reason


def test_wrong_configurations(make, folder):
    for configs, message in [
        ([], "nothing to tune"),
        ([make(), make()], "normal on mf appears twice"),
        ([make("norml")], "unknown method 'norml'"),
        ([make(colour=3)], "has no setting 'colour'"),
        ([make(train={"epochs": 0})], "epochs is 0"),
        ([make(train={"device": "abacus"})], "device 'abacus' is not available"),
    ]:
        with pytest.raises(ConfigError, match=message):
            tune(configs, folder)


def test_a_database_that_breaks_is_reported_in_one_line(make, folder):
    def drop(config, seed):
        with sqlite3.connect(folder / "study.db") as connection:
            connection.execute("drop table trial_user_attributes")
        return 0.5

    with pytest.raises(IcpeError, match="the study cannot be read or written: no such table") as error:
        tune([make()], folder, trials=1, seeds=[1], score=drop)
    assert type(error.value) is IcpeError


def test_without_optuna(make, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"pip install 'icpe\[tune\]'"):
        tune([make()], tmp_path / "tuning")
    assert not (tmp_path / "tuning").exists()


def test_optuna_is_as_verbose_as_before(make, folder, capfd):
    before = optuna.logging.get_verbosity()
    tune([make()], folder, trials=2, seeds=[1], score=always(0.5))
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")
