"""Presets of data sets are found, overridden, refused and written to files."""

from pathlib import Path

import pytest

from icpe.errors import ConfigError
from icpe.runs import presets
from icpe.runs.config import RunConfig
from icpe.runs.presets import find_preset, read_presets, update_presets

CELL = {
    "valid_ndcg": 0.25,
    "seeds": [100, 101],
    "backbone": {"dim": 7},
    "method": {"negatives": 3, "reg": 0.5},
    "train": {"lr": 0.25, "patience": 2},
}


@pytest.fixture
def shipped(tmp_path, monkeypatch) -> Path:
    """Replace the shipped presets by those of one data set."""
    update_presets(tmp_path / "presets" / "songs.toml", {"normal": {"mf": CELL}, "icpe": {"neumf": {"method": {}}}})
    monkeypatch.setattr(presets, "files", lambda package: tmp_path)
    return tmp_path


def effective(config: RunConfig) -> tuple[int, int, float, float, int]:
    method = config.make_method()
    train = config.train_settings(method)
    backbone = method.backbone.settings.as_dict()
    return (
        backbone["dim"],
        method.settings.as_dict()["negatives"],
        method.settings.as_dict()["reg"],
        train.lr,
        train.patience,
    )


def test_a_data_set_has_settings_of_three_sections(shipped):
    assert effective(RunConfig(method={"preset": "songs"})) == (7, 3, 0.5, 0.25, 2)


def test_given_settings_override_the_preset(shipped):
    said = RunConfig(backbone={"dim": 9}, method={"preset": "songs", "reg": 0.0}, train={"lr": 0.125, "seed": 4})
    assert effective(said) == (9, 3, 0.0, 0.125, 2)
    assert said.expanded().method == {"negatives": 3, "reg": 0.0}


def test_the_preset_overrides_the_defaults_of_the_method(shipped):
    update_presets(shipped / "presets" / "songs.toml", {"icpe": {"mf": {"train": {"patience": 3}}}})
    config = RunConfig(method={"name": "icpe", "preset": "songs"})
    train = config.train_settings(config.make_method())
    assert (train.lr, train.patience) == (4e-3, 3)


def test_a_file_of_the_user(tmp_path):
    update_presets(tmp_path / "mine.toml", {"normal": {"mf": CELL}})
    assert effective(RunConfig(method={"preset": str(tmp_path / "mine.toml")})) == (7, 3, 0.5, 0.25, 2)


def test_a_file_of_an_earlier_version(tmp_path):
    """Settings that version 0.1 called otherwise keep their meaning."""
    (tmp_path / "old.toml").write_text("[penalty.mf.method]\nc = 0.25\n", encoding="utf-8")
    assert presets.find_preset(str(tmp_path / "old.toml"), "penalty", "mf")["method"] == {"strength": 0.25}


def test_presets_of_the_method_come_first(shipped):
    update_presets(shipped / "presets" / "paper.toml", {"icpe": {"mf": {"method": {"loss": "softmax"}}}})
    assert find_preset("paper", "icpe", "mf")["method"]["loss"] == "bce"


@pytest.mark.parametrize(
    ("name", "method", "backbone", "message"),
    [
        (
            "papers",
            "icpe",
            "mf",
            "method 'icpe' has no preset 'papers'. Its own presets are default, version-0.1, paper; .* are songs",
        ),
        ("song", "normal", "mf", "method 'normal' has no preset 'song'. It has no presets of its own; .* are songs"),
        ("songs", "normal", "neumf", "'songs' has no settings for normal on neumf; it has icpe on neumf, normal on mf"),
        ("songs", "norml", "mf", "unknown method 'norml'; did you mean 'normal'"),
        ("none.toml", "normal", "mf", "none.toml does not exist. Check the path"),
        (3, "normal", "mf", "has no preset '3'"),
    ],
)
def test_errors_for_wrong_names_list_the_known_ones(shipped, name, method, backbone, message):
    with pytest.raises(ConfigError, match=message):
        RunConfig(method={"name": method, "preset": name}, backbone={"name": backbone}).make_method()


def test_a_wrong_setting_in_a_preset_is_reported(tmp_path):
    update_presets(tmp_path / "mine.toml", {"normal": {"mf": {"train": {"rate": 1}}}})
    config = RunConfig(method={"preset": str(tmp_path / "mine.toml")})
    with pytest.raises(ConfigError, match="has no setting 'rate'"):
        config.train_settings(config.make_method())


def test_shipped_files_are_read_and_make_methods():
    """All cells of the shipped presets name settings that exist."""
    for name in presets.shipped_presets():
        for method, cells in read_presets(presets.shipped_presets()[name]).items():
            for backbone, cell in cells.items():
                config = RunConfig(method={"name": method, "preset": name}, backbone={"name": backbone})
                config.train_settings(config.make_method())
                scores = [value for key, value in cell.items() if key.startswith("valid_")]
                assert len(scores) == 1  # that of the criterion
                assert 0 < scores[0] < 1
                assert cell["trials"] >= 1


def test_the_package_ships_lastfm():
    assert "lastfm" in presets.shipped_presets()


def test_an_update_keeps_other_cells_and_drops_none(tmp_path):
    path = tmp_path / "new" / "presets.toml"
    update_presets(path, {"normal": {"mf": CELL}})
    update_presets(path, {"normal": {"neumf": {"method": {"negatives": None, "reg": 0.0}}}, "icpe": {"mf": {}}})
    update_presets(path, {"normal": {"mf": {"valid_ndcg": 0.5}}})
    assert read_presets(path) == {
        "icpe": {"mf": {}},
        "normal": {"mf": {"valid_ndcg": 0.5}, "neumf": {"method": {"reg": 0.0}}},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data", "cannot be read as a file of presets"),
        ("lr = 3", r"\[lr\] should be a table"),
        ("[normal]\nmf = 3", r"\[normal.mf\] should be a table"),
        ("[normal.mf]\ntrain = 3", r"\[normal.mf\] should be a table"),
    ],
)
def test_files_of_another_kind_are_refused_and_kept(tmp_path, text, message):
    path = tmp_path / "other.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        update_presets(path, {"normal": {"mf": CELL}})
    assert path.read_text() == text
