"""An export is complete or absent, is not replaced by accident, and shows damage."""

import json

import pytest

from icpe import ConfigError, DataError, IcpeError
from icpe.export import read_export, to_onnx, to_vectors
from icpe.files import MANIFEST


def test_an_export_is_read_back(model, tmp_path):
    done = to_vectors(model, tmp_path / "deep" / "new")
    found = read_export(tmp_path / "deep" / "new")
    assert found.description == done.description
    assert set(found.files) == set(done.files) == {path.name for path in done.folder.iterdir()}


def test_an_export_is_replaced_only_with_force_and_as_a_whole(model, tmp_path):
    to_vectors(model, tmp_path)
    with pytest.raises(ConfigError, match="holds an export already; choose another folder, or pass force=True"):
        to_onnx(model, tmp_path)
    done = to_onnx(model, tmp_path, force=True)
    assert {path.name for path in tmp_path.iterdir()} == set(done.files), "no file of the earlier export is left"
    assert read_export(tmp_path).description["kind"] == "onnx"


@pytest.mark.parametrize("force", [False, True])
def test_files_of_others_are_never_replaced(model, tmp_path, force):
    (tmp_path / "users.parquet").write_text("precious")
    with pytest.raises(ConfigError, match="holds other files than an export"):
        to_vectors(model, tmp_path, force=force)
    assert (tmp_path / "users.parquet").read_text() == "precious"
    with pytest.raises(ConfigError, match="is a file; expected a folder"):
        to_vectors(model, tmp_path / "users.parquet", force=force)


@pytest.mark.parametrize("name", ["users.parquet", "vectors.safetensors", "export.json", MANIFEST])
def test_damage_is_found_and_can_be_repaired(model, tmp_path, name):
    to_vectors(model, tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name}.*damaged"):
        read_export(tmp_path)
    to_vectors(model, tmp_path, force=True)
    read_export(tmp_path)


def test_a_missing_file_or_manifest_is_found(model, tmp_path):
    to_vectors(model, tmp_path)
    (tmp_path / "items.parquet").unlink()
    with pytest.raises(DataError, match=r"items\.parquet cannot be read"):
        read_export(tmp_path)
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(DataError, match=r"manifest\.json is missing"):
        read_export(tmp_path)
    with pytest.raises(DataError, match="holds no export"):
        read_export(tmp_path / "nowhere")


def test_a_failure_leaves_the_earlier_export(model, models, tmp_path, monkeypatch):
    files = set(to_vectors(model, tmp_path).files)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("polars.DataFrame.write_parquet", full)  # the graph is written before the tables
    with pytest.raises(IcpeError, match="cannot write .*: No space left on device"):
        to_onnx(models["normal"], tmp_path, force=True)
    assert read_export(tmp_path).description["method"] == "icpe"
    assert {path.name for path in tmp_path.iterdir()} == files


def test_what_a_killed_process_left_behind_is_no_obstacle(model, tmp_path):
    (tmp_path / ".icpe-tmp-0a1b2c3d").mkdir()
    (tmp_path / ".icpe-tmp-0a1b2c3d" / "users.parquet").write_text("half")
    done = to_vectors(model, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(done.files)


def test_the_description_says_how_to_query(model, models, tmp_path):
    to_vectors(model, tmp_path / "a")
    said = json.loads((tmp_path / "a" / "export.json").read_text())
    assert said["dial"]["coordinate"] == said["width"] - 1
    assert said["dial"]["direction"] == "learned by ICPE"
    assert "write it there" in said["dial"]["rule"]
    assert (said["users"], said["items"], said["metric"]) == (40, 30, "inner product")
    said = to_onnx(models["normal"], tmp_path / "b").description
    assert said["dial"]["direction"] == "log popularity"
    assert set(said["inputs"]) == {"user", "beta", "seen", "n"}
