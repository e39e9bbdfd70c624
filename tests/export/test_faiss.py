"""The Faiss index gives the model's lists, with its ids, at every setting of the dial."""

import sys

import numpy as np
import polars as pl
import pytest

from icpe import MF, ConfigError, Interactions, Normal, split
from icpe.export import read_export, to_faiss
from icpe.export.dial_vectors import DialVectors
from icpe.export.recall import measure_recall
from icpe.testing import skewed_log

faiss = pytest.importorskip("faiss")


def found_lists(folder, beta, n=8):
    """The lists of all users by the exported files alone, as {user: items}."""
    index = faiss.read_index(str(folder / "index.faiss"))
    items = pl.read_parquet(folder / "items.parquet")
    ids = dict(zip(items["label"], items["id"], strict=True))
    deep = read_export(folder).description["index"] == "hnsw"
    found = {}
    for user in pl.read_parquet(folder / "users.parquet").iter_rows(named=True):
        query = np.array([user["vector"]], np.float32)
        query[0, -1] = beta
        unseen = faiss.IDSelectorNot(faiss.IDSelectorBatch(np.array(user["seen"], np.int64)))
        params = faiss.SearchParametersHNSW(sel=unseen, efSearch=128) if deep else faiss.SearchParameters(sel=unseen)
        _, labels = index.search(query, n, params=params)
        found[user["id"]] = [ids[label] for label in labels[0] if label >= 0]
    return found


def exact_lists(model, beta, n=8):
    frame = model.dial(beta=beta).recommend(n=n)
    return {user: rows["item_id"].to_list() for (user,), rows in frame.group_by("user_id", maintain_order=True)}


@pytest.mark.parametrize("name", ["mf", "lightgcn", "macr", "texts"])
def test_a_flat_index_gives_the_lists_of_the_model(models, name, tmp_path, betas):
    to_faiss(models[name], tmp_path)
    for beta in betas:
        assert found_lists(tmp_path, beta) == exact_lists(models[name], beta)


def test_integer_ids_are_the_labels(model, tmp_path):
    shifted = Interactions.read(model.log.to_frame().with_columns(pl.col("item_id") + 10**12))
    done = to_faiss(Normal(MF(dim=4)).fit(shifted, epochs=1), tmp_path)
    index = faiss.read_index(str(tmp_path / "index.faiss"))
    assert isinstance(index, faiss.IndexIDMap2)
    assert isinstance(faiss.downcast_index(index.index), faiss.IndexFlatIP)
    np.testing.assert_array_equal(faiss.vector_to_array(index.id_map), shifted.items)
    assert done.description["labels"] == "ids"


def test_ids_that_faiss_cannot_hold_have_a_table(models, model, tmp_path):
    assert to_faiss(models["texts"], tmp_path / "texts").description["labels"] == "codes"
    negative = Interactions.read(model.log.to_frame().with_columns(pl.col("item_id") - 1))
    assert negative.items[0] == -1, "Faiss returns -1 where it finds nothing"
    small = Normal(MF(dim=4)).fit(negative, epochs=1)
    to_faiss(small, tmp_path / "negative")
    assert found_lists(tmp_path / "negative", 0.0) == exact_lists(small, 0.0)


def test_hnsw_is_measured(model, tmp_path):
    done = to_faiss(model.dial(beta=0.4), tmp_path, index="hnsw", n=7)
    index = faiss.read_index(str(tmp_path / "index.faiss"))
    assert isinstance(faiss.downcast_index(index.index), faiss.IndexHNSWFlat)
    assert done.description["recall"]["users"] == 40
    assert [one["beta"] for one in done.description["recall"]["at"]] == [0.4, 0.0], "the setting of the model first"
    for one in done.description["recall"]["at"]:
        found, exact = found_lists(tmp_path, one["beta"], 7), exact_lists(model, one["beta"], 7)
        shares = [len({*found[user]} & {*exact[user]}) / len(exact[user]) for user in exact]
        assert one["recall@7"] == pytest.approx(np.mean(shares), abs=1e-4)


def test_recall_of_an_index_that_lacks_items(model):
    vectors, labels = DialVectors.of(model), model.log.items.to_numpy()
    index = faiss.IndexIDMap2(faiss.IndexHNSWFlat(vectors.width, 16, faiss.METRIC_INNER_PRODUCT))
    index.add_with_ids(vectors.items[:10], labels[:10])
    for one in measure_recall(model.dial(beta=0.4), vectors, index, labels, n=5)["at"]:
        exact = exact_lists(model, one["beta"], n=5)
        there = np.mean([np.isin(items, labels[:10]).mean() for items in exact.values()])
        assert 0 < there < 1
        assert one["recall@5"] == pytest.approx(there, abs=1e-4)


def test_recall_is_measured_at_the_ends_of_the_front(tmp_path):
    parts = split.random(skewed_log(), seed=0)
    model = Normal(MF(dim=4)).fit(parts.train, valid=parts.valid, epochs=2)
    front = model.front()["beta"]
    at = to_faiss(model, tmp_path, index="hnsw").description["recall"]["at"]
    assert at[0]["beta"] == model.beta
    assert {one["beta"] for one in at} == {model.beta, 0.0, front.min(), front.max()}


def test_progress_counts_items(model, tmp_path):
    seen = []
    to_faiss(model, tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(30, 30)]


def test_what_cannot_be_exported_is_said(models, model, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="NeuMF has no vectors"):
        to_faiss(models["neumf"], tmp_path / "new")
    with pytest.raises(ConfigError, match="index is 'ivf'; expected one of flat, hnsw"):
        to_faiss(model, tmp_path / "new", index="ivf")
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ConfigError, match=r"needs faiss, which is not installed: pip install 'icpe\[faiss\]'"):
        to_faiss(model, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_folder_is_checked_before_the_work(model, tmp_path):
    to_faiss(model, tmp_path)
    with pytest.raises(ConfigError, match="holds an export already"):
        to_faiss(model, tmp_path, progress=lambda *_: pytest.fail("the index is built in vain"))
