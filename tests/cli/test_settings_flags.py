"""Dotted flags on help pages, in the shell's completion and in errors; ranking settings of a trained model."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from icpe.cli import cli, run
from icpe.testing import skewed_log

PENALTY = "--method.strength"
QUICK = ["--train.epochs", "2", "--backbone.dim", "4"]


def complete(*words: object) -> list[str]:
    """What the shell offers for the last word."""
    *before, last = [str(word) for word in words]
    return [found.value for found in BashComplete(cli, {}, "icpe", "_ICPE_COMPLETE").get_completions(before, last)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A folder with the short runs ``icpe``, ``penalty`` and ``popularity``."""
    folder = tmp_path_factory.mktemp("runs")
    skewed_log().write(folder / "log.csv")
    for method in ("icpe", "penalty", "popularity"):
        assert run(["train", str(folder / "log.csv"), "--method", method, *QUICK, "-o", str(folder / method)]) == 0
    return folder


def test_help_lists_the_settings_of_what_is_named(icpe):
    code, out, err = icpe("train", "--method", "icpe", "--backbone", "lightgcn", "--split", "random", "--help-settings")
    assert (code, err) == (0, "")
    for flag in ("--method.alpha", "--method.clusters", "--backbone.layers", "--split.train", "--train.lr"):
        assert flag in out
    assert "--split.mode" not in out, "the random split has no mode"
    words = " ".join(out.split())
    assert re.search(r"--train\.epochs [^-]*whole number[^-]*default: 200\]", words)
    assert re.search(r"--method\.loss [^-]*softmax, bce[^-]*default: chosen automatically\]", words)
    assert re.search(r"--method\.weights_on [^-]*shared, all, none[^-]*default: all\]", words)
    code, page, _ = icpe("train", "--method=icpe", "--help")
    assert code == 0
    assert "--method.alpha" in page
    assert "--resume" in page
    assert "--method.alpha" not in icpe("train", "--help")[1], "a method must be named first"
    both = icpe("compare", "--methods", "normal,icpe", "-o", "x", "--help-settings")[1]
    assert both.count("--method.loss ") == 2


def test_help_takes_names_from_the_configuration_file(icpe):
    Path("run.toml").write_text('[method]\nname = "icpe"\n[split]\nkind = "random"\n')
    out = icpe("train", "--config", "run.toml", "--help-settings")[1]
    assert "--method.alpha" in out
    assert "--split.mode" not in out
    assert "--method.alpha" not in icpe("train", "--config", "run.toml", "--method", "normal", "--help-settings")[1]


@pytest.mark.parametrize("command", [["--help"], ["train", "--help"], ["recommend", "--help"], ["demo", "--help"]])
def test_help_imports_nothing_heavy(command):
    code = (
        "import sys; from icpe.cli import run; run(sys.argv[1:])\n"
        "heavy = {'torch', 'numpy', 'polars', 'pydantic', 'numba', 'rich', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["train", "log.csv", "--method", "ic"], ["icpe"]),
        (["train", "--backbone", "l"], ["lightgcn"]),
        (["train", "--method", "icpe", "--method.al"], ["--method.alpha"]),
        (["train", "--method.al"], []),
        (["train", "--method", "icpe", "--method.loss", ""], ["softmax", "bce"]),
        (["train", "--method.loss", "bp"], ["bpr"]),
        (["train", "--split", "ch"], ["chronological"]),
        (["train", "--split.mode", ""], ["item_quota", "ips"]),
        (["train", "--train.epoch"], ["--train.epochs"]),
        (["demo", "--train.epoch"], ["--train.epochs"]),
        (["demo", "--method.l"], []),
        (["tra"], ["train"]),
    ],
    ids=" ".join,
)
def test_the_shell_completes(words, offered):
    assert complete(*words) == offered


def test_the_shell_completes_data_sets_and_files():
    assert complete("train", "lastf") == ["lastf", "lastfm"]  # the first stands for files that begin like this
    assert complete("data", "fetch", "lastf") == ["lastfm"]
    assert "demo" in complete("train", "")


def test_completion_through_the_program(monkeypatch):
    program = Path(sys.executable).with_name("icpe")
    monkeypatch.setenv("_ICPE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "icpe train --method ic")
    monkeypatch.setenv("COMP_CWORD", "3")
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain,icpe"]


def test_names_complete_without_importing_the_library():
    code = (
        "import sys; from icpe.cli._names import BACKBONE_NAMES, METHOD_NAMES; print('torch' in sys.modules);"
        "from icpe.backbones import BACKBONES; from icpe.methods import METHODS;"
        "print(list(METHODS) == list(METHOD_NAMES) and list(BACKBONES) == list(BACKBONE_NAMES))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_all_mistakes_at_once(icpe):
    skewed_log().write("log.csv")
    wrong = ["--train.epoch", "3", "--train.lr", "fast", "--method.los", "bpr", "--split.mode", "x", "--backbone", "fm"]
    code, out, err = icpe("train", "log.csv", *wrong)
    assert (code, out) == (2, "")
    assert err.count("error: ") == 1
    for message in (
        "--train.epoch:.*did you mean --train.epochs?",
        "--train.lr is 'fast'",
        "--method.los:",
        "--split.mode is 'x'; expected one of item_quota, ips",
        "--backbone: .*'fm'",
    ):
        assert re.search(message, err), message
    assert len(err.splitlines()) == 5
    code, _, err = icpe("train", "log.csv", "--train.lr", "--method.loss")
    assert code == 2
    assert "--train.lr needs a value" in err
    assert "--method.loss needs a value" in err


def test_a_single_value_is_a_list_of_one(icpe):
    skewed_log().write("log.csv")
    flags = ["--backbone", "neumf", "--backbone.layers", "8", "--evaluate.n", "5", "--train.epochs", "1"]
    assert icpe("train", "log.csv", *flags, "-o", "run")[0] == 0
    config = tomllib.loads(Path("run/config.toml").read_text())
    assert (config["backbone"]["layers"], config["evaluate"]["n"]) == ([8], [5])


def test_settings_of_the_split_are_flags_of_train(icpe):
    skewed_log().write("log.csv")
    shares = ["--split", "random", "--split.train", "0.6", "--split.valid", "0.2"]
    assert icpe("train", "log.csv", *QUICK, *shares, "-o", "run")[0] == 0
    manifest = json.loads(Path("run/split.json").read_text())
    assert (manifest["train"], manifest["valid"]) == (0.6, 0.2)
    assert icpe("split", "log.csv", *shares, "-o", "parts")[0] == 0
    assert json.loads(Path("parts/split.json").read_text())["hashes"] == manifest["hashes"]
    # Another kind of split than the file's has other settings.
    assert icpe("train", "--config", "run/config.toml", "--split", "unbiased", "-o", "other")[0] == 0
    assert json.loads(Path("other/split.json").read_text())["train"] == 0.8


def test_every_ranking_setting_is_a_flag_after_training(icpe, runs):
    code, out, _ = icpe("evaluate", runs / "penalty", "--help-settings")
    assert code == 0
    assert "--method.reg" not in out, "what training fixed cannot be changed"
    values = {}
    for amount in (0, 50):
        code, out, err = icpe("evaluate", runs / "penalty", PENALTY, amount, "--json")
        assert (code, err) == (0, "")
        values[amount] = json.loads(out)["test"]["popularity@20"]
    assert values[50] < values[0], "a stronger penalty shows less popular items"
    lists = [icpe("recommend", runs / "penalty", "--user", "7", PENALTY, amount, "--json")[1] for amount in (0, 0, 50)]
    assert lists[0] == lists[1] != lists[2]


@pytest.mark.parametrize("verb", [["recommend", "--user", "7"], ["evaluate"]], ids=lambda verb: verb[0])
def test_beta_is_a_short_form(icpe, runs, verb):
    long = icpe(verb[0], runs / "icpe", *verb[1:], "--method.beta", "1", "--json")
    assert long[0] == 0
    assert long == icpe(verb[0], runs / "icpe", *verb[1:], "--beta", "1", "--json")
    assert long != icpe(verb[0], runs / "icpe", *verb[1:], "--json")


@pytest.mark.parametrize(
    ("method", "flags", "message"),
    [
        ("icpe", ["--method.bta", "1"], "--method.bta.*did you mean --method.beta"),
        ("icpe", ["--method.alpha", "1"], "--method.alpha"),
        ("icpe", ["--method.beta", "much"], "--method.beta is 'much'; expected a number"),
        ("popularity", ["--method.strength", "1"], "--method.strength.*'popularity'"),
        ("icpe", ["--train.lr", "1"], "no such option.*--train.lr"),
    ],
)
def test_wrong_ranking_settings_name_the_flag(icpe, runs, method, flags, message):
    for verb in (["recommend", "--user", "7"], ["evaluate"]):
        code, out, err = icpe(verb[0], runs / method, *verb[1:], *flags)
        assert (code, out) == (2, "")
        assert re.search(message, err), err


def test_ranking_flags_complete_by_the_run(runs):
    assert complete("evaluate", runs / "icpe", "--method.") == ["--method.beta", "--method.boost"]
    assert complete("evaluate", runs / "popularity", "--method.") == ["--method.beta", "--method.boost"]


def test_the_flags_of_the_documentation_exist(icpe):
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    flags = set(re.findall(r"--(?:split|backbone|method|train|evaluate)\.\w+", page))
    assert len(flags) > 10
    known = "".join(icpe("train", "--method", method, "--help-settings")[1] for method in ("normal", "icpe"))
    assert {flag for flag in flags if not re.search(rf"{re.escape(flag)}\b", known)} == set()
