"""Tuning as people start, stop, kill and continue it."""

import io
import json
import signal
import sqlite3
import sys
import time
import tomllib
from pathlib import Path

import pytest

from icpe import __version__
from icpe.jobs import workers as _workers
from icpe.jobs.workers import Outcome

SMALL = ["--backbone.dim", "4", "--train.epochs", "2", "--train.batch_size", "256"]


def test_from_a_log_to_presets_to_a_run(icpe, log_file):
    command = ["tune", log_file, "--method", "normal, logit_adjustment", "--split", "random", *SMALL]
    command += ["--trials", "2", "--seeds", "100-101", "-o", "new/study.db", "--preset-out", "presets.toml"]
    code, out, err = icpe(*command, "--json")
    assert code == 0
    lines = err.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "[1/4] normal on mf, trial 1 complete",
        "[2/4] logit_adjustment on mf, trial 1 complete",
        "[3/4] normal on mf, trial 2 complete",
        "[4/4] logit_adjustment on mf, trial 2 complete",
    ]
    found = json.loads(out)
    assert [(one["method"], one["trials"], one["seeds"]) for one in found] == [
        ("normal", 2, [100, 101]),
        ("logit_adjustment", 2, [100, 101]),
    ]
    assert f"(best {found[1]['score']:.4f})" in lines[-1]

    cell = tomllib.loads(Path("presets.toml").read_text())["logit_adjustment"]["mf"]
    assert cell["valid_ndcg"] == pytest.approx(found[1]["score"], abs=1e-6)
    assert (cell["trials"], cell["seeds"], cell["split"], cell["data"]) == (
        2,
        [100, 101],
        {"kind": "random"},
        "log.csv",
    )
    assert (cell["icpe"], cell["backbone"]) == (__version__, {"dim": 4})
    assert set(cell["method"]) == {"kappa", "temperature", "reg"}
    assert set(cell["train"]) == {"epochs", "batch_size", "lr"}

    # A run by these settings has, on validation, what tuning has seen.
    preset = ["--method", "logit_adjustment", "--preset", "presets.toml", "--split", "random"]
    code, out, err = icpe("train", log_file, *preset, "--seed", "101", "--json")
    assert code == 0, err
    assert json.loads(out)["valid"]["ndcg@20"] == found[1]["scores"]["101"]
    assert "presets.toml" in icpe("train", log_file, *preset, "--backbone", "neumf")[2]

    # Once more: nothing is left to do, and the result is told again.
    before = Path("presets.toml").read_bytes()
    code, out, err = icpe(*command)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split() == [
        "method",
        "backbone",
        "trials",
        "pruned",
        "failed",
        "valid",
        "ndcg@20",
        "settings",
    ]
    for line, one in zip(out.splitlines()[1:3], found, strict=True):
        assert line.split()[:6] == [one["method"], "mf", "2", "0", "0", f"{one['score']:.4f}"]
        assert f"train.lr={one['settings']['train']['lr']}" in line
    assert Path("presets.toml").read_bytes() == before


def counts(path: Path) -> dict[str, int]:
    """Trials by state, past Optuna."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60) as connection:
            return dict(connection.execute("select state, count(*) from trials group by state").fetchall())
    except sqlite3.OperationalError:  # no tables yet
        return {}


def children(process: int) -> list[int]:
    """Processes it has started, and that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == process and state != "Z":
            found.append(int(path.parent.name))
    return found


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_the_real_program_with_two_processes_killed_and_continued(icpe, start, log_file):
    command = ["tune", str(log_file), "--method", "normal,penalty", *SMALL, "--train.epochs", "9", "--trials", "4"]
    command += ["--seeds", "1", "-o", "study.db"]
    process = start(*command, "--workers", "2")
    while counts(Path("study.db")).get("COMPLETE", 0) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert out == ""
    assert len(workers) >= 2
    deadline = time.monotonic() + 30
    while any(alive(worker) for worker in workers):
        assert time.monotonic() < deadline, "processes that train were left behind"
        time.sleep(0.02)
    killed = counts(Path("study.db"))
    assert killed["COMPLETE"] < 8

    code, out, err = icpe(*command, "--json")
    assert code == 0, err
    assert len(err.splitlines()) == 8 - killed["COMPLETE"]
    assert [(one["trials"], one["failed"], one["running"]) for one in json.loads(out)] == [(4, 0, 0)] * 2
    # Those that were on their way are void; there may have been none in that moment.
    void = {"FAIL": killed["RUNNING"]} if "RUNNING" in killed else {}
    assert counts(Path("study.db")) == {"COMPLETE": 8, **void}


def test_ctrl_c_keeps_everything(icpe, log_file, monkeypatch):
    command = ["tune", log_file, *SMALL, "--trials", "3", "--seeds", "1", "-o", "study.db", "--preset-out", "p.toml"]
    train_once, calls = _workers.train_once, []

    def interrupt(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return train_once(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(_workers, "train_once", interrupt)
        code, out, err = icpe(*command)
    assert (code, out) == (130, "")
    assert [line for line in err.splitlines() if line][-2:] == [
        "all trials that have ended are kept in study.db; the same command goes on from there",
        "interrupted",
    ]
    assert counts(Path("study.db")) == {"COMPLETE": 2, "FAIL": 1}
    assert not Path("p.toml").exists()  # budgets were not equal yet
    code, out, err = icpe(*command)
    assert code == 0
    assert [line.split()[0] for line in err.splitlines()] == ["[3/3]"]


def test_nothing_found_is_exit_code_1(icpe, log_file):
    code, out, err = icpe(
        "tune", log_file, "--method", "in_batch", "--backbone", "neumf", "--trials", "2", "-o", "s.db"
    )
    assert code == 1
    assert "trial 1 failed: NeuMF scores pairs one by one" in err
    assert out.splitlines()[1].split()[:6] == ["in_batch", "neumf", "1", "0", "1", "-"]
    assert out.splitlines()[-1] == "Fewer than 2 trials: in_batch on neumf (cannot be trained)."


class Terminal(io.StringIO):
    """A window somebody looks at."""

    def isatty(self):
        return True


def test_on_a_terminal_a_bar_shows_the_best_so_far(icpe, log_file, monkeypatch):
    scores = iter([0.25, 0.125, 0.5])
    monkeypatch.setattr(_workers, "train_once", lambda *_: Outcome(1.0, next(scores)))
    window = Terminal()
    monkeypatch.setattr(sys, "stderr", window)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    assert icpe("tune", log_file, "--trials", "3", "--seeds", "1", "-o", "study.db")[0] == 0
    shown = window.getvalue()
    assert "normal on mf: best 0.5000" in shown
    assert "3/3" in shown
    # Lines stay where something is better than before.
    assert "[1/3] normal on mf, trial 1 complete: 0.2500 (best 0.2500)" in shown
    assert "trial 2" not in shown
    assert "[3/3] normal on mf, trial 3 complete: 0.5000 (best 0.5000)" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "norml"], "unknown method 'norml'; did you mean 'normal'"),
        (["--backbone", "mff"], "mff"),
        (["--method", ","], "nothing to tune"),
        (["--method", "normal,normal"], "normal on mf is there twice"),
        (["--method.colour", "3"], "has no setting 'colour'"),
        (["--trials", "0"], "0 is not in the range x>=1"),
        (["--seeds", "a"], "--seeds is 'a'; expected whole numbers such as 100,101"),
        (["--seeds", "3,3"], "seeds are [3, 3]; expected different"),
        (["--seeds", "5-3"], "seeds are []"),
        (["--workers", "0"], "0 is not in the range x>=1"),
        (["--minutes", "0"], "minutes is 0.0; expected a number above 0"),
        (["--storage", "sqlite:///other.db"], "Give -o FILE or --storage URL, one of them"),
        (["--evaluate.n", "5"], "tuning looks at NDCG@20 on validation"),
        (["--train.seed", "5"], "tuning looks at NDCG@20 on validation"),
        (["--train.device", "abacus"], "device 'abacus' is not available"),
        (["--preset-out", "words.txt"], "words.txt cannot be read as a file of presets"),
        (["--preset-out", "words.txt/presets.toml"], "cannot be written"),
        (["--preset", "nonsense"], "method 'normal' has no preset 'nonsense'"),
        (["-o", "words.txt"], "words.txt cannot be opened as a study: file is not a database"),
        (["-o", "words.txt/study.db"], "cannot be opened as a study"),
        (["-o", "."], "is a directory"),
    ],
)
def test_wrong_use(icpe, log_file, arguments, message):
    Path("words.txt").write_text("these are words, and no database or TOML " * 9)
    place = [] if "-o" in arguments else ["-o", "study.db"]
    code, out, err = icpe("tune", log_file, *SMALL, *place, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert [path.name for path in Path().iterdir()] == ["words.txt"]


def test_a_study_needs_a_place_and_data(icpe, log_file):
    assert "Give -o FILE or --storage URL" in icpe("tune", log_file)[2]
    code, _, err = icpe("tune", "-o", "study.db")
    assert code == 2
    assert "no data: name a file" in err
    assert list(Path().iterdir()) == []


def test_all_names_every_method(icpe, log_file, monkeypatch):
    from icpe.methods import METHODS

    monkeypatch.setattr(_workers, "train_once", lambda *_: Outcome(1.0, 0.5))
    code, out, _ = icpe(
        "tune", log_file, "--method", "all", "--trials", "1", "--storage", "sqlite:///study.db", "--json"
    )
    assert code == 0
    assert {one["method"] for one in json.loads(out)} == set(METHODS)
    assert Path("study.db").exists()
