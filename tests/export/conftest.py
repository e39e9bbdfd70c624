"""Small trained models, whose own lists are the reference for everything that is exported."""

import polars as pl
import pytest

from icpe import ICPE, MF, Interactions, LightGCN, NeuMF, Normal
from icpe.methods import make_method
from icpe.testing import skewed_log

TRAINING = {"epochs": 8, "lr": 0.02, "batch_size": 64}


@pytest.fixture(scope="session")
def betas():
    """Settings of the dial."""
    return (-2.0, 0.0, 0.4, 3.0)


@pytest.fixture(scope="session")
def models():
    """ICPE on the three backbones, and other methods, whose dial adds log popularity."""
    log = skewed_log(users=40, items=30, pairs=400)
    backbones = {"mf": MF(dim=6), "lightgcn": LightGCN(dim=6, layers=2), "neumf": NeuMF(dim=6, layers=(8, 4))}
    made = {name: ICPE(backbone).fit(log, **TRAINING) for name, backbone in backbones.items()}
    made["normal"] = Normal(MF(dim=5)).fit(log, **TRAINING)
    for name in ("macr", "causpref"):  # both add numbers of their own to the items
        made[name] = make_method(name, MF(dim=6)).fit(log, **TRAINING)
    ids = {"user_id": pl.format("user {}", "user_id"), "item_id": pl.format("käse-{}", "item_id")}
    made["texts"] = Normal(MF(dim=6)).fit(Interactions.read(log.to_frame().select(**ids)), **TRAINING)
    return made


@pytest.fixture(scope="session")
def model(models):
    """ICPE on MF."""
    return models["mf"]
