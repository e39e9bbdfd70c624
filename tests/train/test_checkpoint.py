"""Checkpoints are complete or absent, and errors say what is wrong with a damaged one."""

import json
import os
import re

import pytest
import torch

from icpe import DataError, IcpeError
from icpe.files import write_together
from icpe.train import load_checkpoint, save_checkpoint

TENSORS = {"now.table": torch.arange(6.0).reshape(2, 3), "opt.step": torch.tensor(7)}
RECORD = {"step": 7, "best": None}
WHO = {"seed": 0, "backbone": {"name": "mf", "layers": [3, 2]}}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_round_trip(tmp_path):
    save_checkpoint(tmp_path / "new", TENSORS, RECORD, WHO)
    tensors, record, _ = load_checkpoint(tmp_path / "new", WHO)
    assert record == RECORD
    assert tensors.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        assert torch.equal(tensors[name], value)
        assert tensors[name].dtype == value.dtype


def test_a_missing_checkpoint_is_no_error(tmp_path):
    assert load_checkpoint(tmp_path / "nowhere", WHO) is None
    assert load_checkpoint(tmp_path, WHO) is None


def test_one_checkpoint_is_kept(tmp_path):
    for step in (7, 8, 30):
        save_checkpoint(tmp_path, TENSORS, {"step": step}, WHO)
    assert set(contents(tmp_path)) == {"manifest.json", "state.json", "state-30.safetensors"}


def test_views_and_gradients_can_be_saved(tmp_path):
    table = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    save_checkpoint(tmp_path, {"table": table, "turned": table.T}, RECORD, WHO)
    tensors, _, _ = load_checkpoint(tmp_path, WHO)
    assert torch.equal(tensors["turned"], table.detach().T)


@pytest.mark.parametrize("step", [7, 8], ids=["same step", "next step"])
def test_a_failing_write_leaves_the_old_one(tmp_path, monkeypatch, step):
    save_checkpoint(tmp_path, TENSORS, RECORD, WHO)
    fsync, calls = os.fsync, []

    def fail(handle):
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(IcpeError, match="No space left"):
            save_checkpoint(tmp_path, {"now.table": torch.zeros(2)}, {"step": step}, WHO)
    tensors, record, _ = load_checkpoint(tmp_path, WHO)
    assert record == RECORD
    assert torch.equal(tensors["now.table"], TENSORS["now.table"])
    save_checkpoint(tmp_path, TENSORS, {"step": 9}, WHO)
    assert set(contents(tmp_path)) == {"manifest.json", "state.json", "state-9.safetensors"}, "nothing else is left"


def write_state(folder, text):
    (folder / "state.json").write_text(text)


def change_state(folder, **values):
    """Change the state as somebody would who also corrects its checksum."""
    text = json.dumps({**json.loads((folder / "state.json").read_text()), **values})
    write_together(folder, {"state.json": lambda path: path.write_text(text)})


def flip_bit(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def cut_tensors(folder):
    path = folder / "state-7.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: write_state(folder, ""), "state.json is damaged"),
        (lambda folder: write_state(folder, '{"format": 1'), "state.json is damaged"),
        (lambda folder: write_state(folder, "[1]"), "state.json is damaged"),
        (lambda folder: write_state(folder, '{"format": 1}'), "state.json is damaged"),
        (lambda folder: (folder / "state.json").write_bytes(b"\xff\xfe\x00"), "state.json is damaged"),
        (lambda folder: change_state(folder, identity=["seed"]), "state.json is damaged"),
        (lambda folder: change_state(folder, identity=None), "state.json is damaged"),
        (lambda folder: change_state(folder, format=4), "has format 4, this version reads 1 to 3"),
        (lambda folder: change_state(folder, record={"step": 8}), "it names 'state-7.safetensors' for step 8"),
        (lambda folder: change_state(folder, record={"step": -7}), "it names 'state-7.safetensors' for step -7"),
        (lambda folder: change_state(folder, record={"step": "7"}), "it names 'state-7.safetensors' for step '7'"),
        (lambda folder: change_state(folder, tensors="/tmp/state-7.safetensors"), "it names '/tmp/state-7.safetensors'"),
        (lambda folder: change_state(folder, tensors="../state-7.safetensors"), "it names '../state-7.safetensors'"),
        (lambda folder: write_state(folder, "[" * 100_000), "state.json is damaged (it is nested too deeply)"),
        (lambda folder: (folder / "manifest.json").unlink(), "manifest.json is missing"),
        (lambda folder: flip_bit(folder / "state-7.safetensors", -3), "state-7.safetensors is damaged or missing"),
        (lambda folder: flip_bit(folder / "state.json", 1600), "state.json is damaged or was changed"),
        (cut_tensors, "state-7.safetensors is damaged or missing"),
        (lambda folder: (folder / "state-7.safetensors").write_bytes(b"{}"), "is damaged or missing"),
        (lambda folder: (folder / "state-7.safetensors").unlink(), "state-7.safetensors is damaged or missing"),
        (lambda folder: change_state(folder, tensors="state-8.safetensors"), "it names 'state-8.safetensors' for step 7"),
    ],
)  # fmt: skip
def test_damage_is_reported_and_nothing_is_changed(tmp_path, damage, message):
    save_checkpoint(tmp_path, TENSORS, RECORD, WHO)
    damage(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        load_checkpoint(tmp_path, WHO)
    assert re.search("another folder|make it again", str(caught.value))
    assert contents(tmp_path) == before


def test_another_run_is_refused(tmp_path):
    save_checkpoint(tmp_path, TENSORS, RECORD, WHO)
    before = contents(tmp_path)
    with pytest.raises(DataError, match="belongs to another run: its seed is 0, but this run has 1"):
        load_checkpoint(tmp_path, {**WHO, "seed": 1})
    with pytest.raises(DataError, match="its method is not set, but this run has 'normal'"):
        load_checkpoint(tmp_path, {**WHO, "method": "normal"})
    for other, said in (
        (
            {"backbone": {"name": "lightgcn", "layers": 3}},
            "it was trained with backbone 'mf', but this run has 'lightgcn'.",
        ),
        ({"backbone": {"name": "mf", "layers": [3]}}, "its backbone.layers is [3, 2], but this run has [3]."),
        ({"backbone": {**WHO["backbone"], "dim": None}}, "its backbone.dim is not set, but"),
        ({"training data": "5f3a"}, "its training data are others than those of this run."),
        (
            {"seed": 2, "backbone": {"name": "mf", "layers": [], "dim": 4, "odd": 1, "even": 2}},
            "its seed is 0, but this run has 2; its backbone.layers is [3, 2], but this run has []; its backbone.dim is "
            "not set, but this run has 4; further differences: 2.",
        ),
    ):
        with pytest.raises(DataError, match=re.escape(said)):
            load_checkpoint(tmp_path, {**WHO, **other})
    assert contents(tmp_path) == before


def test_no_pickle(tmp_path):
    save_checkpoint(tmp_path, TENSORS, RECORD, WHO)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}
    header = contents(tmp_path)["state-7.safetensors"]
    assert json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")]).keys() == TENSORS.keys()
