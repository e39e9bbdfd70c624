"""Tests of two backbones used as one."""

import numpy as np
import pytest
import torch

from icpe import MF, ConfigError, LightGCN, NeuMF
from icpe.backbones import Backbone
from icpe.backbones.channels import Channels
from icpe.rng import stream
from icpe.testing.backbones import check_backbone, toy_log

KINDS = {
    "mf": lambda: MF(dim=4),
    "neumf": lambda: NeuMF(dim=4, layers=(8, 4)),
    "lightgcn": lambda: LightGCN(dim=4, layers=2, node_dropout=0, message_dropout=0),
}


def built(kind, size="half"):
    channels = Channels(KINDS[kind](), size)
    channels.build(toy_log(), stream(0, "start"))
    return channels


@pytest.mark.parametrize("size", ["half", "full"])
@pytest.mark.parametrize("kind", KINDS)
def test_sizes_and_names(kind, size):
    channels, one = built(kind, size), KINDS[kind]()
    assert channels.first.settings.dim == channels.second.settings.dim == (2 if size == "half" else 4)
    assert (channels.name, channels.settings.as_dict(), channels.label) == (
        one.name,
        one.settings.as_dict(),
        type(one).__name__,
    )
    assert (channels.default_optimizer, channels.default_reg) == (one.default_optimizer, one.default_reg)
    again = Channels.of(channels, size)
    assert again.settings.as_dict() == one.settings.as_dict()
    assert again.first.settings.dim == channels.first.settings.dim


@pytest.mark.parametrize("kind", KINDS)
def test_logits_add_up(kind):
    channels = built(kind).eval()
    with torch.no_grad():
        users, items = channels.reps()
        one, two = (part.scores(*part.reps()).block(np.arange(7), 0, 5) for part in (channels.first, channels.second))
        pairs = channels.score(users[:, None], items).numpy()
        table = channels.scores(users, items).block(np.arange(7), 0, 5)
    assert np.abs(one - two).max() > 1e-6
    for found in (pairs, table):
        assert np.allclose(found, one + two, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_backbone(kind):
    # Its settings are those of the backbone inside, so it cannot be rebuilt from them.
    check_backbone(lambda: Channels(KINDS[kind](), "half"), rebuild=False)


def test_what_cannot_be_halved_is_refused():
    class Own(MF):
        name = "own"
        halved = Backbone.halved

    with pytest.raises(ConfigError, match=r"Own has no form of half the width.*size = 'full'"):
        Channels(Own(), "half")
    assert Channels(Own(dim=3), "full").second.settings.dim == 3
