"""What newcomers meet: where a run goes, what is said about it, how the help page is arranged."""

import json
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from icpe import split
from icpe.cli.progress import TrainingProgress
from icpe.cli.torchrun import program
from icpe.testing import skewed_log
from icpe.train.loop import Position

QUICK = ["--train.epochs", "2", "--backbone.dim", "4"]
WORKFLOW = [
    "demo",
    "data",
    "split",
    "train",
    "dial",
    "evaluate",
    "recommend",
    "export",
    "serve",
    "report",
    "audit",
    "compare",
    "tune",
    "simulate",
    "reproduce",
    "doctor",
]


def test_train_without_a_folder_saves_and_says_where(icpe, log_file):
    code, out, err = icpe("train", log_file, *QUICK, "--seed", "3")
    assert code == 0
    first = Path("runs/log-normal-mf-3")
    assert (first / "result.json").exists()
    assert err == ""
    assert f"Saved in {first}" in out
    code, out, _ = icpe("train", log_file, *QUICK, "--seed", "3", "--json")
    assert code == 0
    assert json.loads(out)["folder"] == f"{first}-2", "an existing run is not touched"
    assert (Path(f"{first}-2") / "result.json").read_bytes() == (first / "result.json").read_bytes()


def test_the_folder_is_named_after_what_is_trained(icpe, log_file):
    Path("my parts").mkdir()
    Path("my parts/all items.csv").write_bytes(log_file.read_bytes())
    assert icpe("train", "--train", "my parts/all items.csv", *QUICK, "--method", "popularity")[0] == 0
    assert [path.name for path in Path("runs").iterdir()] == ["all_items-popularity-mf-0"]


def test_an_interrupted_run_without_a_folder_says_how_to_continue(start, log_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = start("train", log_file, "--train.epochs", "100000", "--train.patience", "100000", "--force")
    while not Path("runs/log-normal-mf-0/checkpoint/state.json").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.search(r"interrupted: .*icpe train .* -o runs/log-normal-mf-0 --resume\n$", err), err
    assert "--force" not in err


def test_a_run_that_still_improves_says_so(icpe, log_file):
    out = icpe("train", log_file, *QUICK, "-o", "short")[1]
    assert len(Path("short/metrics.jsonl").read_text().splitlines()) == 1, "the only validation is the last and best"
    assert "still improving" in out
    assert "--train.epochs" in out
    settled = ["--train.epochs", "400", "--train.evaluate_every", "5", "--train.lr", "0.1", "--train.patience", "3"]
    out = icpe("train", log_file, *QUICK, *settled, "-o", "long")[1]
    result = json.loads(Path("long/result.json").read_text())
    assert result["best_step"] < result["steps"]
    assert "still improving" not in out
    assert "still improving" not in icpe("train", log_file, "--method", "popularity", "-o", "popularity")[1]


def test_the_size_of_the_training_part_is_printed(icpe, log_file):
    out = icpe("train", log_file, *QUICK, "-o", "run")[1]
    counts = json.loads(Path("run/split.json").read_text())["counts"]["train"]
    assert f"Trained on {counts['users']:,} users, {counts['items']:,} items" in out


def test_nothing_is_written_over_files_of_something_else(icpe, log_file):
    assert icpe("data", "make", "--users", "90", "--items", "70", "--interactions", "1500", "-o", "world")[0] == 0
    assert icpe("train", log_file, *QUICK, "-o", "run")[0] == 0
    before = {path: path.read_bytes() for path in [*Path("world").iterdir(), *Path("run").glob("*.*")]}
    for words, written in (
        (["train", log_file, *QUICK, "-o", "world"], "a run would overwrite items.parquet, users.parquet"),
        (["train", log_file, *QUICK, "-o", "world", "--force"], "a run would overwrite items.parquet, users.parquet"),
        (["data", "make", "-o", "run", "--force"], "a world would overwrite items.parquet, users.parquet"),
    ):
        code, out, err = icpe(*words)
        assert (code, out) == (2, "")
        assert written in err
        assert "choose a new or an empty folder" in err
    assert {path: path.read_bytes() for path in before} == before


def test_a_run_that_left_nothing_does_not_block_the_next(icpe, log_file):
    assert icpe("train", log_file, *QUICK, "-o", "whole")[0] == 0
    Path("run").mkdir()
    for name in ("config.toml", "split.json", "metrics.jsonl"):  # what a run has before its first checkpoint
        shutil.copy(f"whole/{name}", f"run/{name}")
    assert icpe("train", log_file, *QUICK, "-o", "run")[0] == 0
    assert "holds a run already" in icpe("train", log_file, *QUICK, "-o", "run")[2]


def test_a_resumed_run_that_does_not_exist_says_so(icpe, log_file):
    code, _, err = icpe("train", log_file, *QUICK, "-o", "new", "--resume")
    assert (code, err) == (0, "new holds no run yet, so this is a new one.\n")
    assert icpe("train", log_file, *QUICK, "-o", "new", "--resume")[2] == ""


def test_a_run_without_held_out_parts_says_so(icpe):
    split.random(skewed_log(), seed=1).train.write("all.parquet")
    code, out, _ = icpe("train", "--train", "all.parquet", *QUICK, "-o", "run")
    assert code == 0
    assert "no metrics" in out
    assert "no metrics" in icpe("evaluate", "run")[1]
    assert "still improving" not in out


def test_the_bar_shows_loss_and_validation():
    shown: list[tuple[int, int, str]] = []
    progress = TrainingProgress(lambda done, total, note: shown.append((done, total, note)))
    progress.on_step(Position(step=1, loss_sum=0.5, loss_steps=1), 10)
    progress.on_evaluation({"step": 2, "loss": 0.4, "valid": {"ndcg@20": 0.1234}})
    progress.on_step(Position(step=2), 10)
    progress.on_step(Position(step=3, loss_sum=0.3, loss_steps=1), 10)
    assert [(done, total) for done, total, _ in shown] == [(1, 10), (2, 10), (3, 10)]
    assert "0.5000" in shown[0][2]
    assert "NDCG" not in shown[0][2]
    assert "0.5000" in shown[1][2], "the loss stays after a validation"
    for number in ("0.3000", "NDCG@20 0.1234"):
        assert number in shown[2][2]


def test_help_lists_commands_in_the_order_of_the_work(icpe):
    out = icpe("--help")[1]
    listed = re.findall(r"^  (\w+) ", out.split("Commands:")[1], re.MULTILINE)
    assert listed == WORKFLOW
    assert "..." not in out.split("Commands:")[1], "summaries are complete"


@pytest.mark.parametrize(
    "arguments",
    [
        ["trian"],
        ["train", "--sed", "3"],
        ["train", "x", "-n", "0"],
        ["recommend", "nowhere", "--user", "1"],
        ["train", "nowhere.csv"],
        ["train", "log.csv", "--resume"],
    ],
    ids=" ".join,
)
def test_errors_have_one_style(icpe, arguments):
    code, out, err = icpe(*arguments)
    assert (code, out) == (2, "")
    assert re.match(r"error: \S", err)
    assert "Usage:" not in err
    assert "Error" not in err


def test_errors_of_the_library_give_flags_not_python(icpe):
    Path("odd.csv").write_text("uid,item_id\n1,2\n")
    code, _, err = icpe("data", "describe", "odd.csv")
    assert code == 2
    assert re.search(r"[Pp]ass --column user_id=uid", err), err
    assert "columns=" not in err
    Path("bare.csv").write_text("1,2\n3,4\n")
    code, _, err = icpe("train", "bare.csv")
    assert code == 2
    assert "--no-header" in err
    assert "header=False" not in err


def test_usage_errors_name_the_help_page(icpe):
    assert icpe("train", "--sed", "3")[2].endswith("Try 'icpe train --help'.\n")
    assert icpe("data", "descibe")[2].endswith("Try 'icpe data --help'.\n")


def test_unknown_users_get_advice_for_the_command_line(icpe, log_file):
    assert icpe("train", log_file, *QUICK, "-o", "run")[0] == 0
    code, out, err = icpe("recommend", "run", "--user", "7", "--user", "77777", "--user", "88888")
    assert (code, out) == (2, "")
    for words in ("77777", "88888", "--unknown ignore", "--unknown popular", "--history"):
        assert words in err
    assert "unknown=" not in err
    code, out, _ = icpe("recommend", "run", "--user", "77777", "--user", "7", "--unknown", "popular", "-n", "3")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["user_id", "7", "7", "7", "77777", "77777", "77777"]


def test_the_program_is_named_by_its_path_where_the_shell_does_not_find_it(tmp_path, monkeypatch):
    """As after `make demo`, which puts it into .venv/bin."""
    monkeypatch.chdir(tmp_path)
    folder = Path(".venv", "bin")
    folder.mkdir(parents=True)
    (folder / "icpe").write_text("#!/bin/sh\n")
    (folder / "icpe").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [".venv/bin/icpe", "demo"])
    assert program() == ".venv/bin/icpe"
    monkeypatch.setattr(sys, "argv", ["/gone/icpe"])
    assert program() == "icpe"  # a path that leads nowhere helps nobody
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert program() == "icpe"
    monkeypatch.setattr(sys, "argv", [".venv/bin/icpe"])
    monkeypatch.setenv("PATH", str(folder.resolve()))
    assert program() == "icpe"


def test_icpe_alone_shows_where_to_begin(icpe):
    code, out, err = icpe()
    assert (code, err) == (0, "")
    for command in ("icpe demo", "icpe data describe events.csv", "icpe audit --log", "icpe dial run", "icpe --help"):
        assert command in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "exit_code", "code", "said"),
    [
        (["data", "describe", "gone.csv", "--json"], 2, "data", "gone.csv does not exist"),
        (["train", "demo", "--method", "icp", "--json"], 2, "config", "did you mean 'icpe'?"),
        (["train", "demo", "--epochs", "3", "--json"], 2, "usage", "'--train.epochs'"),
        (["evaluate", "gone", "--json"], 2, "usage", "`icpe train -o FOLDER`"),
    ],
)
def test_json_errors_are_objects(icpe, words, exit_code, code, said):
    found, out, err = icpe(*words)
    error = json.loads(err.splitlines()[-1])["error"]
    assert (found, out) == (exit_code, "")
    assert (error["code"], error["exit_code"]) == (code, exit_code)
    assert said in error["message"]


def test_messages_on_the_command_line_give_no_advice_for_python(icpe, tmp_path):
    (tmp_path / "log.csv").write_text("uid,sku\n" + "".join(f"{n % 7},{n % 5}\n" for n in range(35)))
    (tmp_path / "named.csv").write_text("user_id,item_id\n" + "".join(f"{n % 7},{n % 5}\n" for n in range(35)))
    (tmp_path / "recs.csv").write_text("user_id,item_id\nann,tea\n")
    for words, remedy in (
        (["data", "describe", tmp_path / "log.csv"], "--column user_id=uid --column item_id=NAME"),
        (["data", "describe", tmp_path / "log.csv", "--column", "user=uid"], "pass --column user_id=uid"),
        (["split", tmp_path / "named.csv", "--split", "chronological", "-o", "x"], "pass --column timestamp=NAME"),
        (["audit", "--log", tmp_path / "named.csv", "--recs", tmp_path / "recs.csv"], "pass --ids text"),
    ):
        code, _, err = icpe(*map(str, words))
        assert code == 2
        assert remedy in err
        assert "command line" not in err
        assert "columns={" not in err
