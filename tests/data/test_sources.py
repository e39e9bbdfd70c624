"""A path or a data-set name means the same data in Python, in a run configuration and on the command line."""

import json
from pathlib import Path

import polars as pl
import pytest

from icpe import DataError, Interactions, make_world, open_log
from icpe.data.datasets import CATALOGUE, Dataset
from icpe.errors import ConfigError
from icpe.runs.config import RunConfig
from icpe.testing import skewed_log

K = 12


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set ``toy`` in the catalogue, whose k-core is smaller than its log. Returns the folder to search."""
    folder = tmp_path / "data" / "toy"
    folder.mkdir(parents=True)
    skewed_log().to_frame().rename({"user_id": "who", "item_id": "what"}).write_csv(folder / "log.csv")
    entry = Dataset(
        name="toy",
        title="Toy",
        source="https://example.org",
        terms="none",
        citation="none",
        k_core=K,
        files=("log.csv",),
        remote=(),
        by_hand="Ask a friend.",
        columns={"user_id": "who", "item_id": "what"},
        read_options={},
        item_file=None,
    )
    monkeypatch.setitem(CATALOGUE, "toy", entry)
    return folder.parent


def test_a_name_means_the_core_of_the_catalogue_everywhere(toy, icpe):
    complete, core = skewed_log(), skewed_log().k_core(K)
    assert 2 < len(core) < len(complete)
    log = open_log("toy", toy)
    assert log.content_hash == core.content_hash
    assert (log.reading.source, log.reading.k_core) == ("toy", K)
    code, out, _ = icpe("data", "describe", "toy", "--data-dir", toy, "--json")
    assert code == 0
    assert (json.loads(out)["content_hash"], json.loads(out)["k_core"]) == (core.content_hash, K)
    parts = RunConfig(data={"source": "toy", "data_dir": str(toy)}).open_parts()
    assert parts.manifest["hashes"]["log"] == core.content_hash


@pytest.mark.parametrize("k", [1, 5])
def test_another_core_is_taken_if_asked_for(toy, icpe, k):
    expected = skewed_log().k_core(k).content_hash
    assert open_log("toy", toy, k_core=k).content_hash == expected
    _, out, _ = icpe("data", "describe", "toy", "--data-dir", toy, "--k-core", k, "--json")
    assert json.loads(out)["content_hash"] == expected
    parts = RunConfig(data={"source": "toy", "data_dir": str(toy), "k_core": k}).open_parts()
    assert parts.manifest["hashes"]["log"] == expected


def test_a_path_is_complete_unless_a_core_is_asked_for(toy):
    file = toy / "toy" / "log.csv"
    columns = CATALOGUE["toy"].columns
    assert open_log(file, columns=columns).content_hash == skewed_log().content_hash
    assert open_log(file, columns=columns, k_core=K).content_hash == skewed_log().k_core(K).content_hash


def test_options_take_precedence_over_the_catalogue(toy):
    swapped = open_log("toy", toy, columns={"user_id": "what", "item_id": "who"}, k_core=1)
    assert len(swapped.users) == len(skewed_log().items)


def test_names_and_paths_that_do_not_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="'lastfn' is neither a file or folder nor a known data set.*'lastfm'"):
        open_log("lastfn")
    for path in ("nowhere.csv", "./lastfm", "./lastfn", tmp_path / "nowhere"):
        with pytest.raises(DataError, match="does not exist"):
            open_log(path)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """The folder of a generated world."""
    make_world(users=60, items=30, interactions=500, seed=3).save(tmp_path / "world")
    return tmp_path / "world"


def test_the_folder_of_a_world_is_read_as_its_log_with_names(world):
    expected = make_world(users=60, items=30, interactions=500, seed=3).log
    log = open_log(world)
    assert log.content_hash == expected.content_hash
    assert log.item_names().to_list() == expected.item_names().to_list()
    parts = RunConfig(data={"source": str(world)}).open_parts()
    assert parts.manifest["hashes"]["log"] == expected.content_hash
    assert parts.train.item_names().to_list() == expected.item_names().to_list()


def test_commands_take_the_folder_of_a_world(world, icpe):
    assert icpe("data", "describe", world)[0] == 0
    assert icpe("split", world, "--split", "random", "-o", "parts")[0] == 0
    assert "name" in pl.read_parquet("parts/items.parquet").columns
    assert icpe("train", world, "--train.epochs", "1", "-o", "run")[0] == 0
    code, out, _ = icpe("recommend", "run", "--user", "u0003", "-n", "30")
    assert code == 0
    assert any(name in out for name in open_log(world).item_names())


def test_other_names_for_the_items_of_a_world(world, icpe):
    Path("titles.csv").write_text("sku,title\ni0000,Tea\ni0001,Jam\n")
    mapping = ["--item-column", "item_id=sku", "--item-column", "name=title"]
    assert icpe("split", world, "--items", "titles.csv", *mapping, "-o", "parts")[0] == 0
    assert pl.read_parquet("parts/items.parquet")["name"][:3].to_list() == ["Tea", "Jam", None]
    code, _, err = icpe("split", world, "--items", "titles.csv", "--item-column", "item_id=skuu", "-o", "more")
    assert code == 2
    assert "--item-column item_id=sku" in err
    code, _, err = icpe("split", world / "log.parquet", *mapping)
    assert code == 2
    assert "--items" in err
    assert icpe("train", world, "--items", "titles.csv", *mapping, "--train.epochs", "1", "-o", "run")[0] == 0
    assert RunConfig.read(Path("run/config.toml")).data["item_columns"] == {"item_id": "sku", "name": "title"}


def test_a_folder_that_is_not_a_world_is_read_as_one_log(tmp_path):
    log = skewed_log()
    for number, part in enumerate(log.to_frame().iter_slices(500)):
        part.write_parquet(tmp_path / f"{number}.parquet")
    assert open_log(tmp_path).content_hash == log.content_hash


def test_a_wrong_core_is_refused(toy):
    with pytest.raises(ConfigError, match="k of the k-core is 0"):
        open_log("toy", toy, k_core=0)
    with pytest.raises(DataError, match="the 500-core of toy leaves nothing; the largest k"):
        open_log("toy", toy, k_core=500)
    assert isinstance(open_log("toy", toy, k_core=1), Interactions)
