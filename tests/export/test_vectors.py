"""Exported vectors give the model's scores and lists at every setting of the dial."""

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

from icpe import MF, ConfigError, IcpeError
from icpe.data.popularity import head_mask, log_popularity
from icpe.export import to_vectors
from icpe.methods import make_method
from icpe.testing import skewed_log


def read_tables(folder):
    return pl.read_parquet(folder / "users.parquet"), pl.read_parquet(folder / "items.parquet")


def scores_at(beta, users, items, coordinate):
    """The rule of the export, applied by hand: β goes to one coordinate of the query."""
    queries = users["vector"].to_numpy().astype(np.float64)
    queries[:, coordinate] = beta
    return queries @ items["vector"].to_numpy().astype(np.float64).T


@pytest.mark.parametrize("name", ["mf", "lightgcn", "normal", "macr", "causpref", "texts"])
def test_a_query_with_beta_gives_the_dialled_scores_and_lists(models, name, tmp_path, betas):
    model = models[name]
    done = to_vectors(model, tmp_path)
    users, items = read_tables(tmp_path)
    for beta in betas:
        found = scores_at(beta, users, items, done.description["dial"]["coordinate"])
        dialled = model.dial(beta=beta)
        expected = dialled.scores.block(np.arange(len(users)), 0, len(items))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        for user, row, seen in zip(users["id"], found, users["seen"], strict=True):
            row[items["id"].is_in(seen.implode()).to_numpy()] = -np.inf
            best = np.argsort(-row, kind="stable")[:10]
            best = best[np.isfinite(row[best])]
            assert items["id"].gather(best).to_list() == dialled.recommend([user], 10)["item_id"].to_list()


def test_users_are_exported_with_the_setting_of_the_model(model, tmp_path):
    done = to_vectors(model.dial(beta=0.7), tmp_path)
    users, items = read_tables(tmp_path)
    found = users["vector"].to_numpy() @ items["vector"].to_numpy().T
    expected = model.dial(beta=0.7).scores.block(np.arange(len(users)), 0, len(items))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert done.description["dial"]["beta"] == 0.7


def test_a_case_computed_by_hand(tmp_path):
    """Popularity ranks by the count n_i, so that the score is n_i + β·log(n_i / mean n)."""
    log = skewed_log(users=5, items=4, pairs=12)
    to_vectors(make_method("popularity", MF()).fit(log), tmp_path)
    expected = log.item_counts + 0.5 * np.log(log.item_counts / log.item_counts.mean())
    np.testing.assert_allclose(scores_at(0.5, *read_tables(tmp_path), -1)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["normal", "texts"])
def test_columns_of_users_and_items(models, name, tmp_path):
    model, log = models[name], models[name].log
    width = to_vectors(model, tmp_path).description["width"]
    users, items = read_tables(tmp_path)
    assert items.columns == ["id", "vector", "offset", "count", "head"]
    assert users.columns == ["id", "vector", "count", "seen"]
    assert items["id"].to_list() == log.items.to_list()
    assert users["id"].to_list() == log.users.to_list()
    assert items["vector"].dtype == users["vector"].dtype == pl.Array(pl.Float32, width)
    np.testing.assert_array_equal(items["count"], log.item_counts)
    np.testing.assert_array_equal(items["head"], head_mask(log.item_counts))
    np.testing.assert_allclose(items["offset"], model.method.score_unit * log_popularity(log.item_counts), rtol=1e-6)
    np.testing.assert_array_equal(items["offset"], items["vector"].arr.get(-1))
    pairs = users.select(user_id="id", item_id="seen").explode("item_id")
    assert pairs.rows() == log.to_frame().select("user_id", "item_id").rows()
    np.testing.assert_array_equal(users["count"], log.user_counts)


def test_a_user_without_training_pairs_has_seen_nothing(tmp_path):
    log = skewed_log(users=5, items=6, pairs=40)
    to_vectors(make_method("random", MF()).fit(log.keep(log.user != 2)), tmp_path)
    users = read_tables(tmp_path)[0]
    assert users["seen"][2].to_list() == []
    assert users["seen"].list.len().to_list() == users["count"].to_list()


def test_safetensors_hold_the_same_rows(model, tmp_path):
    to_vectors(model, tmp_path)
    arrays = load_file(tmp_path / "vectors.safetensors")
    users, items = read_tables(tmp_path)
    np.testing.assert_array_equal(arrays.pop("users"), users["vector"].to_numpy())
    np.testing.assert_array_equal(arrays.pop("items"), items["vector"].to_numpy())
    assert set(arrays) == {"offset", "count", "head"}
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, items[name].to_numpy())


def test_a_model_without_vectors_is_refused_and_the_message_names_onnx(models, tmp_path):
    with pytest.raises(ConfigError, match=r"ICPE on NeuMF has no vectors .* icpe\.export\.to_onnx"):
        to_vectors(models["neumf"], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_model_that_has_diverged_is_refused(tmp_path):
    model = make_method("random", MF()).fit(skewed_log(users=5, items=6, pairs=40))
    model.method.backbone.item_table[1, 2] = np.nan
    with pytest.raises(IcpeError, match="It has diverged"):
        to_vectors(model, tmp_path / "new")
    assert not (tmp_path / "new").exists()
