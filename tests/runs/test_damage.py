"""Damaged runs are refused, a folder has one writer, and a disk that fails leaves what was there."""

import json
import os
import random
import re
import resource
import shutil
import signal
from pathlib import Path

import pytest

from icpe import ConfigError, DataError, IcpeError
from icpe.cli import run as icpe
from icpe.files import write_together
from icpe.runs.config import RunConfig
from icpe.runs.folder import RunFolder
from icpe.runs.record import RunRecord
from icpe.runs.run import Run
from icpe.runs.saved import SavedRun
from icpe.testing import skewed_log
from icpe.train import load_checkpoint

FLIPS = 300


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> RunConfig:
    path = tmp_path_factory.mktemp("data") / "log.csv"
    skewed_log(users=60, items=40, pairs=900).write(path)
    settings = {"epochs": 2, "evaluate_every": 4, "batch_size": 128}
    return RunConfig(data={"source": str(path)}, backbone={"dim": 2}, method={"name": "icpe"}, train=settings)


@pytest.fixture(scope="module")
def finished(config, tmp_path_factory) -> Path:
    """Folder of a finished run. Tests copy it before they change anything."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    Run(config, folder).train()
    return folder


@pytest.fixture
def run(finished, tmp_path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Damage


def read_everything(folder: Path) -> list[object]:
    """All that the commands read from the folder of a run, in a form that can be compared."""
    record = RunRecord.read(folder)
    identity = RunFolder(folder).saved_identity()
    tensors, position, _ = load_checkpoint(folder / "checkpoint", identity)
    lists = record.model.recommend(n=5, hide_seen=False)
    return [
        *(
            record.manifest,
            record.result,
            record.curve,
            record.config,
            record.front.as_frame().to_dict(as_series=False),
        ),
        *(
            lists.to_dict(as_series=False),
            {name: value.tolist() for name, value in tensors.items()},
            position,
            identity,
        ),
    ]


def test_flipped_bits_are_refused_or_harmless(finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "run")
    expected, original, chance = read_everything(run), contents(run), random.Random(0)
    assert {"model.json", "result.json", "metrics.jsonl", "front.parquet", "checkpoint/state.json"} <= original.keys()
    refused, harmless = 0, []
    for _ in range(FLIPS):
        name = chance.choice(sorted(original))  # by file, because most bits are in the tensors
        damaged = bytearray(original[name])
        bit = chance.randrange(8 * len(damaged))
        damaged[bit // 8] ^= 1 << bit % 8
        (run / name).write_bytes(damaged)
        try:
            found = read_everything(run)
        except (DataError, ConfigError) as error:
            assert re.search(r"damaged|cannot be read|checksum|manifest", str(error)), (name, bit, str(error))
            refused += 1
        else:
            assert found == expected, f"bit {bit} of {name} was flipped and changed a result silently"
            harmless.append(name)
        (run / name).write_bytes(original[name])
    # Only blanks between the values of a manifest, whose content has a checksum, can differ without harm.
    assert set(harmless) <= {"manifest.json", "checkpoint/manifest.json"}
    assert refused > 0.9 * FLIPS


@pytest.mark.parametrize("name", ["config.toml", "split.json", "metrics.jsonl", "result.json", "users.parquet"])
def test_commands_name_the_damaged_file_and_exit_with_2(run, name, capsys):
    content = bytearray((run / name).read_bytes())
    content[len(content) // 2] ^= 1
    (run / name).write_bytes(content)
    before = contents(run)
    for command in (["evaluate", str(run)], ["dial", str(run), "--beta", "0.5", "--save"]):
        assert icpe(command) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert f"{name} is damaged or was changed" in printed.err
        assert contents(run) == before


def test_the_impatient_can_skip_the_checksums(run, capsys):
    path = run / "result.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 7'))
    assert icpe(["evaluate", str(run), "--json"]) == 2
    capsys.readouterr()
    assert icpe(["evaluate", str(run), "--json", "--no-verify"]) == 0
    assert json.loads(capsys.readouterr().out)["seed"] == 7


def test_a_model_of_other_data_is_refused(run):
    path = run / "model.json"
    changed = {**json.loads(path.read_text()), "train_hash": "0" * 64}
    write_together(run, {"model.json": lambda new: new.write_text(json.dumps(changed))})
    with pytest.raises(DataError, match="was trained on other data than .*split.json describes"):
        SavedRun.open(run)


@pytest.mark.parametrize(
    ("record", "message"),
    [({"step": 10**6}, "only 8 steps"), ({"step": 8, "best": "high"}, "does not hold this run's state")],
)
def test_a_contradictory_checkpoint_is_refused(config, run, record, message):
    """The checksums are right here, as if somebody had edited the state and written the manifest again."""
    folder = run / "checkpoint"
    state = json.loads((folder / "state.json").read_text())
    tensors = (folder / state["tensors"]).read_bytes()
    name = f"state-{record['step']}.safetensors"
    changed = {**state, "tensors": name, "record": {**state["record"], **record}}
    writers = {
        "state.json": lambda path: path.write_text(json.dumps(changed)),
        name: lambda path: path.write_bytes(tensors),
    }
    write_together(folder, writers)
    with pytest.raises(DataError, match=message):
        Run(config, run).train(resume=True)


def test_a_changed_curve_is_refused(config, run):
    path = run / "metrics.jsonl"
    path.write_text(path.read_text().replace('"step": 4', '"step": 3'))
    with pytest.raises(DataError, match="metrics.jsonl is damaged or was changed since the checkpoint"):
        Run(config, run).train(resume=True)


def test_a_damaged_run_can_be_replaced(config, run, finished):
    (run / "manifest.json").write_text("{}")
    (run / ".icpe-journal.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be finished"):
        RunRecord.read(run)
    Run(config, run).train(force=True)
    assert contents(run) == contents(finished)


# One writer


def test_two_processes_cannot_train_in_one_folder(config, tmp_path, finished):
    folder, refused = tmp_path / "run", []

    def second(position, steps):
        if position.step == 6:
            with pytest.raises(ConfigError, match="another process is working in .*; wait until it ends"):
                Run(config, folder).train(resume=True)
            refused.append(position.step)

    Run(config, folder, on_step=second).train()
    assert refused == [6]
    assert contents(folder) == contents(finished)


def test_the_dial_cannot_be_saved_while_the_run_is_trained(config, run, capsys):
    codes = []

    def turn(position, steps):
        codes.append(icpe(["dial", str(run), "--beta", "0.5", "--save"]))

    Run(config, run, on_step=turn).train(force=True)
    assert set(codes) == {2}
    assert "another process is working in" in capsys.readouterr().err


# Disks that fail


def test_a_folder_that_disappears(config, tmp_path):
    folder = tmp_path / "run"

    def remove(position, steps):
        if position.step == 6:
            shutil.rmtree(folder)

    with pytest.raises(IcpeError, match="config.toml has disappeared while the run was training"):
        Run(config, folder, on_step=remove).train()
    assert not folder.exists(), "no new folder takes its place"


@pytest.fixture(scope="module")
def large_log(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("large") / "log.csv"
    skewed_log(users=1500, items=400, pairs=9000).write(path)
    return path


@pytest.fixture
def small_disk():
    """Call it to keep files from becoming larger than 20,000 bytes, as if the disk were full."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_gives_one_line_and_keeps_what_was_there(large_log, tmp_path, small_disk, capsys):
    run, parts, world, lists = (str(tmp_path / name) for name in ("run", "parts", "world", "lists.csv"))
    commands = [
        ["train", str(large_log), "--train.epochs", "1", "-o", run, "--force"],
        ["split", str(large_log), "-o", parts, "--force"],
        ["recommend", run, "--all", "-o", lists],
        ["data", "make", "--users", "900", "--items", "400", "--interactions", "20000", "-o", world, "--force"],
    ]
    for command in commands:
        assert icpe(command) == 0
    before = contents(tmp_path)
    capsys.readouterr()
    small_disk()
    for command in [commands[2], commands[0], *commands[1::2]]:  # recommend first, while the run is there
        assert icpe(command) == 1, command
        printed = capsys.readouterr().err
        assert re.fullmatch(r"error: cannot write [^\n]*: File too large; [^\n]*unchanged[^\n]*\n", printed), printed
    after = contents(tmp_path)
    kept = {name for name in before if not name.startswith("run/")}  # --force has removed the old run on purpose
    assert {name: after.get(name) for name in kept} == {name: before[name] for name in kept}
    assert not list(tmp_path.rglob(".*")), "nothing half-written is left"


@pytest.mark.skipif(not Path("/sys/kernel").is_dir() or os.access("/sys/kernel/icpe", os.F_OK), reason="needs sysfs")
def test_a_read_only_folder_gives_one_line(large_log, capsys):
    """Nobody, not even root, can create files in sysfs."""
    for command in (["train", str(large_log)], ["split", str(large_log)], ["data", "make"]):
        assert icpe([*command, "-o", "/sys/kernel/icpe"]) == 1
        printed = capsys.readouterr().err
        assert re.fullmatch(r"error: [^\n]*cannot (write|be written)[^\n]*\n", printed), printed
