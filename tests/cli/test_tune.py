"""Tuning on the command line: started, stopped, killed, shared and continued."""

import io
import json
import re
import signal
import sqlite3
import sys
import time
import tomllib
from pathlib import Path

import psutil
import pytest

from icpe import __version__
from icpe.train import Trainer

SMALL = ["--backbone.dim", "4", "--train.epochs", "2", "--train.batch_size", "256"]


def test_from_a_log_to_presets_to_a_run(icpe, log_file):
    command = ["tune", log_file, "--methods", "normal, logit_adjustment", "--split", "random", *SMALL]
    command += ["--trials", "2", "--seeds", "2", "-o", "new/tuning"]
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

    cell = tomllib.loads(Path("new/tuning/presets.toml").read_text())["logit_adjustment"]["mf"]
    assert cell["valid_ndcg"] == pytest.approx(found[1]["score"], abs=1e-6)
    assert (cell["trials"], cell["seeds"], cell["split"], cell["data"]) == (
        2,
        [100, 101],
        {"kind": "random"},
        "log.csv",
    )
    assert (cell["icpe"], cell["backbone"]) == (__version__, {"dim": 4})
    assert set(cell["method"]) == {"strength", "temperature", "reg"}
    assert set(cell["train"]) == {"epochs", "batch_size", "lr"}

    # A run by these settings has, on validation, what tuning has seen.
    preset = ["--method", "logit_adjustment", "--preset", "new/tuning/presets.toml", "--split", "random"]
    code, out, err = icpe("train", log_file, *preset, "--seed", "101", "--json")
    assert code == 0, err
    assert json.loads(out)["valid"]["ndcg@20"] == found[1]["scores"]["101"]
    assert "presets.toml" in icpe("train", log_file, *preset, "--backbone", "neumf")[2]

    # The same command again has nothing to do and prints the result again.
    before = Path("new/tuning/presets.toml").read_bytes()
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
    assert Path("new/tuning/presets.toml").read_bytes() == before


def rows(path: Path, query: str) -> list[tuple]:
    """Return what a query finds in the study, without Optuna; nothing while the study has no tables."""
    try:
        # A killed process may leave a journal, which SQLite rolls back before it reads: that needs the right to write.
        with sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=60) as connection:
            return connection.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []


def counts(path: Path) -> dict[str, int]:
    """Return the number of trials by state."""
    return dict(rows(path, "select state, count(*) from trials group by state"))


def worker_processes(process: int) -> list[psutil.Process]:
    children = psutil.Process(process).children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def wait_until_gone(workers: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE], "workers were left behind"


def test_the_real_program_with_two_workers_killed_and_continued(icpe, start, log_file):
    command = ["tune", str(log_file), "--methods", "normal,penalty", *SMALL, "--train.epochs", "9", "--trials", "4"]
    command += ["--seeds", "1", "-o", "tuning"]
    process, study = start(*command, "--workers", "2"), Path("tuning/study.db")
    while counts(study).get("COMPLETE", 0) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    workers = worker_processes(process.pid)
    process.send_signal(signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert out == ""
    assert len(workers) == 2
    wait_until_gone(workers)
    killed = counts(study)
    assert killed["COMPLETE"] < 8

    code, out, err = icpe(*command, "--json")
    assert code == 0, err
    assert len(err.splitlines()) == 8 - killed["COMPLETE"]
    assert [(one["trials"], one["failed"], one["running"]) for one in json.loads(out)] == [(4, 0, 0)] * 2
    # The trials that ran when the command was killed failed and were tried again.
    lost = {"FAIL": killed["RUNNING"]} if "RUNNING" in killed else {}
    assert counts(study) == {"COMPLETE": 8, **lost}


def test_ctrl_c_ends_the_workers_too(icpe, start, log_file):
    """Ctrl-C reaches the command alone, as from a process manager; its workers must not outlive it."""
    command = ["tune", str(log_file), *SMALL, "--train.epochs", "100000", "--train.patience", "100000"]
    process = start(*command, "--workers", "2", "-o", "tuning")
    while len(rows(Path("tuning/study.db"), "select * from trial_user_attributes where key = 'job'")) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    workers = worker_processes(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "tuning; the same command continues" in err
    assert len(workers) == 2
    wait_until_gone(workers)
    assert counts(Path("tuning/study.db")) == {"FAIL": 2, "WAITING": 2}


def test_two_programs_share_a_database_and_its_budget(start, log_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["tune", str(log_file), "--methods", "normal,penalty", *SMALL, "--trials", "5", "--seeds", "1"]
    shared = ["--storage", "sqlite:///shared.db", "--json"]
    programs = [start(*command, *shared, "-o", folder) for folder in ("one", "two")]
    outputs = [program.communicate(timeout=120) for program in programs]
    assert [program.returncode for program in programs] == [0, 0], outputs
    with sqlite3.connect("shared.db") as connection:
        trials = "select study_name, count(*) from trials natural join studies where state = 'COMPLETE' group by 1"
        assert dict(connection.execute(trials).fetchall()) == {"log.csv/normal/mf": 5, "log.csv/penalty/mf": 5}
    # At least the program that ended last has seen all trials.
    assert [5, 5] in [[one["trials"] for one in json.loads(out)] for out, _ in outputs]


def test_ctrl_c_keeps_finished_trials(icpe, log_file, monkeypatch):
    command = ["tune", log_file, *SMALL, "--trials", "3", "--seeds", "1", "-o", "tuning"]
    run, calls = Trainer.run, []

    def interrupt(self, *arguments, **options):
        calls.append(self)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return run(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "run", interrupt)
        code, out, err = icpe(*command)
    assert (code, out) == (130, "")
    assert "tuning; the same command continues" in err
    assert err.splitlines()[-1] == "interrupted"
    assert counts(Path("tuning/study.db")) == {"COMPLETE": 2, "FAIL": 1, "WAITING": 1}
    assert not Path("tuning/presets.toml").exists()  # budgets were not equal yet
    code, out, err = icpe(*command)
    assert code == 0
    assert [line.split()[0] for line in err.splitlines()] == ["[3/3]"]
    assert counts(Path("tuning/study.db")) == {"COMPLETE": 3, "FAIL": 1}


def test_nothing_found_is_exit_code_1(icpe, log_file):
    code, out, err = icpe(
        "tune", log_file, "--methods", "in_batch", "--backbones", "neumf", "--trials", "2", "-o", "tuning"
    )
    assert code == 1
    assert "trial 1 failed: NeuMF" in err
    assert out.splitlines()[1].split()[:6] == ["in_batch", "neumf", "1", "0", "1", "-"]
    assert out.splitlines()[-1] == "Fewer than 2 trials: in_batch on neumf (cannot be trained)."


class Terminal(io.StringIO):
    """Standard error of somebody who watches."""

    def isatty(self):
        return True


def test_lines_of_a_method_without_settings_end_with_a_word(icpe, log_file):
    code, out, err = icpe("tune", log_file, "--methods", "popularity", "--trials", "1", "--seeds", "1", "-o", "tuning")
    assert code == 0
    assert re.fullmatch(r"\[1/1\] popularity on mf, trial 1 complete: .*, \d+ s\n", err)
    assert all(line == line.rstrip() for line in out.splitlines())


def test_a_terminal_shows_a_bar_with_the_best_so_far(icpe, log_file, monkeypatch):
    window = Terminal()
    monkeypatch.setattr(sys, "stderr", window)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = icpe("tune", log_file, *SMALL, "--trials", "3", "--seeds", "1", "-o", "tuning", "--json")
    assert code == 0
    best = f"{json.loads(out)[0]['score']:.4f}"
    shown = window.getvalue()
    assert f"normal on mf: best {best}" in shown
    assert "3/3" in shown
    assert "trials/h" in shown
    assert "[1/3] normal on mf, trial 1 complete" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "norml"], "unknown method 'norml'; did you mean 'normal'"),
        (["--backbones", "mff"], "mff"),
        (["--methods", ","], "nothing to tune"),
        (["--methods", "normal,normal"], "normal on mf appears twice"),
        (["--method.colour", "3"], "no such option --method.colour"),
        (["--trials", "0"], "0 is not in the range x>=1"),
        (["--seeds", "a"], "--seeds is 'a'; expected a number of seeds"),
        (["--seeds", "=3,3"], "names the seeds [3, 3]; expected different"),
        (["--seeds", "=5-3"], "names the seeds []"),
        (["--workers", "0"], "0 is not in the range x>=1"),
        (["--minutes", "0"], "minutes is 0.0; expected a number above 0"),
        (["--storage", "nonsense://x"], "the database of --storage cannot be opened"),
        (["--evaluate.n", "5"], "tuning evaluates --criterion on validation"),
        (["--train.seed", "5"], "tuning evaluates --criterion on validation"),
        (["--train.device", "abacus"], "device 'abacus' is not available"),
        (["--preset", "nonsense"], "method 'normal' has no preset 'nonsense'"),
        (["-o", "words.txt"], "words.txt is not a folder that can be written to"),
        (["-o", "words.txt/tuning"], "words.txt is not a folder that can be written to"),
        (["-o", "no-database"], "study.db cannot be opened as a study: file is not a database"),
        (["-o", "no-presets"], "presets.toml cannot be read as a file of presets"),
    ],
)
def test_wrong_use(icpe, log_file, arguments, message):
    words = "these are words, and no database or TOML " * 9
    Path("words.txt").write_text(words)
    for name in ("no-database/study.db", "no-presets/presets.toml"):
        Path(name).parent.mkdir()
        Path(name).write_text(words)
    place = [] if "-o" in arguments else ["-o", "tuning"]
    code, out, err = icpe("tune", log_file, *SMALL, *place, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not Path("tuning/study.db").exists()


def test_a_study_needs_a_folder_and_data(icpe, log_file):
    code, _, err = icpe("tune", log_file)
    assert (code, "-o" in err) == (2, True)
    code, _, err = icpe("tune", "-o", "tuning")
    assert code == 2
    assert "no data: name a file" in err
    assert list(Path().iterdir()) == []


def test_all_names_every_method(icpe, log_file):
    from icpe.methods import METHODS

    command = ["tune", log_file, "--methods", "all", *SMALL, "--trials", "1", "--seeds", "1", "-o", "tuning"]
    code, out, _ = icpe(*command, "--json")
    assert code == 0
    assert {one["method"] for one in json.loads(out)} == set(METHODS)
