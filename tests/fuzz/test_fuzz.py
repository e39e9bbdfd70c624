"""Damaged files of every kind are read or refused with an explanation: never a traceback, a hang or a memory hog.

``make fuzz`` runs the same attempts with new seeds.
"""

import pytest

from fuzz.harness import FuzzError, attempt, attempt_program
from fuzz.targets import make_targets
from icpe.data.readers import weights

TARGETS = [
    "csv", "tsv", "gzip", "zstd", "parquet", "inter", "lists", "hetrec", "npy", "items", "recs", "config", "cells", "presets", "world", "split", "manifest",
]  # fmt: skip
SEEDS = range(48)  # × 17 targets = 816 damaged files


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return make_targets(tmp_path_factory.mktemp("good"))


def test_every_target_is_fuzzed_and_good_to_begin_with(targets, tmp_path):
    assert list(targets) == TARGETS
    for name, target in targets.items():
        (folder := tmp_path / name).mkdir()
        for file, content in target.files.items():
            (folder / file).write_bytes(content)
        for file in target.damaged:
            target.read(folder, file)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files(targets, name, tmp_path):
    outcomes = [attempt(name, targets[name], seed, tmp_path / "damaged") for seed in SEEDS]
    assert outcomes.count("refused") >= 5  # otherwise the damage is too gentle to test anything


@pytest.mark.parametrize(
    ("name", "seed"),
    [("csv", 100), ("gzip", 101), ("zstd", 102), ("parquet", 103), ("lists", 104), ("recs", 105), ("config", 106), ("world", 107)],
)  # fmt: skip
def test_damaged_files_on_the_command_line(targets, name, seed, tmp_path):
    assert attempt_program(name, targets[name], seed, tmp_path / "damaged") in ("read", "refused")


def test_the_fuzzer_can_fail(targets, tmp_path, monkeypatch):
    def careless(values):
        return values.cast(float)  # raises polars' own error for text that is not a number

    monkeypatch.setattr(weights, "text_to_numbers", careless)
    with pytest.raises(FuzzError, match=r"csv, seed \d+: InvalidOperationError"):
        [attempt("csv", targets["csv"], seed, tmp_path / "damaged") for seed in SEEDS]
