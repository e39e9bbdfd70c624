"""Jobs: results and failures as they arrive, on any number of workers, none of which outlives its parent."""

import os
import signal

import psutil
import pytest

from icpe.errors import ConfigError
from icpe.files import lock_folder
from icpe.jobs import WORKER_DIED, Job, run_jobs
from icpe.jobs.memory import MemoryGuard, available_memory, process_memory
from icpe.jobs.processes import WorkerProcesses

# Workers evaluate expressions: a function of this file could not be imported by them.
DIES = "__import__('os')._exit(3)"
PROCESS = "__import__('os').getpid()"


def run(expressions: list[str], workers: int = 1) -> dict[int, object]:
    """Run expressions as jobs and return their results by number."""
    left = [Job(number, (expression,)) for number, expression in enumerate(expressions)]
    results = {}
    run_jobs(lambda: left.pop(0) if left else None, eval, lambda one: results.update({one.key: one}), workers=workers)
    return results


def worker_processes() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.parametrize("workers", [1, 2])
def test_results_and_failures(workers):
    found = run(["1 + 1", "1 / 0", "(_ for _ in ()).throw(ValueError('two\\nlines'))", "3 + 1"], workers)
    assert {key: one.value for key, one in found.items()} == {0: 2, 1: None, 2: None, 3: 4}
    assert [found[key].failed for key in range(4)] == [False, True, True, False]
    assert (found[1].error, found[1].reason) == ("ZeroDivisionError", "division by zero")
    assert found[2].reason == "two lines"
    assert worker_processes() == []


def test_a_worker_that_dies_costs_its_job_only():
    found = run([DIES, "2", DIES, "4", "5"], workers=2)
    assert [found[key].value for key in range(5)] == [None, 2, None, 4, 5]
    assert {found[key].error for key in (0, 2)} == {WORKER_DIED}
    assert "memory" in found[0].reason
    assert "--workers" in found[0].reason


def test_workers_are_reused_have_one_thread_and_leave_ctrl_c_to_the_parent(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    ignores = "__import__('signal').getsignal(2) == __import__('signal').SIG_IGN"
    found = run([PROCESS] * 6 + ["__import__('os').environ['OMP_NUM_THREADS']", ignores], workers=2)
    assert len({found[key].value for key in range(6)}) <= 2
    assert os.getpid() not in {found[key].value for key in range(6)}
    assert (found[6].value, found[7].value) == ("1", True)
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_jobs_can_follow_from_results():
    left, values = [Job(0, ("1",))], []

    def done(result):
        values.append(result.value)
        if len(values) < 4:
            left.append(Job(len(values), (f"{result.value} * 2",)))

    started = []
    run_jobs(lambda: left.pop(0) if left else None, eval, done, on_start=lambda job: started.append(job.key))
    assert values == [1, 2, 4, 8]
    assert started == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interruption_stops_busy_workers(error):
    left = [Job(0, ("1",)), Job(1, ("__import__('time').sleep(600)",))]

    def stop(result):
        assert len(worker_processes()) == 2
        raise error

    with pytest.raises(error):
        run_jobs(lambda: left.pop(0) if left else None, eval, stop, workers=2)
    assert worker_processes() == []


def test_ctrl_c_while_workers_are_busy():
    left = [Job(number, ("__import__('time').sleep(600)",)) for number in range(2)]
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.alarm(2)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(lambda: left.pop(0) if left else None, eval, print, workers=2)
    assert worker_processes() == []


# Memory


@pytest.mark.parametrize(
    ("available", "peaks", "running", "held", "reason"),
    [
        (1, {"mf": 9}, [], 0, ""),  # nothing runs, so it may start whatever it needs
        (10, {"mf": 3}, [("mf", 3)], 0, ""),  # the other has all it needs, and 3 fit into 9.5
        (10, {"mf": 5}, [("mf", 0)], 0, "a job needs 5.0 GB of memory and 4.5 GB are left"),
        (10, {"mf": 5}, [("mf", 1)], 0, ""),  # the other needs 4 more, which leaves 5.5
        (4, {"mf": 5}, [("mf", 5)], 2, ""),  # the worker has 2 already, and 3 more fit into 3.8
        (2, {"mf": 5}, [("mf", 5)], 2, "a job needs 5.0 GB of memory and 3.9 GB are left"),
        (10, {"lightgcn": 8, "mf": 1}, [("mf", 1)], 0, ""),  # jobs of its own group count
        (9, {"neumf": 6}, [("neumf", 6)], 0, "a job needs 9.0 GB of memory and 8.6 GB are left"),  # 1.5 times 6
        (10, {}, [("mf", 2)], 0, "a job needs 6.0 GB of memory and 5.5 GB are left"),  # 1.5 times this process
    ],
)
def test_a_job_starts_if_it_fits(available, peaks, running, held, reason):
    guard = MemoryGuard(lambda: int(available * 1e9), lambda: int(4e9))
    for group, peak in peaks.items():
        guard.job_ended(group, int(peak * 1e9))
    running = [(group, int(used * 1e9)) for group, used in running]
    assert guard.reason_to_wait("mf", running, int(held * 1e9)) == reason


def test_a_job_waits_until_memory_is_free():
    guard = MemoryGuard(lambda: 0)
    engine = WorkerProcesses(eval, 2, guard)
    try:
        job = Job(0, (PROCESS,))
        assert engine.reason_to_wait(job) == ""
        engine.submit(job)
        assert engine.free == 1
        assert "0.0 GB are left" in engine.reason_to_wait(Job(1, (PROCESS,)))
        results = []
        while not results:
            results = engine.wait()
        assert guard.need("") >= process_memory(results[0].value) * 0.5 > 0
        assert engine.reason_to_wait(Job(1, (PROCESS,))) == ""
    finally:
        engine.close()


def test_memory_is_measured():
    assert process_memory() > 1e7
    assert process_memory(2**30) == 0
    assert available_memory() > 1e7


# Lock


def test_a_folder_is_locked_once(tmp_path):
    pytest.importorskip("fcntl")
    with lock_folder(tmp_path / "new"), pytest.raises(ConfigError, match="another process is working in"):
        lock_folder(tmp_path / "new").__enter__()
    with lock_folder(tmp_path / "new"):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written to"):
        lock_folder(tmp_path / "file").__enter__()
