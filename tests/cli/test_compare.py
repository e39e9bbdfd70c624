"""Comparisons on the command line: started, stopped, killed and continued."""

import importlib.util
import io
import json
import signal
import sys
import time
from pathlib import Path

import polars as pl
import psutil
import pytest

from icpe.cli.compare_progress import ProgressTable
from icpe.compare.grid import Cell, Event
from icpe.errors import DataError
from icpe.runs.config import RunConfig
from icpe.runs.run import Run

SMALL = ["--backbone.dim", "4", "--train.epochs", "2", "--train.batch_size", "256"]


def test_a_comparison(icpe, log_file):
    command = [
        "compare",
        log_file,
        "--methods",
        "normal, macr,popularity",
        "--seeds",
        "2",
        "-n",
        "5",
        *SMALL,
        "-o",
        "cmp",
    ]
    code, out, err = icpe(*command)
    assert code == 0, err
    assert [text.split(":")[0] for text in err.splitlines()] == [
        f"[{at}/6] {label} on mf, seed {seed}"
        for at, (seed, label) in enumerate(
            [(seed, label) for seed in (0, 1) for label in ("Normal", "MACR", "Popularity")], 1
        )
    ]
    assert out.startswith(Path("cmp/table.txt").read_text())
    assert "Recall@5 niche ↑" in out
    assert "cmp: report.html, table.md" in out
    assert "MACR" in Path("cmp/report.html").read_text()
    assert "none tuned" in out.replace("\n", " ")
    code, out, err = icpe(*command, "--json", "--subject", "macr")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [row["label"] for row in found["rows"]] == ["Normal", "MACR", "Popularity"]
    assert found["comparisons"][0]["subject"] == "MACR"
    assert found["failures"] == []
    # A run of the folder is like any other.
    assert icpe("evaluate", "cmp/runs/macr-mf-1", "--json")[0] == 0
    # Bias is measured on demand, on the saved models.
    assert not Path("cmp/bias.md").exists()
    code, out, err = icpe(*command, "--audit", "--json")
    assert (code, err) == (0, "")
    run = json.loads(icpe("evaluate", "cmp/runs/popularity-mf-0", "--audit", "--json")[1])["test"]
    row = json.loads(out)["rows"][2]
    assert row["popularity_lift@5"] == pytest.approx(run["popularity_lift@5"])  # popularity does not depend on the seed
    assert "popularity_lift@5" not in {one["metric"] for one in json.loads(out)["comparisons"]}  # neither way is better
    assert "Popularity lift@5" in Path("cmp/bias.md").read_text()
    assert "Pop RSP@5 ↓" in icpe(*command, "--audit")[1]
    # What is compared can be repeated from its file, into another folder.
    code, out, err = icpe("compare", "--cells", "cmp/grid.toml", "--only", "Popularity", "-o", "other")
    assert code == 0, err
    before, after = (pl.read_parquet(f"{name}/results.parquet") for name in ("cmp", "other"))
    assert before.filter(pl.col("label") == "Popularity").equals(after)


def test_short_trainings_and_earlier_runs_are_named(icpe, log_file):
    short = [*SMALL, "--seeds", "1", "-o", "cmp"]
    out = icpe("compare", log_file, "--methods", "normal,macr,popularity", *short)[1]
    warning = "2 of 2 runs were still improving at the last validation (Normal, MACR)"
    assert warning in out
    assert warning in Path("cmp/report.html").read_text()
    assert "earlier run" not in out
    out = icpe("compare", log_file, "--methods", "normal", *short)[1]
    assert "1 of 1 runs was still improving" in out
    assert "cmp also holds 2 earlier runs that this command does not name, such as macr-mf-0" in out


def test_a_report_that_cannot_be_made_costs_nothing_else(icpe, log_file, monkeypatch):
    command = ["compare", log_file, "--methods", "popularity", "--seeds", "1", "-o"]
    with monkeypatch.context() as patch:
        find = importlib.util.find_spec
        patch.setattr(
            importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib" else find(name, *rest)
        )
        code, out, _ = icpe(*command, "plain")
    assert (code, Path("plain/report.html").exists(), "report.html" in out) == (0, False, False)

    def broken(*arguments):
        raise DataError("a run is damaged")

    monkeypatch.setattr("icpe.report.pages.comparison.comparison_report", broken)
    code, out, err = icpe(*command, "plain")
    assert (code, err) == (0, "report.html was not written: a run is damaged\n")
    assert "Popularity" in out


def test_a_preset_marks_what_it_does_not_have(icpe, log_file):
    Path("mine.toml").write_text("[macr.mf]\ntrials = 1\n[macr.mf.train]\nlr = 0.25\n")
    command = ["compare", log_file, "--methods", "normal,macr", "--seeds", "=0", "--preset", "mine.toml", *SMALL]
    code, out, err = icpe(*command, "-o", "cmp")
    assert code == 0, err
    assert "Normal † " in out
    assert "MACR † " not in out
    assert "not tuned" in out.replace("\n", " ")
    assert RunConfig.read(Path("cmp/runs/macr-mf-0/config.toml")).train["lr"] == 0.25
    assert RunConfig.read(Path("cmp/runs/normal-mf-0/config.toml")).train["lr"] == 0.001
    code, _, err = icpe("compare", log_file, "--methods", "normal", "--preset", "mine.toml", "-o", "no")
    assert (code, "has no settings for normal on mf; it has macr on mf" in err) == (2, True)


def test_given_parts_and_dotted_flags(icpe, log_file):
    assert icpe("split", log_file, "-o", "parts")[0] == 0
    given = [f"--{part}={Path('parts') / part}.parquet" for part in ("train", "valid", "test")]
    code, out, err = icpe("compare", *given, "--methods", "popularity", "--seeds", "=3", "-o", "cmp")
    assert code == 0, err
    assert "train.parquet, given parts;" in out
    code, _, err = icpe("compare", *given[:2], "--methods", "popularity", "--seeds", "1", "-o", "more")
    assert (code, "--test FILE" in err) == (2, True)


def test_a_failed_cell_is_exit_code_1(icpe, log_file):
    command = [
        "compare",
        log_file,
        "--methods",
        "in_batch,popularity",
        "--backbones",
        "neumf",
        "--seeds",
        "1",
        "-o",
        "cmp",
    ]
    code, out, err = icpe(*command)
    assert code == 1
    assert "[1/2] In-batch softmax on neumf, seed 0 failed: NeuMF" in err
    assert "In-batch softmax on neumf, seed 0 (NeuMF" in out.replace("\n", " ")
    assert "Popularity" in out


def test_the_real_program_killed_and_continued(icpe, start, log_file):
    command = ["compare", str(log_file), "--methods", "normal,popularity,macr", "--seeds", "2", *SMALL]
    command += ["--train.epochs", "15", "--train.evaluate_every", "2", "--train.patience", "99"]
    process = start(*command, "-o", "cmp")
    while not Path("cmp/runs/macr-mf-0/checkpoint/state.json").exists():  # in the middle of the third run
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert out == ""
    assert len(list(Path("cmp/runs").glob("*/result.json"))) < 6
    code, _, err = icpe(*command, "-o", "cmp")
    assert code == 0, err
    assert icpe(*command, "-o", "whole")[0] == 0
    assert Path("cmp/results.parquet").read_bytes() == Path("whole/results.parquet").read_bytes()
    for name in ("table.txt", "table.tex", "table.csv", "differences.csv"):
        assert Path("cmp", name).read_text() == Path("whole", name).read_text()


def test_ctrl_c_keeps_everything(icpe, log_file, monkeypatch):
    command = ["compare", log_file, "--methods", "normal,macr", "--seeds", "1", *SMALL, "-o", "cmp"]
    train, calls = Run.train, []

    def interrupt(self, *arguments, **options):
        calls.append(self.folder.name)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return train(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "train", interrupt)
        code, out, err = icpe(*command)
    assert (code, out) == (130, "")
    assert "cmp; the same command continues" in err
    assert err.splitlines()[-1] == "interrupted"
    assert "fewer so far" not in Path("cmp/table.txt").read_text()
    code, _, err = icpe(*command)
    assert (code, [text.split(":")[0] for text in err.splitlines()]) == (0, ["[2/2] MACR on mf, seed 0"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either --methods NAMES or --cells FILE"),
        (["--methods", "normal", "--cells", "study.toml"], "either --methods NAMES or --cells FILE"),
        (["--methods", "norml"], "unknown method 'norml'; did you mean 'normal'"),
        (["--methods", "normal", "--backbones", "mff"], "mff"),
        (["--methods", ","], "nothing to compare"),
        (["--methods", "normal,normal"], "'Normal' on mf appears twice"),
        (["--methods", "normal", "--method.colour", "3"], "no such option --method.colour"),
        (["--methods", "normal", "--seeds", "a"], "--seeds is 'a'; expected a number of seeds"),
        (["--methods", "normal", "--seeds", "0"], "--seeds is '0'; expected a number of seeds from 1 up"),
        (["--methods", "normal", "--seeds", "=3,3"], "names the seeds [3, 3]; expected different"),
        (["--methods", "normal", "--seeds", "3,4"], "an equals sign and the seeds themselves"),
        (["--methods", "normal", "--train.seed", "3"], "use --seeds"),
        (["--methods", "normal", "--workers", "0"], "0 is not in the range x>=1"),
        (["--methods", "normal", "--preset", "nonsense"], "method 'normal' has no preset 'nonsense'"),
        (["--methods", "normal", "--only", "A"], "--only selects from --cells FILE"),
        (["--methods", "normal", "-o", "words.txt"], "words.txt cannot be written to"),
        (["--cells", "words.txt"], "words.txt cannot be read as TOML"),
        (["--cells", "study.toml", "--preset", "lastfm"], "--preset cannot be combined with --cells"),
        (["--cells", "study.toml", "--only", "B"], "study.toml has no cell 'B'; it has A"),
    ],
)
def test_wrong_use(icpe, log_file, arguments, message):
    Path("words.txt").write_text("these are words, and no TOML")
    Path("study.toml").write_text("[cells.A]\nmethod.name = 'normal'\n")
    place = [] if "-o" in arguments else ["-o", "cmp"]
    code, out, err = icpe("compare", log_file, *place, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not Path("cmp/runs").exists()


def event(kind, label="ICPE", seed=0, value=None, **rest) -> Event:
    row = None if value is None else {"seconds": 5.0, "recall@20": value, "ndcg@20": None, "apt@20": 0.5}
    return Event(kind, label, "mf", seed, row, done=1, total=4, **rest)


def rendered(table: ProgressTable) -> tuple[list[list[str]], str]:
    """Return the cells of the table, and the text below it."""
    from rich.console import Console

    console = Console(width=160, file=io.StringIO())
    console.print(table.render())
    lines = console.file.getvalue().splitlines()
    rows = [[word.strip() for word in text.replace("┃", "│").split("│")[1:-1]] for text in lines if "│" in text]
    return rows, lines[-1]


def test_the_live_table():
    table = ProgressTable([Cell("ICPE", RunConfig()), Cell("MACR", RunConfig())], [0, 1])
    assert rendered(table)[0] == [["ICPE", "mf", "0/2", "waits"], ["MACR", "mf", "0/2", "waits"]]
    table.update(event("found", value=0.25))
    table.update(event("started", seed=1))
    table.update(event("started", "MACR"))
    table.update(event("waiting", "MACR", 1, reason="too little memory"))
    rows, below = rendered(table)
    assert rows[0] == ["ICPE", "mf", "1/2", "0.2500", "0.5000", "seed 1 runs"]
    assert "too little memory" in below
    assert "runs/h" not in below  # nothing has been trained yet
    table.update(event("finished", seed=1, value=0.75, seconds_left=75))
    assert "runs/h, 1 min 15 s left" in rendered(table)[1]
    table.update(event("failed", "MACR", reason="out of memory", seconds_left=7500))
    rows, below = rendered(table)
    assert rows == [["ICPE", "mf", "2/2", "0.5000", "0.5000", "done"], ["MACR", "mf", "0/2", "", "", "1 failed"]]
    assert "2 h 5 min left" in below


class Terminal(io.StringIO):
    """A window somebody looks at."""

    def isatty(self):
        return True


def test_a_terminal_shows_a_table_with_rate_and_time_left(icpe, log_file, monkeypatch):
    window = Terminal()
    monkeypatch.setattr(sys, "stderr", window)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    command = ["compare", log_file, "--methods", "in_batch,popularity", "--backbones", "neumf", "--seeds", "3"]
    assert icpe(*command, "-o", "cmp")[0] == 1
    shown = window.getvalue()
    assert "Popularity" in shown
    assert "3/3" in shown
    assert "3 failed" in shown
    assert "6 of 6 runs" in shown
    assert "runs/h" in shown
    assert "In-batch softmax on neumf, seed 2 failed: NeuMF" in shown  # failures stay on the screen


def test_elsewhere_a_line_per_run(icpe, log_file):
    code, _, err = icpe("compare", log_file, "--methods", "popularity", "--seeds", "=7", "-o", "cmp")
    assert code == 0
    assert err.startswith("[1/1] Popularity on mf, seed 7: recall@20 0.")
    assert "left" not in err
    assert len(err.splitlines()) == 1


def test_ctrl_c_ends_the_workers_too(icpe, start, log_file):
    """Ctrl-C reaches the command alone, as from a process manager; its workers must not outlive it."""
    command = ["compare", str(log_file), "--methods", "normal,macr", "--seeds", "2", *SMALL]
    command += ["--train.epochs", "100000", "--train.patience", "100000", "--workers", "2", "-o", "cmp"]
    process = start(*command)
    while len(list(Path("cmp/runs").glob("*/checkpoint/state.json"))) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    workers = [one for one in psutil.Process(process.pid).children() if "spawn_main" in " ".join(one.cmdline())]
    assert len(workers) == 2
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command continues" in err
    assert not any(worker.is_running() for worker in workers)
