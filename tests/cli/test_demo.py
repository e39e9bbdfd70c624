"""The demo in a world small enough for a test, and the recall of true preferences."""

import json
import signal
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from icpe import MF, Normal, make_world, split
from icpe.cli import run
from icpe.metrics.true_preference import true_recall

SMALL = ["--users", "300", "--items", "200", "--interactions", "6000"]
QUICK = [*SMALL, "--train.epochs", "3"]
METHODS = ("normal", "icpe", "logit_adjustment")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder and the printed JSON."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with redirect_stdout(StringIO()) as printed:
            assert run(["demo", *QUICK, "--json"]) == 0
    return folder, json.loads(printed.getvalue())


def test_everything_is_there_and_fits_together(results, monkeypatch, capfd):
    folder, printed = results
    monkeypatch.chdir(folder)
    assert {path.name for path in Path("demo").iterdir()} == {
        *("world", "split", "report.html"),
        *METHODS,
        *(f"{name}.{suffix}" for name in ("long-tail", "split") for suffix in ("png", "svg")),
    }
    assert printed["split"]["mode"] == "item_quota"
    for name in METHODS:
        assert json.loads(Path(f"demo/{name}/split.json").read_text()) == printed["split"]
        assert set(printed["runs"][name]["truth"]) == {"recall@20", "recall_head@20", "recall_niche@20"}
        stored = json.loads(Path(f"demo/{name}/result.json").read_text())
        assert printed["runs"][name]["test"] == stored["test"]
    page = Path("demo/report.html").read_text()
    assert "<h1>ICPE and Log-popularity offset against Normal</h1>" in page
    assert f"{printed['runs']['icpe']['truth']['recall_niche@20']:.4f}" in page
    capfd.readouterr()
    assert run(["recommend", "demo/icpe", "--user", "u0000", "-n", "3"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 1 + 3
    assert run(["evaluate", "demo/icpe", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["test"] == printed["runs"]["icpe"]["test"]


def test_results_are_not_overwritten_unasked(results, monkeypatch, capfd):
    monkeypatch.chdir(results[0])
    assert run(["demo", *QUICK]) == 2
    assert "--force" in capfd.readouterr().err


def test_the_text_tells_the_same(results, monkeypatch, capfd):
    folder, printed = results
    monkeypatch.chdir(folder)
    capfd.readouterr()
    assert run(["demo", *QUICK, "--force"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    every = [printed["runs"][name] for name in METHODS]
    lines = {tuple(line.split()[:3]): line for line in out.splitlines()}
    recall, true = lines["Recall@20", "↑", "all"], next(line for line in out.splitlines() if "True Recall@20 ↑" in line)
    for line, values in ((recall, [one["test"] for one in every]), (true, [one["truth"] for one in every])):
        shown = [round(one["recall@20"], 4) for one in values]
        marked = [f"{value:.4f}{' *' if value == max(shown) else ''}" for value in shown]
        assert " ".join(line.split(" all ")[1].split()) == " ".join(marked)
    assert "True Recall@20 measures" in out


def test_mistakes_leave_no_folder(icpe):
    code, _, err = icpe("demo", *SMALL, "--train.epoch", "3")
    assert code == 2
    assert "--train.epochs" in err
    assert not Path("demo").exists()


def test_an_interrupted_demo_continues_with_the_same_command(results, start, tmp_path, capfd):
    folder = tmp_path / "demo"
    long = [*SMALL, "--train.epochs", "120", "--train.patience", "120", "--train.batch_size", "256"]
    command = ["demo", *long, "-o", str(folder)]
    process = start(*command)
    while not (folder / "normal" / "checkpoint" / "state.json").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"Continue with: icpe {' '.join(command)}" in err
    stopped = json.loads((folder / "normal" / "checkpoint" / "state.json").read_text())["record"]["step"]
    assert not (folder / "report.html").exists()
    assert run([*command, "--seed", "1"]) == 2, "another world does not continue this one"
    assert "--seed" in capfd.readouterr().err
    before = (folder / "normal" / "metrics.jsonl").read_text()
    assert run(command) == 0
    after = (folder / "normal" / "metrics.jsonl").read_text()
    assert after.startswith(before), "the run went on from its checkpoint"
    assert json.loads((folder / "normal" / "result.json").read_text())["steps"] > stopped
    assert (folder / "report.html").exists()


def test_true_recall_by_hand():
    world = make_world(users=40, items=30, interactions=300, seed=3)
    parts = split.unbiased(world.log, 0)
    model = Normal(MF(dim=4)).fit(parts.train, rng=0, epochs=2)
    preference, n = world.preference(world.log.users), 5
    used = np.zeros(preference.shape, bool)
    used[world.log.user, world.log.item] = True
    # Head by the definition: the fifth of the items with most training pairs, of equal ones the smaller id.
    head = np.argsort(-parts.train.item_counts, kind="stable")[:6]
    seen = world.log.to_frame().select("user_id", "item_id")
    lists = model.recommend(n=30, hide_seen=False).join(seen, on=["user_id", "item_id"], how="anti")
    lists = lists.group_by("user_id", maintain_order=True).head(n)
    shares = {"": [], "_head": [], "_niche": []}
    for code, user in enumerate(world.log.users):
        left = np.where(used[code], -np.inf, preference[code])
        wanted = np.argsort(-left, kind="stable")[:n]
        listed = set(lists.filter(pl.col("user_id") == user)["item_id"])
        for end, chosen in (
            ("", wanted),
            ("_head", np.intersect1d(wanted, head)),
            ("_niche", np.setdiff1d(wanted, head)),
        ):
            if len(chosen):
                shares[end].append(np.mean([world.log.items[int(item)] in listed for item in chosen]))
    assert true_recall(model.scores, world, parts.train, n) == pytest.approx(
        {f"recall{end}@5": float(np.mean(values)) for end, values in shares.items()}
    )
