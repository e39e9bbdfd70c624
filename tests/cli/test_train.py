"""Training runs as people start, stop, kill and continue them."""

import json
import multiprocessing
import re
import shlex
import shutil
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from icpe import split
from icpe.cli import run
from icpe.cli.dotted import parse_value
from icpe.files import write_together
from icpe.runs.config import RunConfig
from icpe.runs.run import Run
from icpe.testing import skewed_log

PROMISED = {
    *(f"{metric}@20" for metric in ("recall", "ndcg", "recall_head", "recall_niche", "ndcg_head", "ndcg_niche")),
    "coverage@20",
    "apt@20",
    "users",
}
FILES = {
    "manifest.json",
    "config.toml",
    "split.json",
    "metrics.jsonl",
    "result.json",
    "model.safetensors",
    "model.json",
    "vectors.safetensors",
    "front.parquet",
    "front_test.parquet",
    "users.parquet",
    "items.parquet",
    "seen.parquet",
    "per_user.parquet",
    "checkpoint",
}
QUICK = ["--train.epochs", "2", "--backbone.dim", "4"]
# Long enough to be stopped on the way: about a second of steps, with a validation and a checkpoint every 40.
LONG = ["--train.epochs", "12", "--train.batch_size", "64", "--train.evaluate_every", "40", "--train.patience", "99"]
LONG += ["--backbone.dim", "8"]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def log_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "log.csv"
    skewed_log().write(path)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory, log_file) -> Path:
    """A short run; tests copy it before they change anything."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert run(["train", str(log_file), *QUICK, "-o", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, log_file) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    assert run(["train", str(log_file), *LONG, "-o", str(folder)]) == 0
    return folder


def test_killed_anywhere_it_ends_the_same(log_file, uninterrupted, tmp_path, capfd):
    """SIGKILL ten times at seeded moments, also while it finishes; the files end equal to the last byte.

    The processes are forked from one that has imported everything, for imports take longer than the run.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["icpe.cli", "icpe.runs.run", "icpe.kernels.rows", "icpe.kernels.negatives"])
    folder = tmp_path / "run"
    warm = context.Process(target=len, args=("",))  # the imports happen here, and not in what is measured
    warm.start()
    warm.join()

    def start(*more: str) -> multiprocessing.Process:
        process = context.Process(target=run, args=(["train", str(log_file), *LONG, "-o", str(folder), *more],))
        process.start()
        return process

    def step() -> int:
        path = folder / "checkpoint" / "state.json"
        return json.loads(path.read_text())["record"]["step"] if path.exists() else 0

    process = start()
    steps = [0]
    for number, moment in enumerate(np.random.default_rng(0).random(10)):
        # Three times it has hardly read its data; else it must get further than last time, however busy the machine is.
        while number not in (2, 4, 7) and step() <= steps[-1] and process.is_alive():
            time.sleep(0.005)
        time.sleep(0.3 * moment)
        process.kill()
        process.join(20)
        assert process.exitcode in (-signal.SIGKILL, 0)
        steps.append(step())
        process = start("--resume")
    process.join(60)
    assert process.exitcode == 0
    assert steps == sorted(steps)
    assert len(set(steps)) > 2, f"killed too early each time to tell anything: {steps}"
    assert contents(folder) == contents(uninterrupted)


def wait_for_step(folder: Path, process: "subprocess.Popen[str]") -> None:
    while not (folder / "checkpoint" / "state.json").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_the_real_program_stopped_and_continued(start, log_file, uninterrupted, tmp_path, number):
    folder = tmp_path / "run"
    command = ["train", str(log_file), *LONG, "-o", str(folder)]
    process = start(*command)
    wait_for_step(folder, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == ""
    assert not (folder / "result.json").exists()
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert err.startswith("interrupted: ")
        assert err.rstrip().endswith(f"icpe {shlex.join(command)} --resume"), err
        assert json.loads((folder / "checkpoint" / "state.json").read_text())["record"]["done"] is False
    else:
        assert process.returncode == -signal.SIGKILL
    assert run([*command, "--resume"]) == 0
    assert contents(folder) == contents(uninterrupted)


def test_an_interrupt_between_steps_saves_that_step(icpe, log_file, uninterrupted):
    """Away from any validation, the saved state is that of the step after which the interrupt arrived."""

    def interrupt(position, steps):
        if position.step == 57:
            signal.raise_signal(signal.SIGINT)

    config = RunConfig.read(uninterrupted / "config.toml")
    with pytest.raises(KeyboardInterrupt):
        Run(config, Path("run"), on_step=interrupt).train()
    assert json.loads(Path("run/checkpoint/state.json").read_text())["record"]["step"] == 57
    assert icpe("train", log_file, *LONG, "-o", "run", "--resume")[0] == 0
    assert contents(Path("run")) == contents(uninterrupted)


def test_contents_of_a_run(icpe, log_file, finished):
    assert {path.name for path in finished.iterdir()} == FILES
    config = tomllib.loads((finished / "config.toml").read_text())
    assert list(config) == ["data", "split", "backbone", "method", "train", "evaluate"]
    assert config["backbone"] == {"name": "mf", "dim": 4, "init_std": 0.01}
    assert (config["train"]["epochs"], config["train"]["seed"], config["evaluate"]["n"]) == (2, 0, [20])
    parts = split.unbiased(skewed_log(), seed=0)
    assert json.loads((finished / "split.json").read_text())["hashes"] == parts.manifest["hashes"]
    result = json.loads((finished / "result.json").read_text())
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [result["steps"]]
    assert lines[-1]["valid"] == result["valid"]
    assert 1.3 < lines[-1]["loss"] < 1.4


def test_json_has_the_promised_names_and_evaluate_gives_them_again(icpe, log_file):
    code, out, err = icpe("train", log_file, *QUICK, "--seed", "3", "-o", "run", "--json")
    assert (code, err) == (0, "")
    printed = json.loads(out)
    stored = json.loads(Path("run/result.json").read_text())
    assert {name: value for name, value in printed.items() if name not in ("seconds", "folder")} == stored
    assert printed["folder"] == "run"
    for part in ("test", "valid"):
        assert set(printed[part]) >= PROMISED
        assert printed[part]["users"] > 100
    assert printed["seed"] == 3
    before = contents(Path("run"))
    code, out, err = icpe("evaluate", "run", "--json")
    assert (code, err) == (0, "")
    again = json.loads(out)
    assert {part: again[part] for part in ("test", "valid")} == {part: printed[part] for part in ("test", "valid")}
    shorter = json.loads(icpe("evaluate", "run", "-n", "5", "-n", "10", "--json")[1])["test"]
    assert {"recall@5", "recall@10"} <= set(shorter)
    assert shorter["recall@5"] <= shorter["recall@10"] <= printed["test"]["recall@20"]
    code, out, _ = icpe("evaluate", "run")
    assert code == 0
    assert f"{printed['test']['ndcg@20']:.4f}" in out
    assert contents(Path("run")) == before


def test_evaluate_notices_other_data(icpe, log_file, finished):
    shutil.copy(log_file, "log.csv")
    assert icpe("train", "log.csv", *QUICK, "-o", "run")[0] == 0
    skewed_log(seed=1).write("log.csv")
    code, out, err = icpe("evaluate", "run", "--json")
    assert (code, out) == (2, "")
    assert "the data of run have changed since it was made" in err


def test_an_existing_run_is_kept(icpe, log_file, finished):
    shutil.copytree(finished, "run")
    before = contents(Path("run"))
    code, out, err = icpe("train", log_file, *QUICK, "--seed", "1", "-o", "run")
    assert (code, out) == (2, "")
    assert "run holds a run already; go on with --resume, replace it with --force" in err
    assert contents(Path("run")) == before
    assert icpe("train", log_file, *QUICK, "--seed", "1", "-o", "run", "--force")[0] == 0
    assert {path.name for path in Path("run").iterdir()} == FILES
    assert json.loads(Path("run/result.json").read_text())["seed"] == 1
    assert len(list(Path("run/checkpoint").iterdir())) == 3


def test_a_mistake_with_force_leaves_the_old_run(icpe, log_file, finished):
    shutil.copytree(finished, "run")
    before = contents(Path("run"))
    for wrong in (["--train.lr", "-1"], ["--backbone.dim", "0"], ["--k-core", "5000"]):
        assert icpe("train", log_file, *QUICK, *wrong, "-o", "run", "--force")[0] == 2
    assert contents(Path("run")) == before


def test_a_forced_run_that_stops_leaves_no_old_model(icpe, log_file, finished):
    """Else lists would come from a model that config.toml does not describe."""
    shutil.copytree(finished, "run")
    code, _, err = icpe(
        "train", log_file, *QUICK, "--train.lr", "1e30", "--train.batch_size", "64", "-o", "run", "--force"
    )
    assert code != 0
    code, out, err = icpe("recommend", "run", "--user", "1")
    assert (code, out) == (2, "")
    assert "run holds no model" in err
    assert "holds no finished run" in icpe("evaluate", "run")[2]


def test_resume_of_a_finished_run_changes_nothing(icpe, log_file, finished):
    shutil.copytree(finished, "run")
    before = contents(Path("run"))
    assert icpe("train", log_file, *QUICK, "-o", "run", "--resume")[0] == 0
    assert contents(Path("run")) == before


def test_resume_of_a_finished_run_without_its_checkpoint_is_refused(icpe, log_file, finished):
    """Not trained anew in silence."""
    shutil.copytree(finished, "run")
    shutil.rmtree("run/checkpoint")
    before = contents(Path("run"))
    code, out, err = icpe("train", log_file, *QUICK, "-o", "run", "--resume")
    assert (code, out) == (2, "")
    assert "run holds a finished run without its checkpoint" in err
    assert contents(Path("run")) == before


def test_resume_where_nothing_was_begun_begins(icpe, log_file, finished):
    assert icpe("train", log_file, *QUICK, "-o", "run", "--resume")[0] == 0
    assert contents(Path("run")) == contents(finished)


OTHERS = {
    "validation data are": ["--seed", "1"],
    "train.lr is": ["--train.lr", "0.01"],
    "method.loss is": ["--method.loss", "bpr"],
    "backbone.init_std is": ["--backbone.init_std", "0.02"],
    "training data are": ["--k-core", "12"],
}


@pytest.mark.parametrize("what", OTHERS)
def test_resume_refuses_another_run(icpe, log_file, finished, what):
    shutil.copytree(finished, "run")
    before = contents(Path("run"))
    code, _, err = icpe("train", log_file, *QUICK, *OTHERS[what], "-o", "run", "--resume")
    assert code == 2
    assert re.search(rf"belongs to another run: (.*; )?its {re.escape(what)}", err)
    assert contents(Path("run")) == before


def change_state(folder, **values):
    """Change the state and its checksum, so that only its content is wrong."""
    text = json.dumps({**json.loads((folder / "checkpoint" / "state.json").read_text()), **values})
    write_together(folder / "checkpoint", {"state.json": lambda path: path.write_text(text)})


def break_json(folder):
    (folder / "checkpoint" / "state.json").write_text('{"format": 1, "rec')


def break_format(folder):
    change_state(folder, format=99)


def break_record(folder):
    change_state(folder, record={})


def break_tensors(folder):
    path = next((folder / "checkpoint").glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-100])


def remove_tensors(folder):
    next((folder / "checkpoint").glob("*.safetensors")).unlink()


def break_identity(folder):
    change_state(folder, identity="mine")


def swap_tensors(folder):
    name = next((folder / "checkpoint").glob("*.safetensors")).name
    write_together(folder / "checkpoint", {name: lambda path: shutil.copy(folder / "model.safetensors", path)})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_json, r"state\.json is damaged"),
        (break_format, "has format 99, this version reads 1"),
        (break_record, r"state\.json is damaged"),
        (break_identity, r"state\.json is damaged"),
        (break_tensors, "is damaged or missing"),
        (remove_tensors, "is damaged or missing"),
        (swap_tensors, "does not hold this run's state"),
    ],
)
def test_a_damaged_checkpoint_is_told_and_left_alone(icpe, log_file, finished, damage, message):
    shutil.copytree(finished, "run")
    damage(Path("run"))
    before = contents(Path("run"))
    code, out, err = icpe("train", log_file, *QUICK, "-o", "run", "--resume")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert re.search(message, err)
    assert contents(Path("run")) == before


def test_half_a_line_of_the_curve_and_half_written_files_do_no_harm(icpe, log_file, uninterrupted):
    """What a kill in the middle of a write leaves."""
    shutil.copytree(uninterrupted, "run")
    curve = Path("run/metrics.jsonl").read_text()
    Path("run/metrics.jsonl").write_text(curve + curve[:50])
    for place in ("run/.icpe-tmp-abcd1234", "run/checkpoint/.icpe-tmp-01234567"):
        Path(place).mkdir()
        Path(place, "model.safetensors").write_bytes(b"half")
    Path("run/.notes").write_text("mine")
    assert icpe("train", log_file, *LONG, "-o", "run", "--resume")[0] == 0
    assert contents(Path("run")) == {**contents(uninterrupted), ".notes": b"mine"}


def test_dotted_flags_in_any_order_and_form(icpe, log_file, finished):
    code, _, _ = icpe("train", "--backbone.dim=4", "-o", "run", "--train.epochs=2", log_file)
    assert code == 0
    assert contents(Path("run")) == contents(finished)
    assert icpe("train", "--train.epochs", "7", log_file, *QUICK, "-o", "last")[0] == 0, "the last one wins"
    assert contents(Path("last")) == contents(finished)


def test_values_of_dotted_flags():
    words = ["3", "-3", "1e-3", "true", "False", "64,32", "64,", "softmax", "0.5", ""]
    assert [parse_value(word) for word in words] == [3, -3, 0.001, True, False, [64, 32], [64], "softmax", 0.5, ""]
    assert [type(parse_value(word)) for word in ("3", "3.0")] == [int, float]


WRONG = {
    "unknown loop setting": (["--train.epoch", "3"], r"--train.epoch:.*did you mean --train.epochs\?"),
    "unknown backbone setting": (["--backbone.dims", "3"], r"--backbone.dims:.*did you mean --backbone.dim\?"),
    "unknown method setting": (["--method.los", "bpr"], r"--method.los:.*'normal'.*did you mean --method.loss\?"),
    "unknown evaluation setting": (["--evaluate.m", "3"], "--evaluate.m:.*--evaluate.n"),
    "unknown section": (["--trian.lr", "3"], "no such option.*--trian.lr"),
    "no value": (["--train.lr"], "--train.lr needs a value"),
    "a flag for a value": (["--train.lr", "--json"], "--train.lr needs a value"),
    "text for a number": (["--train.lr", "fast"], "--train.lr is 'fast'; expected a number"),
    "half an epoch": (["--train.epochs", "0.5"], "--train.epochs is 0.5; expected a whole number"),
    "a seed of text": (["--train.seed", "one"], "--train.seed is 'one'; expected a whole number"),
    "half a negative": (["--method.negatives", "1.5"], "--method.negatives is 1.5; expected a whole number"),
    "unknown loss": (["--method.loss", "mse"], "--method.loss is 'mse'; expected one of bce, bpr, softmax"),
    "unknown backbone": (["--backbone", "lightgnc"], "--backbone: .*did you mean 'lightgcn'"),
    "unknown method": (["--method", "norml"], "--method: .*'norml'; did you mean 'normal'"),
    "no such device": (["--device", "abacus"], "device 'abacus' is not available here"),
    "lists of length zero": (["--evaluate.n", "0"], "--evaluate.n is 0; expected"),
    "half a list": (["--evaluate.n", "0.5"], "--evaluate.n is 0.5; expected"),
    "resume of nothing": (["--resume"], "--resume needs the folder of the run"),
    "setting of another split": (["--split", "random", "--split.mode", "ips"], "--split.mode: split 'random' has no such setting"),
    "test without training part": (["--test", "log.csv"], "belongs to a given training part: add --train FILE"),
    "both ways of data": (["--train", "log.csv"], r"both DATA .* and a given training part"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_exit_2_with_one_clear_line(icpe, log_file, case):
    arguments, message = WRONG[case]
    code, out, err = icpe("train", log_file, *QUICK, *arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert re.search(message, err), err
    assert list(Path().iterdir()) == []


def test_no_data_at_all(icpe):
    code, _, err = icpe("train")
    assert code == 2
    assert "no data: name a file" in err


def test_config_file_with_flags_winning(icpe, log_file):
    Path("settings.toml").write_text(
        f'[data]\nsource = "{log_file.as_posix()}"\n[split]\nkind = "random"\n[backbone]\ndim = 4\n[method]\nloss = "bpr"\n'
        "[train]\nepochs = 1\nseed = 5\nlr = 0.5\n[evaluate]\nn = [10]\n"
    )
    assert icpe("train", "--config", "settings.toml", "--train.lr", "0.01", "-o", "run")[0] == 0
    config = tomllib.loads(Path("run/config.toml").read_text())
    assert (config["train"]["lr"], config["train"]["seed"], config["train"]["epochs"]) == (0.01, 5, 1)
    assert (config["split"]["kind"], config["method"]["loss"], config["evaluate"]["n"]) == ("random", "bpr", [10])
    assert json.loads(Path("run/result.json").read_text())["seed"] == 5
    # What a run wrote makes the same run again.
    assert icpe("train", "--config", "run/config.toml", "-o", "again")[0] == 0
    assert contents(Path("again")) == contents(Path("run"))
    assert icpe("train", "--config", "settings.toml", "--seed", "0", "-o", "zero")[0] == 0
    assert json.loads(Path("zero/result.json").read_text())["seed"] == 0, "a flag of 0 is a flag too"
    # Another method has other settings: those of the file's do not apply.
    assert (
        icpe("train", "--config", "run/config.toml", "--method", "icpe", "--method.clusters", "3", "-o", "other")[0]
        == 0
    )
    config = tomllib.loads(Path("other/config.toml").read_text())
    assert (config["method"]["loss"], config["method"]["clusters"], config["backbone"]["dim"]) == ("softmax", 3, 4)


def test_presets(icpe, log_file):
    paper = ["--method", "icpe", "--preset", "paper", "--method.runs", "2"]
    assert icpe("train", str(log_file), *QUICK, *paper, "-o", "paper")[0] == 0
    method = tomllib.loads(Path("paper/config.toml").read_text())["method"]
    assert (method["loss"], method["alpha"], method["runs"]) == ("bce", 2e-3, 2)
    shown = json.loads(Path("paper/metrics.jsonl").read_text().splitlines()[0])["icpe"]
    assert {"size", "popularity", "gradient_norm", "cosine", "weight", "niche_weight", "spearman"} <= shown.keys()
    code, _, error = icpe("train", str(log_file), *QUICK, "--method", "icpe", "--preset", "papers")
    assert code == 2
    assert "has no preset 'papers'. Its own presets are default, version-0.1, paper" in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[trian]\nlr = 1\n", r"section.*trian.*did you mean \W*train\W"),
        ("lr = 1\n", r"section.*\Wlr\W"),
        ("[train\n", "cannot be read as TOML"),
        ('[data]\nsorce = "log.csv"\n', r"(?=.*\[data\]).*'sorce'; did you mean 'source'\?"),
        ('[data]\nmin_wight = 3\n', r"(?=.*\[data\]).*'min_wight'; did you mean 'min_weight'\?"),
    ],
)  # fmt: skip
def test_wrong_config_files(icpe, log_file, text, message):
    Path("settings.toml").write_text(text)
    code, _, err = icpe("train", log_file, "--config", "settings.toml")
    assert code == 2
    assert re.search(message, err), err


def test_given_parts(icpe):
    parts = split.random(skewed_log(), seed=1)
    for name, part in parts.named():
        part.write(f"{name}.csv")
    given = ["--train", "train.csv", "--valid", "valid.csv", "--test", "test.csv"]
    assert icpe("train", *given, *QUICK, "-o", "run")[0] == 0
    hashes = json.loads(Path("run/split.json").read_text())["hashes"]
    assert hashes["test"] == parts.manifest["hashes"]["test"]
    result = json.loads(Path("run/result.json").read_text())
    assert result["test"]["users"] == int((parts.test.user_counts > 0).sum())
    assert json.loads(icpe("evaluate", "run", "--json")[1])["test"] == result["test"]
    # Without the others there is nothing to validate or test on, and all epochs are run.
    assert icpe("train", "--train", "train.csv", *QUICK, "-o", "alone")[0] == 0
    result = json.loads(Path("alone/result.json").read_text())
    assert not {"valid", "test"} & set(result)
    assert result["steps"] == result["best_step"] == 2 * -(-len(parts.train) // 1024)


def test_a_diverging_run_says_so(icpe, log_file):
    code, out, err = icpe("train", log_file, *QUICK, "--train.lr", "1e30", "--train.batch_size", "64", "-o", "run")
    assert code == 1, "neither the data nor a setting by itself is wrong"
    assert out == ""
    assert re.search(r"the loss is (nan|inf) at step \d+ with lr=1e\+30\. Try a smaller learning rate", err), err
    assert json.loads(Path("run/checkpoint/state.json").read_text())["record"]["step"] >= 1
    assert err.rstrip().endswith("; run/checkpoint holds an earlier state")
    code, _, err = icpe("train", log_file, *QUICK, "--train.lr", "1e30", "--train.batch_size", "64")
    assert code == 1
    assert err.rstrip().endswith("runs/log-normal-mf-0/checkpoint holds an earlier state")


def test_evaluate_from_another_folder(icpe, log_file, monkeypatch):
    """Paths in config.toml hold from anywhere; names of the catalogue stay names."""
    Path("here").mkdir()
    Path("there").mkdir()
    monkeypatch.chdir("here")
    shutil.copy(log_file, "log.csv")
    assert icpe("train", "log.csv", *QUICK, "-o", "run")[0] == 0
    result = json.loads(Path("run/result.json").read_text())
    monkeypatch.chdir("../there")
    code, out, err = icpe("evaluate", "../here/run", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == result
    assert icpe("train", "--config", "../here/run/config.toml", "-o", "again")[0] == 0
    assert contents(Path("again")) == contents(Path("../here/run"))


@pytest.mark.parametrize(("key", "value"), [("source", "demo"), ("k_core", 5), ("format", "csv")])
def test_other_settings_of_the_data_stay_as_they_are(key, value, tmp_path):
    config = RunConfig(data={key: value, "data_dir": "sets", "valid": Path("valid.csv")})
    method = config.make_method()
    (tmp_path / "config.toml").write_text(config.as_toml(method, config.train_settings(method)))
    data = RunConfig.read(tmp_path / "config.toml").data
    assert data == {key: value, "data_dir": str(Path("sets").absolute()), "valid": str(Path("valid.csv").absolute())}


def test_lists_from_the_command_line(icpe, finished):
    code, out, _ = icpe("recommend", finished, "--user", "7", "--user", "3", "-n", "4", "--json")
    assert code == 0
    rows = json.loads(out)
    assert [(row["user_id"], row["rank"]) for row in rows] == [(user, rank) for user in (7, 3) for rank in (1, 2, 3, 4)]
    header, *text = icpe("recommend", finished, "--user", "7", "--user", "3", "-n", "4")[1].splitlines()
    assert header.split() == ["user_id", "rank", "score", "item_id"]
    for line, row in zip(text, rows, strict=True):
        assert line.split() == [str(row["user_id"]), str(row["rank"]), f"{row['score']:.4f}", str(row["item_id"])]
    for name in ("lists.parquet", "lists.csv"):
        code, out, _ = icpe("recommend", finished, "--all", "-n", "4", "-o", name, "--json")
        assert code == 0
        everybody = pl.read_parquet(name) if name.endswith("parquet") else pl.read_csv(name)
        assert json.loads(out) == {"rows": len(everybody), "file": name}
        mine = pl.concat([everybody.filter(pl.col("user_id") == user) for user in (7, 3)])
        assert mine["item_id"].to_list() == [row["item_id"] for row in rows]
    history = json.loads(icpe("recommend", finished, "--history", "1,2,3", "-n", "5", "--json")[1])
    assert [row["rank"] for row in history] == [1, 2, 3, 4, 5]
    assert not {1, 2, 3} & {row["item_id"] for row in history}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--user ID (repeatable), --users FILE, --all, --history FILE"),
        (["--user", "1", "--all"], "--user ID (repeatable), --users FILE, --all, --history FILE"),
        (["--all"], "--all writes to a file"),
        (["--all", "-o", "lists.txt"], "-o is lists.txt; expected a file that ends in .parquet, .csv or .jsonl"),
        (["--user", "99999"], "user 99999; known ids look like "),
        (["--user", "ann"], "user 'ann' is not an id of this model: ids are integers, such as 0"),
        (["--user=--5"], "user '--5' is not an id of this model"),
        (["--history", "1,,2"], "item '' is not an id of this model"),
    ],
)
def test_wrong_questions(icpe, finished, arguments, message):
    code, out, err = icpe("recommend", finished, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert list(Path().iterdir()) == []


def test_limits_are_checked_before_training(icpe, tmp_path):
    log_file = tmp_path / "log.csv"
    skewed_log(users=60, items=40, pairs=900).write(log_file)
    for flags, words in (
        (("-n", 41), "n is 41, but the training part has 40 items, so no list can be that long. Pass -n 40"),
        (("--backbone.dim", 10**9), "backbone.dim is 1000000000, which needs at least 1.6 TB of memory for 60 users"),
        (("--method", "icpe", "--method.clusters", 10**9), "are available. Pass a smaller --method.clusters"),
    ):
        code, out, err = icpe("train", log_file, "-o", tmp_path / "run", *flags)
        assert (code, out) == (2, "")
        assert words in err
        assert not (tmp_path / "run").exists()
    (tmp_path / "valid.csv").write_text("user_id,item_id\n999,999\n")
    code, out, err = icpe("train", "--train", log_file, "--valid", tmp_path / "valid.csv", "-o", tmp_path / "run")
    assert (code, out) == (2, "")
    assert "the valid part is empty: of its 1 interactions, 1 have a user or an item without training data" in err
