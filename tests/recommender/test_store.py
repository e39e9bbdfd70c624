"""Saved models give the same lists after loading, damage is reported, and the folder contains no code."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.torch import load_file, save_file

from icpe import MF, ConfigError, DataError, IcpeError, Interactions, LightGCN, NeuMF, Normal, load
from icpe.backbones import TableSettings, normal_table
from icpe.settings import setting
from icpe.testing import skewed_log

STORED = Path(__file__).parent / "stored"
BACKBONES = {
    "mf": lambda: MF(dim=4),
    "neumf": lambda: NeuMF(dim=4, layers=(8, 4)),
    "lightgcn": lambda: LightGCN(dim=4, layers=2),
}
FILES = {"manifest.json", "model.json", "users.parquet", "items.parquet", "seen.parquet"} | {
    f"{name}.safetensors" for name in ("model", "vectors")
}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folder with a small model. Tests copy it before they change anything."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    Normal(MF(dim=4)).fit(skewed_log(users=20, items=15, pairs=150), epochs=3).save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("loss", ["bce", "softmax"])
@pytest.mark.parametrize("name", BACKBONES)
def test_round_trip(name, loss, tmp_path):
    log = skewed_log(users=20, items=15, pairs=150)
    model = Normal(BACKBONES[name](), loss=loss, negatives=4).fit(log, epochs=3)
    model.save(tmp_path / "deep" / "model")
    again = load(str(tmp_path / "deep" / "model"))
    assert again.recommend(n=10).equals(model.recommend(n=10))
    assert again.recommend(n=10, hide_seen=False).equals(model.recommend(n=10, hide_seen=False))
    assert again.similar_items(log.items[:3]).equals(model.similar_items(log.items[:3]))
    assert again.fold_in(log.items[:3]).equals(model.fold_in(log.items[:3]))
    assert again.method.settings.as_dict() == model.method.settings.as_dict()
    assert again.method.backbone.settings.as_dict() == model.method.backbone.settings.as_dict()
    assert repr(again) == repr(model)
    assert not again.method.training
    again.save(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "deep" / "model")


def test_ids_and_names_come_back(tmp_path):
    frame = pl.DataFrame({"user_id": ["ö", "b", "b", "zz"], "item_id": ["tee", "brot; dunkel", "tee", "käse"]})
    info = pl.DataFrame({"item_id": ["tee", "käse", "brot; dunkel"], "name": ["Tee", "Käse", "Brot"]})
    log = Interactions.read(frame, item_info=info)
    Normal(MF(dim=2)).fit(log, epochs=1).save(tmp_path)
    again = load(tmp_path)
    assert again.log.users.equals(log.users)
    assert again.log.items.equals(log.items)
    assert again.log.item_names(pl.Series(["käse", "tee"])).to_list() == ["Käse", "Tee"]
    assert again.log.content_hash == log.content_hash


def test_a_folder_holds_data_only(saved):
    """Nothing is pickled: all files have formats for numbers and text, as their first bytes show."""
    found = contents(saved)
    assert set(found) == FILES
    for name, content in found.items():
        if name.endswith(".parquet"):
            assert content[:4] == content[-4:] == b"PAR1"
        elif name.endswith(".safetensors"):
            json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        else:
            json.loads(content)


def test_loading_never_unpickles(saved, monkeypatch):
    import pickle

    import torch

    def refuse(*_, **__):
        raise AssertionError("something was unpickled")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    assert len(load(saved).recommend(n=2)) == 40


class Own(MF):
    name = "own"

    class Settings(TableSettings):
        power: float = setting(2.0, "A setting of its own.")

    def build(self, train, rng):
        super().build(train, rng)
        self.extra = normal_table(self.items, 1, 0.1, rng)


def test_a_user_defined_backbone(tmp_path):
    model = Normal(Own(power=3.0)).fit(skewed_log(users=20, items=15, pairs=150), epochs=1)
    model.save(tmp_path)
    with pytest.raises(ConfigError, match="unknown backbone 'own'.*--plugin"):
        load(tmp_path)
    again = load(tmp_path, plugins=[Own])
    assert again.method.backbone.settings.power == 3.0
    assert again.recommend(n=3).equals(model.recommend(n=3))


def change_settings(folder, change):
    path = folder / "model.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def drop_rows(folder):
    pl.read_parquet(folder / "users.parquet").head(5).write_parquet(folder / "users.parquet")


def drop_tensor(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors.popitem()
    save_file(tensors, path)


def rename_column(folder):
    pl.read_parquet(folder / "users.parquet").rename({"user_id": "uid"}).write_parquet(folder / "users.parquet")


def far_codes(folder):
    seen = pl.read_parquet(folder / "seen.parquet")
    seen.with_columns(pl.col("item") + 1000).write_parquet(folder / "seen.parquet")


def other_pairs(folder):
    seen = pl.read_parquet(folder / "seen.parquet")
    seen.head(20).write_parquet(folder / "seen.parquet")


def repeat_user(folder):
    users = pl.read_parquet(folder / "users.parquet")["user_id"]
    users.replace({users[1]: users[0]}).to_frame().write_parquet(folder / "users.parquet")


def name_users(folder):
    pl.DataFrame({"user_id": [f"{code:02}" for code in range(20)]}).write_parquet(folder / "users.parquet")


def halve_precision(folder):
    path = folder / "model.safetensors"
    save_file({name: value.half() for name, value in load_file(path).items()}, path)


DAMAGE = {
    "no settings": (lambda f: (f / "model.json").unlink(), "holds no model"),
    "half the settings": (lambda f: (f / "model.json").write_text('{"format": 1, "back'), "model.json is damaged"),
    "settings of something else": (lambda f: (f / "model.json").write_text("[1, 2]"), "model.json is damaged"),
    "settings without backbone": (lambda f: (f / "model.json").write_text('{"format": 1}'), "model.json is damaged"),
    "earlier format": (lambda f: change_settings(f, lambda c: c.update(format=0)), "reads formats 1 to 2; train the model again"),
    "later format": (lambda f: change_settings(f, lambda c: c.update(format=3)), "has format 3, this version of icpe reads formats 1 to 2; use a newer icpe"),
    "unknown method": (lambda f: change_settings(f, lambda c: c["method"].update(name="later")), "unknown method 'later'"),
    "unknown setting": (lambda f: change_settings(f, lambda c: c["method"]["settings"].update(later=1)), "method 'normal' has no setting 'later'"),
    "other width": (lambda f: change_settings(f, lambda c: c["backbone"]["settings"].update(dim=5)), "model.safetensors does not hold this model"),
    "no parameters": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors does not hold this model"),
    "half the parameters": (lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-9]), "model.safetensors does not hold this model"),
    "a parameter less": (drop_tensor, "model.safetensors does not hold this model"),
    "no users": (lambda f: (f / "users.parquet").unlink(), "the id tables in .* cannot be read"),
    "half the items": (lambda f: (f / "items.parquet").write_bytes((f / "items.parquet").read_bytes()[:-30]), "the id tables in .* cannot be read"),
    "other column": (rename_column, "the id tables in .* cannot be read"),
    "more users": (lambda f: change_settings(f, lambda c: c.update(users=21)), "says 21 users, the tables beside it hold 20"),
    "fewer users": (drop_rows, "cannot be read: seen.parquet has user codes beyond the 5 known"),
    "codes out of range": (far_codes, "seen.parquet has item codes beyond the 15 known"),
    "users twice": (repeat_user, "users.parquet is damaged: an id is missing or appears twice"),
    "ids of another type": (name_users, "users.parquet holds ids of type String, model.json beside it says Int64"),
    "parameters of another type": (halve_precision, r"model.safetensors does not hold this model: .* is \['float16', \d+, 4\], expected \['float32', \d+, 4\]"),
    "other pairs": (other_pairs, "model.json says .* pairs, the tables beside it hold 20: the files belong to different models"),
}  # fmt: skip


@pytest.mark.parametrize("verify", [False, True], ids=["by what contradicts", "by checksums"])
@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_reported(folder, case, verify):
    damage, message = DAMAGE[case]
    damage(folder)
    before = contents(folder)
    with pytest.raises((DataError, ConfigError), match=None if verify else message) as caught:
        load(folder, verify=verify)
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


def test_a_model_without_its_manifest_is_refused(folder):
    (folder / "manifest.json").unlink()
    with pytest.raises(DataError, match="manifest.json is missing, so the files beside it cannot be verified"):
        load(folder)
    assert len(load(folder, verify=False).recommend(n=2)) == 40


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(DataError, match=re.escape(f"{tmp_path} holds no model")):
        load(tmp_path)
    with pytest.raises(DataError, match="holds no model"):
        load(tmp_path / "nowhere")


def test_a_failing_disk_leaves_one_complete_model(saved, tmp_path, monkeypatch):
    """Every flush to the disk fails once. What is loaded afterwards is the old model or the new one."""
    old = load(saved).recommend(n=5)
    model = Normal(MF(dim=3)).fit(skewed_log(users=20, items=15, pairs=150), epochs=1)
    new, fsync, outcomes = model.recommend(n=5), os.fsync, []
    for fail_at in range(1, 30):
        folder, calls = shutil.copytree(saved, tmp_path / f"{fail_at}"), []

        def fail(handle, calls=calls, fail_at=fail_at):
            calls.append(handle)
            if len(calls) == fail_at:
                raise OSError(28, "No space left on device")
            fsync(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            try:
                model.save(folder)
                break
            except IcpeError as error:
                assert "No space left on device" in str(error)
        lists = load(folder).recommend(n=5)
        outcomes.append("old" if lists.equals(old) else "new")
        assert outcomes[-1] == "old" or lists.equals(new)
        assert set(contents(folder)) == FILES
    assert outcomes == ["old"] * 8 + ["new"] * 2, "seven files and the journal; then the names of the new ones"


class Killed(BaseException):
    pass


@pytest.mark.parametrize("after", [False, True], ids=["before the rename", "after the rename"])
def test_a_save_that_is_killed_leaves_one_model(saved, tmp_path, monkeypatch, after):
    """After a kill at any rename, the old model or the new one loads, but never a mixture of both."""
    old = load(saved)
    new = Normal(type(old.method.backbone)(**old.method.backbone.settings.as_dict())).fit(old.log, seed=9, epochs=1)
    assert new.method.settings.as_dict() == old.method.settings.as_dict(), (
        "the models must have equal shapes and differ in their numbers only"
    )
    lists, replace = [model.recommend(n=5) for model in (old, new)], Path.replace
    assert not lists[0].equals(lists[1])
    outcomes = []
    for kill_at in range(1, 20):
        folder = shutil.copytree(saved, tmp_path / f"{kill_at}")
        done = []

        def counted(self, target, done=done, kill_at=kill_at):
            done.append(target)
            if len(done) == kill_at and not after:
                raise Killed
            replace(self, target)
            if len(done) == kill_at:
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", counted)
            try:
                new.save(folder)
                break
            except Killed:
                pass
        outcomes.append([one.equals(load(folder).recommend(n=5)) for one in lists].index(True))
    assert outcomes == [1 if after else 0] + [1] * 7, "the journal, then six files of the model and the manifest"


def test_a_model_stored_by_the_first_version_is_still_read():
    """Golden: the folder was written by the first version, and every later version must read it."""
    model = load(STORED / "model")
    assert repr(model) == "Model(Normal on MF, 12 users, 10 items)"
    expected = pl.read_csv(STORED / "lists.csv")
    lists = model.recommend(n=4)
    assert lists.select("user_id", "item_id", "rank").rows() == expected.select("user_id", "item_id", "rank").rows()
    np.testing.assert_allclose(lists["score"], expected["score"], rtol=1e-4, atol=1e-5)
    assert model.log.item_names(pl.Series(["item 3"])).to_list() == ["Item number 3"]
