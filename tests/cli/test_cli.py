"""The real program, run as people run it."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from icpe import __version__
from icpe.cli import cli

ODD_LOG = """uid;sku;when;stars
0042;käse-1;2024-03-01T10:00:00Z;5
0042;käse-1;2024-02-01T10:00:00Z;4
0042;tee;2024-03-02T10:00:00Z;2
7;tee;2024-03-03;5
7;"brot; dunkel";2024-03-04 12:30:00;3
anna;tee;2024-03-05;4

anna;käse-1;2024-03-06;1
"""
COLUMNS = [
    "--column",
    "user_id=uid",
    "--column",
    "item_id=sku",
    "--column",
    "timestamp=when",
    "--column",
    "weight=stars",
]


@pytest.fixture(autouse=True)
def no_data_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("ICPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ICPE_DATA", raising=False)


def all_commands(group, path=()):
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from all_commands(command, (*path, name))


@pytest.mark.parametrize("path", list(all_commands(cli)), ids=" ".join)
def test_every_help_page_opens_and_shows_an_example(icpe, path):
    code, out, _ = icpe(*path, "--help")
    assert code == 0
    assert "Usage: icpe" in out
    if path and path != ("data",):
        assert "Example: icpe " + " ".join(path) in " ".join(out.split())


def test_help_is_quick():
    """Half a second is promised; the processor's time, for the machine may be busy with something else."""
    program = Path(sys.executable).with_name("icpe")
    times = []
    for _ in range(3):
        before = os.times()
        subprocess.run([program, "--help"], check=True, capture_output=True)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert 0 < min(times) < 0.5


def test_version(icpe):
    assert icpe("--version")[:2] == (0, f"icpe, version {__version__}\n")
    module = subprocess.run([sys.executable, "-m", "icpe", "--version"], check=True, capture_output=True, text=True)
    assert module.stdout == f"icpe, version {__version__}\n"


def test_describe_an_odd_log(icpe, tmp_path):
    Path("odd.csv").write_text(ODD_LOG, encoding="utf-8")
    code, out, err = icpe("data", "describe", "odd.csv", *COLUMNS, "--json")
    assert (code, err) == (0, "")
    figures = json.loads(out)
    assert {name: figures[name] for name in ("users", "items", "interactions", "duplicates", "rows_read")} == {
        "users": 3,
        "items": 3,
        "interactions": 6,
        "duplicates": 1,
        "rows_read": 7,
    }
    assert figures["first"] == "2024-02-01T10:00:00Z"
    code, out, _ = icpe("data", "describe", "odd.csv", *COLUMNS, "--min-weight", "3")
    assert code == 0
    assert "2 rows below min_weight dropped" in out
    assert "█" in out


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_describe_draws(icpe, skewed, suffix):
    skewed.write("log.csv")
    code, out, _ = icpe("data", "describe", "log.csv", "-o", f"plots/tail{suffix}")
    assert code == 0
    assert f"drawn in plots/tail{suffix}" in out
    content = Path(f"plots/tail{suffix}").read_bytes()
    assert len(content) > 5000
    assert content.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix])
    assert [path.name for path in Path("plots").iterdir()] == [f"tail{suffix}"]


BROKEN = {
    "missing file": (["data", "describe", "nowhere.csv"], "nowhere.csv does not exist"),
    "unknown name": (["data", "describe", "lastfn"], "neither a file or folder nor a known data set.*did you mean 'lastfm'"),
    "broken file": (["data", "describe", "broken.csv"], "broken.csv, row 3: 'item_id' is missing"),
    "missing column": (["data", "describe", "odd.csv"], "--column user_id=uid"),
    "k-core": (["data", "describe", "log.csv", "--k-core", "900"], "the largest k that leaves something is"),
    "k-core of zero": (["data", "describe", "log.csv", "--k-core", "0"], "0 is not in the range x>=1"),
    "bad mapping": (["data", "describe", "log.csv", "--column", "user_id"], "should look like user_id=uid"),
    "bad picture": (["data", "describe", "log.csv", "-o", "tail.gif"], "should end in .png, .svg, .pdf"),
    "no times": (["split", "untimed.csv", "--split", "chronological"], "has no timestamps"),
    "wrong shares": (["split", "log.csv", "--split.train", "0.95"], "--split.train is 0.95 and --split.valid is 0.1; expected shares that leave something for test"),
    "mode of another split": (["split", "log.csv", "--split", "random", "--split.mode", "ips"], "--split random does not take --split.mode"),
    "unknown option": (["split", "log.csv", "--sed", "1"], "no such option.*--sed.*--seed.*Try 'icpe split --help'"),
    "unknown verb": (["splt"], "no such command 'splt'.*Try 'icpe --help'"),
    "login needed": (["data", "fetch", "yelp2018"], "yelp.com/dataset"),
    "nothing to fetch": (["data", "fetch", "demo"], "nothing needs fetching"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_mistakes_give_one_clear_line_and_exit_2(icpe, skewed, case):
    Path("broken.csv").write_text("user_id,item_id\n1,2\n3,\n")
    Path("odd.csv").write_text(ODD_LOG, encoding="utf-8")
    skewed.write("log.csv")
    skewed.to_frame().drop("timestamp").write_csv("untimed.csv")
    before = sorted(Path().rglob("*"))
    arguments, message = BROKEN[case]
    code, out, err = icpe(*arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert err.startswith("error: ")
    assert err.count("rror: ") == 1
    assert re.search(message, err, re.DOTALL), err
    assert sorted(Path().rglob("*")) == before


def test_the_error_itself_is_one_line(icpe):
    Path("broken.csv").write_bytes(b"user_id,item_id\n\xe4,1\n")
    code, _, err = icpe("data", "describe", "broken.csv")
    assert code == 2
    assert len(err.splitlines()) == 1


def test_split_and_read_back(icpe, skewed):
    skewed.write("log.csv")
    code, out, _ = icpe(
        "split", "log.csv", "--k-core", "5", "--split.mode", "ips", "--seed", "4", "-o", "parts", "--json"
    )
    assert code == 0
    manifest = json.loads(out)
    assert (manifest["mode"], manifest["seed"]) == ("ips", 4)
    assert json.loads(Path("parts/split.json").read_text()) == manifest
    assert pl.read_parquet("parts/test.parquet").columns == ["user_id", "item_id", "timestamp"]
    bytes_before = {path.name: path.read_bytes() for path in Path("parts").iterdir()}
    assert icpe("split", "log.csv", "-o", "parts")[0] == 2, "an existing split is not overwritten"
    assert {path.name: path.read_bytes() for path in Path("parts").iterdir()} == bytes_before
    code, _, _ = icpe(
        "split", "log.csv", "--k-core", "5", "--split.mode", "ips", "--seed", "4", "-o", "parts", "--force"
    )
    assert {path.name: path.read_bytes() for path in Path("parts").iterdir()} == bytes_before
    for kind in ("random", "chronological"):
        assert icpe("split", "log.csv", "--split", kind)[0] == 0


def test_make_a_world_and_use_it(icpe):
    size = ["--users", "200", "--items", "100", "--interactions", "3000"]
    assert icpe("data", "make", *size, "-o", "world")[0] == 0
    assert icpe("data", "make", *size, "-o", "world")[0] == 2, "an existing world is not overwritten"
    code, out, _ = icpe("data", "describe", "world/log.parquet", "--items", "world/items.parquet", "--json")
    assert code == 0
    assert json.loads(out)["interactions"] == 3000


def test_catalogue(icpe):
    code, out, _ = icpe("data", "list")
    assert code == 0
    for name in ("lastfm", "gowalla", "yelp2018", "amazon-grocery", "yelp2019", "foursquare-nyc", "demo"):
        assert name in out
    listed = json.loads(icpe("data", "list", "--json")[1])
    assert listed["lastfm"]["k_core"] == 10


def test_doctor(icpe):
    code, out, _ = icpe("doctor", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["versions"]["icpe"] == __version__
    assert found["versions"]["torch"]
    assert found["devices"]["cpu"]
    assert found["threads"]["usable"] >= 1
    assert found["places"]["cache"].endswith("cache")
    assert set(found["extras"]) == {"cluster", "plot", "tune", "faiss", "onnx", "serve"}
    assert "devices" in icpe("doctor")[1]


def test_doctor_reports_a_missing_extra(icpe, monkeypatch):
    installed = metadata.version

    def without_optuna(package):
        if package == "optuna":
            raise metadata.PackageNotFoundError(package)
        return installed(package)

    monkeypatch.setattr(metadata, "version", without_optuna)
    extras = json.loads(icpe("doctor", "--json")[1])["extras"]
    assert extras["tune"] is None
    assert extras["plot"]
    (line,) = (line for line in icpe("doctor")[1].splitlines() if line.split()[0] == "tune")
    assert "missing" in line
    assert "pip install 'icpe[tune]'" in line


@pytest.mark.realdata
def test_paper_core_is_the_default_for_its_data(icpe, real_data):
    code, out, _ = icpe("data", "describe", "lastfm", "--data-dir", str(real_data), "--json")
    figures = json.loads(out)
    assert (figures["users"], figures["items"], figures["interactions"]) == (1797, 1507, 62376)
    code, out, _ = icpe("data", "describe", str(real_data / "lastfm" / "user_artists.dat"), "--k-core", "10", "--json")
    assert code == 0
    assert (json.loads(out)["users"], json.loads(out)["interactions"]) == (1797, 62376)
    code, out, _ = icpe("data", "describe", "lastfm", "--data-dir", str(real_data), "--k-core", "1", "--json")
    assert json.loads(out)["users"] == 1892


def test_ctrl_c_exits_130(tmp_path):
    """A real process, interrupted while it reads."""
    pipe = tmp_path / "slow"
    rows = np.arange(400_000)
    pl.DataFrame({"user_id": rows % 50_021, "item_id": rows % 997}).write_csv(pipe)
    program = Path(sys.executable).with_name("icpe")
    code = (
        "import sys, time, icpe.cli, icpe.data\n"
        "def wait(*a, **k): print('ready', flush=True); time.sleep(60)\n"
        "icpe.data.open_log = wait\n"
        "sys.argv[0] = 'icpe'\n"
        "icpe.cli.main()\n"
    )
    assert program.exists()
    process = subprocess.Popen(
        [sys.executable, "-c", code, "data", "describe", str(pipe)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip() == "interrupted"


def test_a_reader_that_leaves_is_no_error(tmp_path, skewed):
    skewed.write(tmp_path / "log.csv")
    program = Path(sys.executable).with_name("icpe")
    done = subprocess.run(
        ["/bin/sh", "-c", f"{program} data describe {tmp_path / 'log.csv'} | true"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
