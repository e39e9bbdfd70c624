"""Tuning: equal budgets, validation only, nothing tried twice, and on from wherever it was stopped."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import ClassVar

import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.storages import RDBStorage
from optuna.trial import create_trial
from sqlalchemy.exc import IntegrityError

from icpe.backbones import BACKBONES
from icpe.errors import ConfigError, IcpeError
from icpe.jobs import _ledger
from icpe.jobs import workers as _workers
from icpe.jobs._ledger import Ledger, open_storage, quiet
from icpe.jobs._space import LR, REG, Space, search_space
from icpe.jobs.workers import Outcome, training_processes
from icpe.methods import METHODS, Normal
from icpe.runs.config import RunConfig
from icpe.runs.run import measure
from icpe.testing import skewed_log
from icpe.tune.search import as_presets, tune

SEEDS = [100, 101]


@pytest.fixture(scope="module")
def log_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "log.csv"
    skewed_log(users=60, items=40, pairs=900).write(path)
    return path


@pytest.fixture(scope="module")
def empty_study(tmp_path_factory) -> Path:
    """A database with tables, which take longest to make."""
    path = tmp_path_factory.mktemp("empty") / "study.db"
    with quiet():
        open_storage(path)
    return path


@pytest.fixture(autouse=True)
def quick_to_open(monkeypatch, empty_study):
    """Without comparing the version of the tables, which takes longer than the tests."""
    monkeypatch.setattr(_ledger, "RDBStorage", partial(RDBStorage, skip_compatibility_check=True))


@pytest.fixture
def study(empty_study, tmp_path) -> Path:
    return Path(shutil.copy(empty_study, tmp_path / "study.db"))


@pytest.fixture
def make(log_file):
    """The configuration of a method on small data."""

    def make_config(method: str = "normal", backbone: str = "mf", /, train=(), **settings) -> RunConfig:
        return RunConfig(
            data={"source": str(log_file)},
            backbone={"name": backbone, **({"dim": 4} if backbone == "mf" else {})},
            method={"name": method, **settings},
            train={"epochs": 1, "batch_size": 256, **dict(train)},
        )

    return make_config


@pytest.fixture
def scripted(monkeypatch):
    """Let a function of configuration and seed stand in for training; gives the list of its calls."""

    def script(answer) -> list[tuple[RunConfig, int]]:
        calls: list[tuple[RunConfig, int]] = []

        def train_once(config, seed, on_step=None):
            calls.append((config, seed))
            score = answer(config, seed)
            return score if isinstance(score, Outcome) else Outcome(1.0, score)

        monkeypatch.setattr(_workers, "train_once", train_once)
        return calls

    return script


def trials_of(path: Path, name: str) -> list[optuna.trial.FrozenTrial]:
    storage = _ledger.open_storage(path)
    return storage.get_all_trials(storage.get_study_id_from_name(name))


def history(path: Path, name: str) -> list[tuple[dict, str, float | None]]:
    """What counts, in its order."""
    counted = [trial for trial in trials_of(path, name) if "void" not in trial.user_attrs]
    return [(trial.params, trial.state.name, trial.value) for trial in counted]


# What is searched


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("method", METHODS)
def test_the_usual_point_is_the_default(method, backbone):
    config = RunConfig(method={"name": method}, backbone={"name": backbone})
    space = search_space(config)
    usual = space.apply(config, space.usual)
    assert usual.make_method().settings() == config.make_method().settings()
    assert usual.train_settings(usual.make_method()) == config.train_settings(config.make_method())
    if not config.make_method().settings():  # it learns nothing
        assert (space.values, space.size) == ({}, 1)
        return
    assert set(space.values["method.reg"]) >= set(METHODS[method].search.get("reg", REG))
    assert set(space.values["train.lr"]) >= set(LR)
    for name in METHODS[method].search:
        assert f"method.{name}" in space.values
    for choices in space.values.values():
        CategoricalDistribution(list(choices))  # warnings are errors: labels fit a database


def test_what_is_fixed_is_not_searched_and_a_preset_is_where_it_starts():
    config = RunConfig(method={"name": "icpe", "preset": "paper", "shrink": 0.02}, train={"lr": 0.5})
    space = search_space(config)
    assert list(space.values) == ["method.alpha", "method.bounds", "method.reg", "method.temperature"]
    assert space.usual["method.alpha"] == 2e-3  # not among the method's values, so added
    assert list(space.values["method.alpha"]) == [2e-3, 0.03, 0.1, 0.3]
    assert space.usual["method.bounds"] == "[0.8, 1.0]"
    tried = space.apply(config, {**space.usual, "method.alpha": 0.3})
    assert tried.make_method().settings()["bounds"] == [0.8, 1.0]
    assert (tried.make_method().alpha, tried.make_method().shrink) == (0.3, 0.02)


# What is found


def test_budgets_are_equal_and_the_best_is_the_mean_over_seeds_on_validation(make, study):
    configs = [make("normal"), make("penalty"), make("logit_adjustment")]
    seen = []
    found = tune(configs, study, trials=3, seeds=SEEDS, on_trial=seen.append)
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
        tried = history(study, f"log.csv/{one.method}/mf")
        assert tried[0][0] == search_space(config).usual
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


def test_the_test_part_is_never_looked_at(make, study, monkeypatch):
    class Poison:
        def __getattribute__(self, name):
            raise AssertionError(f"somebody looked at {name} of the test part")

        def __len__(self):
            raise AssertionError("somebody counted the test part")

    whole = RunConfig.open_parts
    monkeypatch.setattr(RunConfig, "open_parts", lambda self: replace(whole(self), test=Poison()))
    [found] = tune([make()], study, trials=2, seeds=SEEDS)
    assert (found.trials, found.failed) == (2, 0)


def test_given_parts_without_test(make, study, log_file, tmp_path):
    parts = make().open_parts()
    parts.train.write(tmp_path / "train.csv")
    parts.valid.write(tmp_path / "valid.csv")
    given = {"train": str(tmp_path / "train.csv"), "valid": str(tmp_path / "valid.csv")}
    [found] = tune([replace(make(), data=given)], study, trials=1, seeds=[7])
    assert found.score > 0
    assert (found.data, found.split) == ("train.csv", {"kind": "given"})
    with pytest.raises(ConfigError, match="there are none: give --valid"):
        tune([replace(make(), data={"train": given["train"]})], study, trials=1, seeds=[7])


def test_all_there_is_to_try_is_tried_once(make, study, scripted):
    calls = scripted(lambda config, seed: 0.5)
    [found] = tune([make(reg=0.0, train={"lr": 0.01})], study, trials=30, seeds=[1])
    assert (found.trials, len(calls)) == (2, 2)  # negatives is 1 or 4
    assert {point["method.negatives"] for point, _, _ in history(study, "log.csv/normal/mf")} == {1, 4}


def proposed(space: Space, worth, most: int, name: str = "name") -> list[dict]:
    """What is tried, one after the other, where a function says what a point is worth."""
    distributions = {name: CategoricalDistribution(list(values)) for name, values in space.values.items()}
    trials = []
    with quiet():
        while len(trials) < most and (point := _ledger._propose(trials, space, distributions, name)) is not None:
            trials.append(create_trial(params=point, distributions=distributions, value=worth(point)))
    return [trial.params for trial in trials]


def test_the_sampler_learns_and_tries_nothing_twice():
    values = {name: dict.fromkeys(range(5)) for name in ("method.a", "method.b", "method.c")}
    space = Space(values, dict.fromkeys(values, 4))
    good = 0
    for name in "xyz":
        tried = proposed(space, lambda point: -point["method.a"] - 0.1 * point["method.b"], 24, name)
        assert tried[0] == space.usual
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


def test_nothing_is_searched_where_all_is_fixed(make, study, scripted):
    scripted(lambda config, seed: 0.5)
    [found] = tune([make(negatives=2, reg=0.0, train={"lr": 0.01})], study, trials=3, seeds=[1])
    assert (found.trials, found.score) == (1, 0.5)
    assert found.settings["method"] == {"negatives": 2, "reg": 0.0}


# Pruning, failures, time


def by_number(values):
    """Scores by the order of settings, the same for all seeds."""
    points: list = []

    def answer(config, seed):
        point = (config.method, config.train["lr"])
        if point not in points:
            points.append(point)
        return values[points.index(point)]

    return answer


def test_a_trial_below_the_median_is_pruned_after_its_first_seed(make, study, scripted):
    values = [0.5, 0.1, 0.4, 0.2, 0.3, 0.29, 0.31, 0.0]
    calls = scripted(by_number(values))
    seen = []
    [found] = tune([make()], study, trials=8, seeds=SEEDS, on_trial=seen.append)
    # Five are needed for a median, whatever they are; then 0.29 < 0.3, 0.31 is not below 0.295, and 0 is below 0.3.
    assert [one.state for one in seen] == [*["complete"] * 5, "pruned", "complete", "pruned"]
    assert [one.score for one in seen] == pytest.approx(values)
    assert [seed for _, seed in calls] == [*SEEDS * 5, 100, *SEEDS, 100]
    assert (found.trials, found.pruned, found.failed, found.score) == (8, 2, 0, 0.5)


def test_without_pruning_all_seeds_are_trained(make, study, scripted):
    calls = scripted(by_number([0.5, 0.1, 0.4, 0.2, 0.3, 0.29, 0.31, 0.0]))
    [found] = tune([make()], study, trials=8, seeds=SEEDS, prune=False)
    assert (len(calls), found.trials, found.pruned) == (16, 8, 0)


def test_a_pruned_trial_is_never_the_best(make, study, scripted):
    first = iter([0.9, 0.9, 0.9, 0.9, 0.9, 0.8])
    scripted(lambda config, seed: next(first) if seed == 100 else 0.1)
    [found] = tune([make()], study, trials=6, seeds=SEEDS)
    assert (found.pruned, found.score) == (1, 0.5)


class Fragile(Normal):
    """Cannot be trained with some of its settings."""

    name = "fragile"
    search: ClassVar = {"neg_weight": (1.0, 2.0), "temperature": (0.2, -1.0)}

    def loss(self, batch, rng=None):
        return super().loss(batch, rng) * (float("nan") if self.neg_weight == 2.0 else 1.0)


def test_failing_trials_count_and_do_not_stop_the_rest(make, study, monkeypatch):
    monkeypatch.setitem(METHODS, "fragile", Fragile)
    seen = []
    configs = [make("fragile", reg=0.0, train={"lr": 0.01}), make("normal")]
    found = tune(configs, study, trials=4, seeds=[1], on_trial=seen.append)
    assert [(one.trials, one.failed) for one in found] == [(4, 3), (4, 0)]
    assert found[0].settings["method"] == {"reg": 0.0, "neg_weight": 1.0, "temperature": 0.2}
    reasons = sorted(one.reason for one in seen if one.state == "failed")
    assert [reason[:30] for reason in reasons] == [
        "temperature is -1.0; expected ",
        "temperature is -1.0; expected ",
        "the loss is nan at step 1 with",
    ]


def test_a_method_that_cannot_take_the_backbone_is_given_up(make, study):
    found = tune([make("in_batch", "neumf"), make("normal")], study, trials=3, seeds=[1])
    assert [(one.trials, one.failed, one.score is None) for one in found] == [(1, 1, True), (3, 0, False)]
    assert found[0].reason.startswith("NeuMF scores pairs one by one")
    assert set(as_presets(found, "1.0")) == {"normal"}


def test_minutes_end_a_cell(make, study, scripted):
    calls = scripted(lambda config, seed: Outcome(40.0, 0.5))
    [found] = tune([make()], study, trials=9, seeds=[1], minutes=2)
    assert (found.trials, len(calls), found.seconds) == (3, 3, 120.0)


# Stopped and continued


def test_interrupted_anywhere_it_goes_on_as_if_it_had_not_been(make, empty_study, tmp_path, monkeypatch):
    """Ctrl-C at each run of training in turn: the same trials in the same order, and no run done twice."""
    whole = Path(shutil.copy(empty_study, tmp_path / "whole.db"))
    tune([make("logit_adjustment")], whole, trials=4, seeds=SEEDS)
    pieces = Path(shutil.copy(empty_study, tmp_path / "pieces.db"))
    train_once, trained = _workers.train_once, []

    def interrupt(config, seed, on_step=None):
        if len(trained) % 2 == 1 and trained[-1] is not None:
            trained.append(None)
            raise KeyboardInterrupt
        trained.append(seed)
        return train_once(config, seed, on_step)

    monkeypatch.setattr(_workers, "train_once", interrupt)
    for _ in range(20):
        try:
            tune([make("logit_adjustment")], pieces, trials=4, seeds=SEEDS)
            break
        except KeyboardInterrupt:
            assert not any(one.state.name == "RUNNING" for one in trials_of(pieces, "log.csv/logit_adjustment/mf"))
    assert trained.count(None) >= 3
    assert [seed for seed in trained if seed is not None] == SEEDS * 4
    name = "log.csv/logit_adjustment/mf"
    assert history(pieces, name) == history(whole, name)
    assert len(trials_of(pieces, name)) == 4 + trained.count(None)


class Killed(BaseException):
    """Not an Exception: nothing on the way may catch it and carry on."""


WRITES = ("create_new_trial", "set_trial_user_attr", "set_trial_intermediate_value", "set_trial_state_values")


def dying(write, done: list[str], die_after: int):
    def wrapped(*args, **options):
        if len(done) < die_after:
            result = write(*args, **options)
            done.append(write.__name__)
        if len(done) >= die_after:
            raise Killed
        return result

    return wrapped


def test_death_after_any_write(make, empty_study, tmp_path, monkeypatch, scripted):
    """As if the process was gone: from that write on it writes nothing more, not even that it was interrupted."""
    calls = scripted(lambda config, seed: config.train["lr"] + seed)

    def writes(path: Path, die_after: int) -> list[str]:
        done: list[str] = []
        with monkeypatch.context() as patch:
            for name in WRITES:
                patch.setattr(RDBStorage, name, dying(getattr(RDBStorage, name), done, die_after))
            with suppress(Killed):
                tune([make()], path, trials=2, seeds=SEEDS)
        return done

    whole = Path(shutil.copy(empty_study, tmp_path / "whole.db"))
    number = len(writes(whole, die_after=999))
    assert number == 10
    for die_after in (1, 3, 4, 6, number):
        path = Path(shutil.copy(empty_study, tmp_path / f"{die_after}.db"))
        assert len(writes(path, die_after)) == die_after
        calls.clear()
        [found] = tune([make()], path, trials=2, seeds=SEEDS)
        assert (found.trials, found.running) == (2, 0)
        assert len(calls) == {1: 4, 3: 3, 4: 2, 6: 2, number: 0}[die_after]  # runs that are left
        assert history(path, "log.csv/normal/mf") == history(whole, "log.csv/normal/mf")


def test_more_trials_go_on_from_those_that_are_there(make, study, scripted):
    calls = scripted(lambda config, seed: 0.5)
    tune([make()], study, trials=2, seeds=[1])
    [found] = tune([make(), make("penalty")], study, trials=3, seeds=[1])[:1]
    assert (found.trials, len(calls)) == (3, 6)
    before = study.read_bytes()
    tune([make()], study, trials=3, seeds=[1])
    assert (len(calls), study.read_bytes()) == (6, before)


def ledger(path: Path, seeds=(1,), **identity) -> Ledger:
    with quiet():
        space = Space({"method.a": {name: name for name in range(9)}}, {"method.a": 4})
        return Ledger(open_storage(path), "data/m/b", space, list(seeds), identity)


def _taken(ledger: Ledger) -> int:
    standing = ledger.standing()
    assert ledger.taken == standing.finished + standing.running
    return ledger.taken


def gone() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("owner", "age", "lost"),
    [
        ({"pid": "gone"}, 0, True),
        ({"pid": os.getpid()}, 0, True),  # this very number, but an earlier process, as in containers
        ({"pid": os.getppid()}, 0, False),
        ({"pid": "gone", "host": "elsewhere"}, 60, False),
        ({"pid": "gone", "host": "elsewhere"}, 3600, True),
        ({"pid": os.getppid()}, 3600, True),
    ],
)
def test_trials_whose_process_is_gone_are_taken_up(study, owner, age, lost):
    first, second = ledger(study, SEEDS), ledger(study, SEEDS)
    first._owner |= {**owner, "pid": gone() if owner["pid"] == "gone" else owner["pid"]}
    begun = first.begin(3)
    first.score(begun, 100, 0.25, 2.0)
    first._storage.set_trial_user_attr(begun.id, "alive", time.time() - age)
    taken = second.begin(3)
    assert (taken.point == begun.point) == lost
    assert taken.scores == ({100: 0.25} if lost else {})
    assert _taken(second) == (1 if lost else 2)
    if lost:
        # The first was only slow: what it says comes too late and changes nothing.
        first.score(begun, 101, 0.75, 2.0)
        first.complete(begun)
        assert (second.standing().complete, second.standing().running) == (0, 1)
        second.score(taken, 101, 0.5, 1.0)
        second.complete(taken)
        assert (second.standing().score, second.standing().seconds) == (0.375, 3.0)


def test_two_that_begin_in_the_same_moment(study):
    """The later one sees, when it has written its own, that the budget is spent or that the point is being tried."""
    first, second = ledger(study), ledger(study)
    second._owner["pid"] = first._owner["pid"] = os.getppid()
    now = second._all

    def first_look_is_old():
        looks = itertools.count()
        second._all = lambda: [] if next(looks) == 0 else now()

    begun = first.begin(1)
    first_look_is_old()
    assert second.begin(1) is None
    assert [trial.user_attrs.get("void") for trial in now()] == [None, "surplus"]
    first_look_is_old()
    other = second.begin(2)
    assert begun.point == {"method.a": 4} != other.point
    assert first.begin(2) is None
    assert _taken(first) == 2


@pytest.mark.parametrize("change", ["seeds", "settings", "data", "split", "values"])
def test_another_tuning_in_the_same_file_is_refused(make, study, scripted, tmp_path, change):
    calls = scripted(lambda config, seed: 0.5)
    tune([make()], study, trials=1, seeds=[1])
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
        tune([config], study, trials=1, seeds=seeds)
    assert len(calls) == 1


def test_what_only_says_where_a_run_happens_may_change(make, study, scripted):
    calls = scripted(lambda config, seed: 0.5)
    tune([make()], study, trials=1, seeds=[1])
    tune([make(train={"device": "cpu"})], study, trials=1, seeds=[1])
    assert len(calls) == 1


# Processes


def test_a_process_that_dies_costs_its_trial_only(make):
    crew = training_processes(1)
    try:
        crew.submit(1, make(), 1)
        assert crew.free == 0
        crew._busy[next(iter(crew._busy))][1].kill()
        [(key, outcome)] = crew.collect(60)
        assert (key, outcome.score, outcome.kind) == (1, None, "Died")
        assert "ended with code -9" in outcome.reason
        os.kill(crew._idle[0][1].pid, signal.SIGINT)  # as Ctrl-C in a terminal, which this process has to answer
        crew.submit(2, make(), 1)
        [(key, outcome)] = crew.collect(60)
        assert (key, outcome.score) == (2, _workers.train_once(make(), 1).score)
        assert crew.free == 1
        [(_, process)] = crew._idle
    finally:
        crew.close()
    assert not process.is_alive()


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
def test_wrong_arguments(make, study, change, message):
    with pytest.raises(ConfigError, match=message) as error:
        tune([make()], **{"storage": study, **change})
    assert "secret" not in str(error.value)


def test_a_driver_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(ConfigError, match=r"its driver psycopg2 is not installed. Install it \(pip install psycopg2\)"):
        open_storage("postgresql+psycopg2://me@nowhere.invalid/x")


@pytest.mark.parametrize(
    ("reason", "tries"), [("duplicate key value violates a constraint", 3), ("password authentication failed", 1)]
)
def test_tables_made_by_two_at_once(tmp_path, monkeypatch, reason, tries):
    """What PostgreSQL said to the later of two machines that opened a new database."""
    tried, opened = [], _ledger.RDBStorage

    def too_late(url, **settings):
        tried.append(url)
        if len(tried) < 3:
            raise IntegrityError("CREATE TYPE", None, Exception(reason))
        return opened(url, **settings)

    monkeypatch.setattr(_ledger, "RDBStorage", too_late)
    monkeypatch.setattr(_ledger.time, "sleep", lambda _: None)
    if tries == 1:
        with pytest.raises(ConfigError, match=reason):
            open_storage(tmp_path / "study.db")
    else:
        assert open_storage(tmp_path / "study.db").get_all_studies() == []
    assert len(tried) == tries


def test_wrong_configurations(make, study):
    for configs, message in [
        ([], "nothing to tune"),
        ([make(), make()], "normal on mf is there twice"),
        ([make("norml")], "unknown method 'norml'"),
        ([make(colour=3)], "has no setting 'colour'"),
        ([make(train={"epochs": 0})], "epochs is 0"),
        ([make(train={"device": "abacus"})], "device 'abacus' is not available"),
    ]:
        with pytest.raises(ConfigError, match=message):
            tune(configs, study)


def test_a_database_that_breaks_is_told_in_one_line(make, study, scripted):
    import sqlite3

    def drop(config, seed):
        with sqlite3.connect(study) as connection:
            connection.execute("drop table trial_user_attributes")
        return 0.5

    scripted(drop)
    with pytest.raises(IcpeError, match="the study cannot be read or written: no such table") as error:
        tune([make()], study, trials=1, seeds=[1])
    assert type(error.value) is IcpeError


def test_without_optuna(make, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "optuna"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "icpe.jobs._ledger")
    monkeypatch.delattr("icpe.jobs._ledger")
    with pytest.raises(ConfigError, match=r"pip install 'icpe\[tune\]'"):
        tune([make()], tmp_path / "study.db")
    assert not (tmp_path / "study.db").exists()


def test_optuna_is_as_loud_as_before(make, study, scripted, capfd):
    scripted(lambda config, seed: 0.5)
    before = optuna.logging.get_verbosity()
    tune([make()], study, trials=2, seeds=[1])
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")
