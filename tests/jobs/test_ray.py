"""Jobs on a Ray cluster of two nodes on this machine: the same results as here, also if a node is lost on the way."""

import os
import shutil
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import polars as pl
import psutil
import pytest

from icpe.compare.grid import Cell, run_grid
from icpe.errors import ConfigError
from icpe.jobs import WORKER_DIED, Input, Job, RayCluster, run_in_order, run_jobs
from icpe.jobs.ray import RETRIES, RayTasks
from icpe.runs.config import RunConfig
from icpe.runs.run import Run
from icpe.testing import skewed_log
from icpe.tune.search import tune

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402

PLUGIN = '''
import time
from pathlib import Path

import ray

from icpe import Normal

MARK = Path({mark!r})


class Waiting(Normal):
    """Waits for its node to be killed, the first time that it is trained on another node than the head."""

    name = "waiting"

    def loss(self, batch, rng=None):
        node = ray.get_runtime_context().get_node_id()
        if node != {head!r} and not MARK.exists():
            MARK.write_text("here")
            time.sleep(600)
        return super().loss(batch, rng)


class Fragile(Normal):
    """Fails in its second epoch, when there is a checkpoint."""

    name = "fragile"

    def loss(self, batch, rng=None):
        self.calls = getattr(self, "calls", 0) + 1
        return super().loss(batch, rng) * (float("nan") if self.calls > 4 else 1.0)
'''


pytestmark = pytest.mark.xdist_group("ray")  # one cluster serves all of them


@pytest.fixture(scope="module")
def cluster():
    """A cluster of two nodes with one core each. The driver is connected to the head."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # sockets need short names
    Path("/tmp/ray").mkdir(exist_ok=True)  # Ray writes the address here too, and does not create it for another folder
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RAY_ADDRESS", "RAY_TMPDIR"):
            patch.delenv(name, raising=False)
        before = set(psutil.Process().children(recursive=True))
        nodes = Cluster()
        try:
            nodes.add_node(num_cpus=1, temp_dir=folder, include_dashboard=False)
            nodes.add_node(num_cpus=1)
            RayCluster(nodes.address).connect()
            # Nodes cannot import the functions of this file.
            ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
            yield nodes
        finally:
            ray.shutdown()
            nodes.shutdown()
            shutil.rmtree(folder, ignore_errors=True)
        left = set(psutil.Process().children(recursive=True)) - before
        _, alive = psutil.wait_procs(left, timeout=20)
        assert not alive


@pytest.fixture
def workers(cluster) -> RayCluster:
    while len(cluster.worker_nodes) < 1:
        cluster.add_node(num_cpus=1)
    return RayCluster(cluster.address)


def wait_until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


# The engine


def compute(folder: Path, action, number: int | None = None) -> object:
    """What all jobs call: the action of the job, with its folder and its input."""
    return action(folder, number)


def read_and_write(folder: Path, _: int) -> str:
    (folder / "below").mkdir()
    (folder / "below" / "new").write_bytes(b"new")
    return (folder / "text").read_text()


def change_and_fail(folder: Path, _: None) -> str:
    (folder / "text").write_text("changed")
    return (folder / "missing").read_text()


def the_number(_: Path, number: int) -> int:
    return number


def thread_variables(_: Path, __: None) -> tuple[str, str]:
    return os.environ["OMP_NUM_THREADS"], os.environ["NUMBA_NUM_THREADS"]


def die_once(mark: Path, _: Path, __: None) -> str:
    if not mark.exists():
        mark.touch()
        os._exit(1)
    return "alive"


def die(_: Path, __: None) -> None:
    os._exit(1)


def say(number: int, _: None, __: None) -> int:
    time.sleep(0.3 * (number == 0))
    return number


def sleep_long(mark: Path, _: None, __: None) -> None:
    mark.write_text(str(os.getpid()))
    time.sleep(600)


def resources(_: None, __: None) -> dict[str, float]:
    return ray.get_runtime_context().get_assigned_resources()


def run(workers, *jobs: Job) -> dict[object, object]:
    left, results = list(jobs), {}
    run_jobs(
        lambda: left.pop(0) if left else None,
        compute,
        lambda one: results.update({one.key: one}),
        workers=workers,
    )
    return results


def test_jobs_on_other_machines(workers, tmp_path):
    """Values, failures, files both ways, inputs that travel once, and processes that die."""
    packed = []

    def pack() -> int:
        packed.append(1)
        return 20

    number = Input("number", "twenty", pack, partial(int.__add__, 1))
    for name in ("old", "wrong", "dead"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "text").write_text(name)
    found = run(
        workers,
        Job("old", (read_and_write,), folder=tmp_path / "old", inputs=(number,)),
        Job("wrong", (change_and_fail,), folder=tmp_path / "wrong"),
        Job("number", (the_number,), folder=tmp_path / "nothing", inputs=(number,)),
        Job("threads", (thread_variables,), folder=tmp_path / "t"),
        Job("dies once", (partial(die_once, tmp_path / "died"),), folder=tmp_path / "once"),
        Job("dead", (die,), folder=tmp_path / "dead"),
    )
    assert found["old"].value == "old"
    assert {one.name: one.read_bytes() for one in (tmp_path / "old").rglob("*") if one.is_file()} == {
        "text": b"old",
        "new": b"new",
    }
    assert (found["number"].value, packed) == (21, [1])
    assert not (tmp_path / "nothing").exists()
    assert found["threads"].value == ("1", "1")
    # A failure names the file here, and leaves the folder as the function left it.
    assert found["wrong"].error == "FileNotFoundError"
    assert str(tmp_path / "wrong" / "missing") in found["wrong"].reason
    assert (tmp_path / "wrong" / "text").read_text() == "changed"
    assert found["dies once"].value == "alive"
    assert found["dead"].error == WORKER_DIED
    assert f"lost {RETRIES + 1} times" in found["dead"].reason
    assert (tmp_path / "dead" / "text").read_text() == "dead"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_values_come_in_the_order_of_jobs(workers):
    jobs = [Job(number, (None, partial(say, number))) for number in range(8)]
    assert list(run_in_order(jobs, compute, workers)) == list(range(8))
    with pytest.raises(ConfigError, match="a wrong value"):
        list(run_in_order([Job(0, (None,))], refuse, workers))


def refuse(_: object) -> None:
    raise ConfigError("a wrong value")


def test_memory_is_declared(workers):
    """The cluster knows what a task needs, and a task that fits nowhere still runs."""
    wanted = []

    class Guard:
        def need(self, group: str) -> int:
            wanted.append(group)
            return 10**15

        def job_ended(self, group: str, peak: int) -> None:
            wanted.append(peak)

    engine = RayTasks(compute, workers, Guard())
    try:
        engine.submit(Job(0, (None, resources), "mf"))
        results = []
        while not results:
            results = engine.wait()
    finally:
        engine.close()
    largest = max(node["Resources"]["memory"] for node in ray.nodes() if node["Alive"])
    assert results[0].value == {"CPU": 1.0, "memory": pytest.approx(largest, rel=1e-6)}
    assert wanted[0] == "mf"
    assert wanted[1] > 1e7


def test_an_interruption_stops_tasks(workers, tmp_path):
    jobs = [Job(0, (None, partial(say, 1))), Job(1, (None, partial(sleep_long, tmp_path / "pid")))]

    def stop(result) -> None:
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(lambda: jobs.pop(0) if jobs else None, compute, stop, workers=workers)
    wait_until(lambda: not psutil.pid_exists(int((tmp_path / "pid").read_text())))


# Comparisons


def test_a_comparison_survives_the_loss_of_a_node(workers, cluster, tmp_path):
    """One node is killed while it trains. Data and plugin exist nowhere but in this process by then."""
    log, plugin, mark = tmp_path / "log.csv", tmp_path / "plugin.py", tmp_path / "mark"
    skewed_log(users=60, items=40, pairs=900).write(log)
    plugin.write_text(PLUGIN.format(mark=str(mark), head=ray.get_runtime_context().get_node_id()))
    config = RunConfig(
        data={"source": str(log)},
        backbone={"name": "mf", "dim": 4},
        train={"epochs": 4, "batch_size": 256},
        plugins=(str(plugin),),
    )
    cells = [Cell(name, config.updated("method", {"name": name})) for name in ("normal", "waiting", "fragile")]
    cells[0] = Cell("normal", cells[0].config, ranking={"beta": [0.5]})
    here = run_grid(cells, [0, 1], tmp_path / "here")
    events = []

    def on_event(event) -> None:
        events.append(event)
        if [one.kind for one in events].count("started") == 2:
            log.unlink(missing_ok=True)
            plugin.unlink(missing_ok=True)

    (node,) = cluster.worker_nodes

    def kill() -> None:
        wait_until(mark.exists)
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    there = run_grid(cells, [0, 1], tmp_path / "there", workers=workers, on_event=on_event)
    killer.join()
    assert not cluster.worker_nodes
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")
    assert there.results.drop("seconds").equals(here.results.drop("seconds"))
    assert len(there.results) == 4
    reasons = [one.reason.replace("there", "here") for one in there.failures]
    assert reasons == [one.reason for one in here.failures]
    assert "holds an earlier state" in reasons[0]
    assert [one.kind for one in events].count("finished") == 4


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of all runs, without those that hold durations."""
    paths = [path for path in (folder / "runs").rglob("*") if path.is_file() and path.name != "grid.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


# Tuning


def test_a_tuning_elsewhere_finds_the_same(workers, tmp_path):
    log = tmp_path / "log.csv"
    skewed_log(users=60, items=40, pairs=900).write(log)
    config = RunConfig(
        data={"source": str(log)}, backbone={"name": "mf", "dim": 4}, train={"epochs": 1, "batch_size": 256}
    )
    options = {"trials": 3, "seeds": [0, 1]}
    (here,) = tune([config], tmp_path / "here", **options)
    (there,) = tune([config], tmp_path / "there", workers=RayCluster(workers.address, at_most=1), **options)
    assert (there.score, there.scores, there.settings) == (here.score, here.scores, here.settings)
    assert (there.trials, there.failed, there.running) == (3, 0, 0)


def test_an_interrupted_tuning_continues(workers, tmp_path):
    """The trial that failed counts, and the one that was interrupted is tried again."""
    log = tmp_path / "log.csv"
    skewed_log(users=60, items=40, pairs=900).write(log)
    config = RunConfig(data={"source": str(log)}, backbone={"name": "mf", "dim": 4})
    score = partial(fail_or_wait, tmp_path / "mark")

    def stop(event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune([config], tmp_path / "study", workers=workers, on_trial=stop, score=score, trials=2, seeds=[0])
    (rest,) = tune([config], tmp_path / "study", trials=2, seeds=[0], score=lambda config, seed: 0.5)
    assert (rest.trials, rest.failed, rest.score) == (2, 1, 0.5)


def fail_or_wait(mark: Path, config: RunConfig, seed: int) -> float:
    """Fail the first time, and wait after that."""
    if not mark.exists():
        mark.touch()
        raise ValueError("it failed")
    time.sleep(60)
    return 0.0


# Lists


def test_lists_of_all_users_have_the_same_bytes(workers, icpe, tmp_path):
    skewed_log(users=700, items=60, pairs=9000).write(tmp_path / "log.csv")
    config = RunConfig(data={"source": "log.csv"}, backbone={"name": "mf", "dim": 4}, train={"epochs": 1})
    Run(config, tmp_path / "run").train()
    (tmp_path / "out.txt").write_text("1\n2\n")
    for suffix in ("parquet", "csv"):
        options = ("recommend", "run", "--all", "--exclude", "out.txt", "-n", 15, "--beta", -0.5)
        assert icpe(*options, "-o", f"here.{suffix}")[0] == 0
        code, _, err = icpe(*options, "-o", f"there.{suffix}", "--engine", "ray", "--address", workers.address)
        assert (code, err) == (0, "")
        assert Path(f"there.{suffix}").read_bytes() == Path(f"here.{suffix}").read_bytes()
    lists = pl.read_parquet("there.parquet")
    assert lists["user_id"].n_unique() == 700
    assert not set(lists["item_id"]) & {1, 2}
