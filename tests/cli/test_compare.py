"""Comparisons as people start, stop, kill and continue them."""

import importlib.util
import io
import json
import signal
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from icpe.cli._compare_shown import Board, line
from icpe.cli.compare import parse_seeds
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
    assert "Everything is in cmp: report.html, table.md" in out
    assert "MACR" in Path("cmp/report.html").read_text()
    assert "All with default or given settings, none tuned." in out.replace("\n", " ")
    code, out, err = icpe(*command, "--json", "--subject", "macr")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [row["label"] for row in found["rows"]] == ["Normal", "MACR", "Popularity"]
    assert found["comparisons"][0]["subject"] == "MACR"
    assert found["failures"] == []
    # A run of the folder is like any other.
    assert icpe("evaluate", "cmp/runs/macr-mf-1", "--json")[0] == 0
    # What is compared can be repeated from its file, into another folder.
    code, out, err = icpe("compare", "--cells", "cmp/grid.toml", "--only", "Popularity", "-o", "other")
    assert code == 0, err
    before, after = (pl.read_parquet(f"{name}/results.parquet") for name in ("cmp", "other"))
    assert before.filter(pl.col("label") == "Popularity").equals(after)


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

    monkeypatch.setattr("icpe.report.comparison.comparison_report", broken)
    code, out, err = icpe(*command, "plain")
    assert (code, err) == (0, "no report.html: a run is damaged\n")
    assert "Popularity" in out


def test_a_preset_marks_what_it_does_not_have(icpe, log_file):
    Path("mine.toml").write_text("[macr.mf]\ntrials = 1\n[macr.mf.train]\nlr = 0.25\n")
    command = ["compare", log_file, "--methods", "normal,macr", "--seeds", "0,", "--preset", "mine.toml", *SMALL]
    code, out, err = icpe(*command, "-o", "cmp")
    assert code == 0, err
    assert "Normal † " in out
    assert "MACR † " not in out
    assert "† Default settings, not tuned." in out.replace("\n", " ")
    assert RunConfig.read(Path("cmp/runs/macr-mf-0/config.toml")).train["lr"] == 0.25
    assert RunConfig.read(Path("cmp/runs/normal-mf-0/config.toml")).train["lr"] == 0.001
    code, _, err = icpe("compare", log_file, "--methods", "normal", "--preset", "mine.toml", "-o", "no")
    assert (code, "has no settings for normal on mf; it has macr on mf" in err) == (2, True)


def test_given_parts_and_dotted_flags(icpe, log_file):
    assert icpe("split", log_file, "-o", "parts")[0] == 0
    given = [f"--{part}={Path('parts') / part}.parquet" for part in ("train", "valid", "test")]
    code, out, err = icpe("compare", *given, "--methods", "popularity", "--seeds", "3-3", "-o", "cmp")
    assert code == 0, err
    assert "train.parquet, given parts;" in out
    code, _, err = icpe("compare", *given[:2], "--methods", "popularity", "--seeds", "1", "-o", "more")
    assert (code, "give --test FILE" in err) == (2, True)


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
    assert "[1/2] In-batch softmax on neumf, seed 0 failed: NeuMF scores pairs one by one" in err
    assert "Failed: In-batch softmax on neumf, seed 0 (NeuMF scores" in out.replace("\n", " ")
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
    assert [text for text in err.splitlines() if text][-2:] == [
        "all that was trained is kept in cmp; the same command goes on from there",
        "interrupted",
    ]
    assert "fewer so far" not in Path("cmp/table.txt").read_text()
    code, _, err = icpe(*command)
    assert (code, [text.split(":")[0] for text in err.splitlines()]) == (0, ["[2/2] MACR on mf, seed 0"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give --methods NAMES or --cells FILE, one of them"),
        (["--methods", "normal", "--cells", "study.toml"], "Give --methods NAMES or --cells FILE, one of them"),
        (["--methods", "norml"], "unknown method 'norml'; did you mean 'normal'"),
        (["--methods", "normal", "--backbones", "mff"], "mff"),
        (["--methods", ","], "nothing to compare"),
        (["--methods", "normal,normal"], "'Normal' on mf is there twice"),
        (["--methods", "normal", "--method.colour", "3"], "has no setting 'colour'"),
        (["--methods", "normal", "--seeds", "a"], "--seeds is 'a'; expected a number such as 5"),
        (["--methods", "normal", "--seeds", "0"], "--seeds is 0, which is no seed at all"),
        (["--methods", "normal", "--seeds", "3,3"], "seeds are [3, 3]; expected different"),
        (["--methods", "normal", "--train.seed", "3"], "give --seeds, and leave --train.seed out"),
        (["--methods", "normal", "--workers", "0"], "0 is not in the range x>=1"),
        (["--methods", "normal", "--preset", "nonsense"], "method 'normal' has no preset 'nonsense'"),
        (["--methods", "normal", "--only", "A"], "--only chooses from --cells FILE"),
        (["--methods", "normal", "--storage", "nonsense://"], "the database of --storage cannot be opened"),
        (["--methods", "normal", "-o", "words.txt"], "words.txt cannot be written to"),
        (["--cells", "words.txt"], "words.txt cannot be read as TOML"),
        (["--cells", "study.toml", "--preset", "lastfm"], "--preset goes with --methods"),
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


def test_seeds():
    assert parse_seeds("5") == [0, 1, 2, 3, 4]
    assert parse_seeds("0-4") == [0, 1, 2, 3, 4]
    assert parse_seeds(" 0, 3,7-8 ") == [0, 3, 7, 8]


def event(kind, label="ICPE", seed=0, value=None, **rest) -> Event:
    row = None if value is None else {"seconds": 5.0, "recall@20": value, "ndcg@20": None, "apt@20": 0.5}
    return Event(kind, label, "mf", seed, row, done=1, total=4, **rest)


def test_lines():
    assert line(event("finished", value=0.25, seconds_left=75)) == (
        "[1/4] ICPE on mf, seed 0: recall@20 0.2500, apt@20 0.5000, 5 s, 1 min 15 s left"
    )
    assert line(event("finished", value=0.25, seconds_left=7500)).endswith(", 5 s, 2 h 5 min left")
    assert line(event("waiting", reason="no room")) == "[1/4] ICPE on mf, seed 0 waits: no room"
    assert line(event("failed", reason="it broke")) == "[1/4] ICPE on mf, seed 0 failed: it broke"


def drawn(board: Board) -> list[list[str]]:
    from rich.console import Console

    console = Console(width=160, file=io.StringIO())
    console.print(board.table())
    lines = console.file.getvalue().splitlines()
    return [[word.strip() for word in text.replace("┃", "│").split("│")[1:-1]] for text in lines if "│" in text]


def test_the_live_table():
    board = Board([Cell("ICPE", RunConfig()), Cell("MACR", RunConfig())], [0, 1])
    assert drawn(board) == [["ICPE", "mf", "0/2", "waits"], ["MACR", "mf", "0/2", "waits"]]
    board.note(event("found", value=0.25))
    board.note(event("started", seed=1))
    board.note(event("started", "MACR"))
    board.note(event("waiting", "MACR", 1, reason="no room"))
    assert drawn(board)[0] == ["ICPE", "mf", "1/2", "0.2500", "0.5000", "seed 1 runs"]
    board.note(event("finished", seed=1, value=0.75))
    board.note(event("failed", "MACR", reason="it broke"))
    assert drawn(board) == [
        ["ICPE", "mf", "2/2", "0.5000", "0.5000", "done"],
        ["MACR", "mf", "0/2", "", "", "1 failed"],
    ]


class Terminal(io.StringIO):
    """A window somebody looks at."""

    def isatty(self):
        return True


def test_on_a_terminal_a_table_is_drawn(icpe, log_file, monkeypatch):
    window = Terminal()
    monkeypatch.setattr(sys, "stderr", window)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    assert icpe("compare", log_file, "--methods", "popularity", "--seeds", "1", "-o", "cmp")[0] == 0
    shown = window.getvalue()
    assert "Popularity" in shown
    assert "1 of 1 runs" in shown
