"""The ONNX graph gives the model's lists, run by ONNX Runtime."""

import sys

import numpy as np
import polars as pl
import pytest
import torch

from icpe import MF, ConfigError, IcpeError, NeuMF
from icpe.export import to_onnx
from icpe.export.graph_check import check_graph
from icpe.export.onnx_file import onnx_writers
from icpe.export.onnx_graph import graph_of
from icpe.methods import make_method
from icpe.ranking.tables import DotScores, NeuMFScores
from icpe.testing import skewed_log

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
NOTHING = np.empty((1, 0))


def run(folder, users, betas, seen, n):
    """Codes of items and scores by the graph alone."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # errors are expected in some tests
    inputs = {
        "user": np.array(users, np.int64),
        "beta": np.array(betas, np.float32),
        "seen": np.array(seen, np.int64).reshape(len(users), -1),
        "n": np.array(n, np.int64),
    }
    return runtime.InferenceSession(folder / "model.onnx", options).run(["items", "scores"], inputs)


def padded(lists):
    longest = max(map(len, lists))
    return [[*one, *[-1] * (longest - len(one))] for one in lists]


def check_lists(model, folder, users, betas, n=8):
    """Compare the lists at all settings, with and without hidden items; a batch has users with different settings."""
    seen = pl.read_parquet(folder / "users.parquet")["seen"].to_list()
    asked = [(user, beta) for user in users for beta in betas]
    for hidden in (True, False):
        hide = padded([seen[user] for user, _ in asked]) if hidden else np.empty((len(asked), 0))
        items, scores = run(folder, *zip(*asked, strict=True), hide, n)
        assert items.shape == scores.shape == (len(asked), min(n, len(model.log.items)))
        for (user, beta), row, values in zip(asked, items, scores, strict=True):
            frame = model.dial(beta=beta).recommend([model.log.users[user]], n, hide_seen=hidden)
            found = row >= 0
            assert model.log.items.gather(row[found]).to_list() == frame["item_id"].to_list()
            np.testing.assert_allclose(values[found], frame["score"], atol=1e-4, rtol=1e-5)
            assert (values[~found] == -np.inf).all()


def write_graph(table, direction, folder):
    for name, write in onnx_writers(graph_of(table, direction), "model.onnx", 1 << 30, lambda _: None).items():
        write(folder / name)


@pytest.mark.parametrize("name", ["mf", "lightgcn", "neumf", "macr", "causpref", "texts"])
def test_the_graph_gives_the_lists_of_the_model(models, name, tmp_path, betas):
    to_onnx(models[name], tmp_path)
    onnx.checker.check_model(tmp_path / "model.onnx", full_check=True)
    check_lists(models[name], tmp_path, [0, 7, 39], betas)
    check_lists(models[name], tmp_path, [5], betas[:1], n=1)


def test_lists_longer_than_the_catalogue(model, tmp_path, betas):
    to_onnx(model, tmp_path)
    check_lists(model, tmp_path, [3, 12], betas, n=1000)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("macr", {}), ("dice", {}), ("causpref", {}), ("penalty", {}), ("pd", {"ranking_power": 0.2})],
)
def test_methods_whose_scores_on_neumf_are_composed(name, settings, tmp_path, betas):
    log = skewed_log(users=12, items=15, pairs=90)
    model = make_method(name, NeuMF(dim=4, layers=(6,)), **settings).fit(log, epochs=2, lr=0.05)
    to_onnx(model, tmp_path)
    check_lists(model, tmp_path, [0, 11], betas)


def test_layers_of_neumf_over_several_tiles_of_items(tmp_path):
    """More items than one tile holds, with a last tile that is not full, against the table of scores itself."""
    rng = np.random.default_rng(0)
    shapes = (3, 4), (5001, 4), (3, 6), (5001, 6), (6, 2), (2,), (2,), (5001,)
    *vectors, of_users, of_items, weight, bias, output, direction = (
        rng.standard_normal(shape, dtype=np.float32) for shape in shapes
    )
    table = NeuMFScores(DotScores(*vectors), of_users, of_items, [(weight, bias)], output)
    write_graph(table, direction, tmp_path)
    items, scores = run(tmp_path, [2, 0], [0.5, 0.0], np.empty((2, 0)), 5001)
    expected = table.block(np.array([2, 0]), 0, 5001) + np.array([[0.5], [0.0]]) * direction
    np.testing.assert_allclose(scores, np.take_along_axis(expected, items, 1), atol=1e-4)
    assert (np.sort(items) == np.arange(5001)).all()


@pytest.mark.parametrize("name", ["mf", "neumf"])
def test_large_arrays_go_to_a_file_beside_the_graph(models, name, tmp_path, betas):
    log = skewed_log(users=300, items=120, pairs=2000)
    model = make_method("normal", type(models[name].method.backbone)(dim=8)).fit(log, epochs=1)
    done = to_onnx(model, tmp_path, one_file=1000)
    assert "model.onnx.data" in done.files
    assert (tmp_path / "model.onnx").stat().st_size < 20_000
    check_lists(model, tmp_path, [0, 200], betas)
    assert "model.onnx.data" not in to_onnx(model, tmp_path, force=True).files
    assert not (tmp_path / "model.onnx.data").exists()
    check_lists(model, tmp_path, [0, 200], betas)


def test_hidden_items_may_repeat_and_padding_may_be_anywhere(model, tmp_path):
    to_onnx(model, tmp_path)
    best = run(tmp_path, [4], [0.4], NOTHING, 30)[0][0]
    items, _ = run(tmp_path, [4], [0.4], [[-1, best[0], best[2], best[0], -1, -1]], 5)
    assert items[0].tolist() == [best[1], *best[3:7]]


def test_unknown_codes_are_an_error(model, tmp_path):
    to_onnx(model, tmp_path)
    for user, seen in ((40, -1), (-1, -1), (4, 30)):
        with pytest.raises(Exception, match="out of (data )?bounds"):
            run(tmp_path, [user], [0.0], [[seen]], 5)


def test_ties_go_to_the_smaller_code(tmp_path):
    write_graph(DotScores(np.ones((1, 1), np.float32), np.ones((9, 1), np.float32)), np.zeros(9, np.float32), tmp_path)
    assert run(tmp_path, [0], [1.0], [[2]], 4)[0].tolist() == [[0, 1, 3, 4]]


def test_columns_of_the_tables(models, tmp_path):
    log = models["texts"].log
    to_onnx(models["texts"], tmp_path)
    users, items = pl.read_parquet(tmp_path / "users.parquet"), pl.read_parquet(tmp_path / "items.parquet")
    assert items.columns == ["code", "id", "offset", "count", "head"]
    assert users.columns == ["code", "id", "count", "seen"]
    assert items["id"].gather(items["code"]).to_list() == log.items.to_list()
    assert users["id"].gather(users["code"]).to_list() == log.users.to_list()
    np.testing.assert_array_equal(users["seen"].explode(), log.item)


def test_export_is_silent_and_leaves_global_state(model, tmp_path, capfd):
    def state():
        return (
            torch.get_num_threads(),
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.random.get_rng_state().tolist(),
            [parameter.requires_grad for parameter in model.method.parameters()],
        )

    before = state()
    to_onnx(model, tmp_path)
    assert state() == before
    assert capfd.readouterr() == ("", "")


def test_a_graph_that_disagrees_is_refused(model, tmp_path):
    write_graph(model.method.scores(), np.zeros(30, np.float32), tmp_path)
    check_graph(model.dial(beta=0.0), tmp_path / "model.onnx")
    with pytest.raises(IcpeError, match="gives other scores than the model"):
        check_graph(model.dial(beta=0.4), tmp_path / "model.onnx")


def test_a_graph_that_disagrees_is_not_exported(model, tmp_path, monkeypatch):
    wrong = graph_of(model.method.scores(), np.zeros(30, np.float32))
    monkeypatch.setattr("icpe.export.onnx_model.graph_of", lambda *_: wrong)
    with pytest.raises(IcpeError, match="nothing was exported"):
        to_onnx(model.dial(beta=0.4), tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_cannot_be_exported_is_said(model, tmp_path, monkeypatch):
    log = skewed_log(users=12, items=15, pairs=90)
    by_pairs = make_method("bc_loss", NeuMF(dim=4, layers=(6,)), rank_by="cos").fit(log, epochs=1)
    with pytest.raises(ConfigError, match="computed pair by pair in Python"):
        to_onnx(by_pairs, tmp_path / "new")
    diverged = make_method("random", MF()).fit(log)
    diverged.method.backbone.user_table[0, 0] = np.inf
    with pytest.raises(IcpeError, match="It has diverged"):
        to_onnx(diverged, tmp_path / "new")
    for library in ("onnx", "onnxruntime"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, library, None)
            with pytest.raises(ConfigError, match=rf"needs {library}, which is not .*: pip install 'icpe\[onnx\]'"):
                to_onnx(model, tmp_path / "new")
    assert not (tmp_path / "new").exists()
