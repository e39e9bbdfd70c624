"""Lists from saved vectors are those of the model, and a file that does not belong to the model is not used."""

import shutil

import pytest
from safetensors.numpy import load_file

from icpe import ICPE, MF, DataError, LightGCN, NeuMF, Normal, load
from icpe.files import write_together
from icpe.methods import METHODS
from icpe.recommender.saved_vectors import read_recommender
from icpe.testing import skewed_log

LOG = skewed_log(users=20, items=15, pairs=150)
MODELS = {
    "the table itself": lambda: Normal(MF(dim=4), loss="bce", beta=-0.3),
    "unit vectors": lambda: ICPE(MF(dim=4), beta=0.5),
    "a power of the norm": lambda: Normal(MF(dim=4), loss="softmax", norm_power=0.5),
    "propagated vectors": lambda: Normal(LightGCN(dim=4, layers=2)),
    "an item bias": lambda: METHODS["penalty"](MF(dim=4), strength=2.0),
}


@pytest.fixture(scope="module")
def models():
    return {name: make().fit(LOG, epochs=2) for name, make in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_lists_are_those_of_the_model(name, models, tmp_path):
    model = models[name]
    model.save(tmp_path)
    saved = read_recommender(tmp_path)
    assert saved.ranker.beta == model.beta
    assert saved.recommend(n=5).equals(model.recommend(n=5))
    assert saved.recommend([3, 99], n=5, unknown="popular", exclude=[1]).equals(
        model.recommend([3, 99], n=5, unknown="popular", exclude=[1])
    )
    assert saved.ranker.top(LOG.user[:3], 4, beta=1.5).items.tolist() == (
        model.ranker.top(LOG.user[:3], 4, beta=1.5).items.tolist()
    )


def test_vectors_that_follow_from_parameters_are_not_saved_again(models, tmp_path):
    for name, shapes in {
        "the table itself": {"direction": (15,)},
        "unit vectors": {"direction": (15,), "user": (20, 1), "item": (15, 1)},
        "propagated vectors": {"direction": (15,), "user": (20, 4), "item": (15, 4)},
    }.items():
        models[name].save(tmp_path / name)
        found = load_file(tmp_path / name / "vectors.safetensors")
        assert {key: value.shape for key, value in found.items()} == shapes


def test_other_models_have_no_vectors(models, tmp_path):
    models["unit vectors"].save(tmp_path)
    Normal(NeuMF(dim=4, layers=(8, 4))).fit(LOG, epochs=1).save(tmp_path)
    assert not (tmp_path / "vectors.safetensors").exists()
    assert read_recommender(tmp_path) is None


def test_vectors_of_other_parameters_are_not_used(models, tmp_path):
    models["the table itself"].save(tmp_path / "one")
    models["unit vectors"].save(tmp_path / "two")
    other = tmp_path / "two" / "vectors.safetensors"
    write_together(tmp_path / "one", {other.name: lambda path: shutil.copy(other, path)})
    assert read_recommender(tmp_path / "one") is None
    assert load(tmp_path / "one").recommend(n=5).equals(models["the table itself"].recommend(n=5))


def test_damage_is_reported(models, tmp_path):
    models["unit vectors"].save(tmp_path)
    path = tmp_path / "vectors.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"vectors.safetensors is damaged or was changed"):
        read_recommender(tmp_path)
    with pytest.raises(DataError, match=r"vectors.safetensors is damaged: SafetensorError .*; delete it"):
        read_recommender(tmp_path, verify=False)
