import dataclasses
import re
import subprocess
import sys

import pytest

from icpe.data.datasets import CATALOGUE, Dataset, find_dataset
from icpe.errors import ConfigError

CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}")
COLUMNS = {"user_id", "item_id", "timestamp", "weight"}

every_dataset = pytest.mark.parametrize("dataset", CATALOGUE.values(), ids=list(CATALOGUE))
read_from_files = pytest.mark.parametrize(
    "dataset",
    [one for one in CATALOGUE.values() if one.files],
    ids=[one.name for one in CATALOGUE.values() if one.files],
)


def test_names() -> None:
    assert set(CATALOGUE) == {"lastfm", "gowalla", "yelp2018", "amazon-grocery", "yelp2019", "foursquare-nyc", "demo"}
    assert all(name == dataset.name for name, dataset in CATALOGUE.items())


def test_k_cores_are_those_of_the_paper() -> None:
    k_cores = {name: dataset.k_core for name, dataset in CATALOGUE.items() if dataset.k_core is not None}
    assert k_cores == {"lastfm": 10, "gowalla": 20, "yelp2018": 20}


@every_dataset
def test_every_entry_says_what_it_is(dataset: Dataset) -> None:
    texts = (dataset.title, dataset.source, dataset.terms, dataset.citation, dataset.by_hand, dataset.note)
    assert all(text and text == " ".join(text.split()) for text in texts)  # one line each, without stray blanks


@every_dataset
def test_entries_cannot_be_changed(dataset: Dataset) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        dataset.name = "other"  # type: ignore[misc]


@read_from_files
def test_files_are_plain_names_and_the_source_is_a_page(dataset: Dataset) -> None:
    for file in (*dataset.files, *filter(None, [dataset.item_file])):
        assert re.fullmatch(r"[\w-][\w.-]*\.\w+", file)
    assert len(set(dataset.files)) == len(dataset.files)
    assert dataset.source.startswith("https://")


@read_from_files
def test_columns_are_ours(dataset: Dataset) -> None:
    assert set(dataset.columns) <= COLUMNS
    assert "columns" not in dataset.read_options


@read_from_files
def test_downloads_cover_all_files(dataset: Dataset) -> None:
    plain = {remote.url.rpartition("/")[2] for remote in dataset.remote if not remote.archive}
    if dataset.remote and not any(remote.archive for remote in dataset.remote):
        assert plain == set(dataset.files)
    else:
        assert not plain


@read_from_files
def test_urls_are_secure_and_checksums_well_formed(dataset: Dataset) -> None:
    for remote in dataset.remote:
        assert re.fullmatch(r"https://[^\s?#]+", remote.url)
        assert remote.url.endswith(".zip") == remote.archive
        assert remote.checksum is not None
        assert CHECKSUM.fullmatch(remote.checksum)
    assert all(CHECKSUM.fullmatch(value) for value in dataset.known.values())
    assert set(dataset.known) <= set(dataset.files)


@read_from_files
def test_a_download_comes_from_a_commit_or_from_the_publisher(dataset: Dataset) -> None:
    for remote in dataset.remote:
        pinned = re.search(r"/[0-9a-f]{40}/", remote.url)
        assert pinned or remote.url.startswith("https://files.grouplens.org/")


@pytest.mark.parametrize("name", ["yelp2018", "yelp2019"])
def test_yelp_is_not_downloaded_because_its_terms_forbid_passing_it_on(name: str) -> None:
    dataset = CATALOGUE[name]
    assert dataset.remote == ()
    assert "https://www.yelp.com/dataset" in dataset.by_hand
    assert "academic" in dataset.terms


def test_demo_needs_no_files() -> None:
    demo = CATALOGUE["demo"]
    assert (demo.files, demo.remote, demo.item_file) == ((), (), None)


@every_dataset
def test_find_by_name(dataset: Dataset) -> None:
    assert find_dataset(dataset.name) is dataset


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("gowala", "gowalla"), ("Last.FM", "lastfm"), ("foursquare", "foursquare-nyc"), ("grocery", "amazon-grocery")],
)
def test_unknown_name_suggests_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"unknown data set {name!r}; did you mean {nearest!r}?")):
        find_dataset(name)


@pytest.mark.parametrize("name", ["", "movies of the week"])
def test_unknown_name_lists_all(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_dataset(name)
    message = str(caught.value)
    assert "did you mean" not in message
    assert all(known in message for known in CATALOGUE)


def test_listing_loads_nothing_heavy() -> None:
    code = (
        "import sys, importlib.util as u; "
        "spec = u.spec_from_file_location('catalogue', sys.argv[1]); "
        "module = u.module_from_spec(spec); sys.modules['catalogue'] = module; spec.loader.exec_module(module); "
        "print(sorted({'numpy', 'polars', 'torch', 'pooch', 'requests', 'rich'} & set(sys.modules)))"
    )
    path = sys.modules[Dataset.__module__].__file__
    assert path is not None
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
