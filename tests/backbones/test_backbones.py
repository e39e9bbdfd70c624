"""Properties that all backbones share, their settings, and the conformance checks for user-defined backbones."""

import copy
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from icpe.backbones import BACKBONES, MF, LightGCN, NeuMF, make_backbone
from icpe.errors import ConfigError, NotFittedError
from icpe.testing.backbones import check_backbone, toy_log

PAGE = Path(__file__).parents[2] / "docs" / "backbones.md"
SMALL = {
    "mf": {"dim": 6},
    "neumf": {"dim": 6, "layers": (8, 4), "init_std": 0.5},
    "lightgcn": {"dim": 6, "layers": 2, "node_dropout": 0.3},
}


def built(name, seed=0, **settings):
    backbone = make_backbone(name, **{**SMALL[name], **settings})
    backbone.build(toy_log(), np.random.default_rng(seed))
    return backbone


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("own", [True, False], ids=["defaults", "small"])
def test_conformance(name, own):
    check_backbone(lambda: make_backbone(name, **({} if own else SMALL[name])))


@pytest.mark.parametrize("name", BACKBONES)
def test_same_in_float64(name, generator):
    single, double = built(name), built(name).double()
    for one, two in zip(single.reps(generator(0)), double.reps(generator(0)), strict=True):
        assert two.dtype == torch.float64
        torch.testing.assert_close(one, two, check_dtype=False, rtol=1e-5, atol=1e-6)
    z_user, z_item = double.eval().reps()
    assert double.score(z_user[:, None], z_item[None]).dtype == torch.float64
    assert double.scores(z_user, z_item).block(np.arange(7), 0, 5).dtype == np.float32


@pytest.mark.parametrize("name", BACKBONES)
def test_gradients_equal_finite_differences(name, generator):
    backbone = built(name).double()
    names = [key for key, _ in backbone.named_parameters()]

    class Scores(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = backbone

        def forward(self):
            z_user, z_item = self.backbone.reps(generator(3))
            return self.backbone.score(z_user[:, None], z_item[None])

    module = Scores()

    def scores(*values):
        return torch.func.functional_call(
            module, {f"backbone.{key}": value for key, value in zip(names, values, strict=True)}, ()
        )

    # With biases of 0 the input of a ReLU could be exactly 0, where it has no derivative.
    start = [p.detach().clone().add_(0.01).requires_grad_() for p in backbone.parameters()]
    assert torch.autograd.gradcheck(scores, start, fast_mode=True)


@pytest.mark.parametrize("name", BACKBONES)
def test_a_copy_is_a_channel_of_its_own(name):
    backbone = built(name)
    other = copy.deepcopy(backbone)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    for one, two in zip(backbone.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one + 1, two)


@pytest.mark.parametrize("name", BACKBONES)
def test_not_built(name):
    with pytest.raises(NotFittedError, match=r"no parameters yet; call build\(train, rng\) first"):
        make_backbone(name).reps()


def test_defaults_of_the_paper():
    assert {name: (kind.default_optimizer, kind.default_reg) for name, kind in BACKBONES.items()} == {
        "mf": ("adam", 1e-5),
        "neumf": ("rmsprop", 1e-5),
        "lightgcn": ("adam", 1e-4),
    }
    assert MF().settings.as_dict() == {"dim": 64, "init_std": 0.01}
    assert NeuMF().settings.as_dict() == {"dim": 64, "layers": [64, 32, 16], "init_std": 0.01}
    assert LightGCN().settings.as_dict() == {
        "dim": 64,
        "layers": 3,
        "node_dropout": 0.1,
        "message_dropout": 0.1,
        "init_std": 0.1,
    }


@pytest.mark.parametrize("name", BACKBONES)
def test_settings_round_trip(name):
    backbone = make_backbone(name, **SMALL[name])
    again = make_backbone(name, **json.loads(json.dumps(backbone.settings.as_dict())))
    assert again.settings.as_dict() == backbone.settings.as_dict()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("lightgnc", {}, "unknown backbone 'lightgnc'; did you mean 'lightgcn'? Known: mf, neumf, lightgcn"),
        ("xyz", {}, "unknown backbone 'xyz'. Known: mf, neumf, lightgcn"),
        ("mf", {"dims": 3}, "backbone 'mf' has no setting 'dims'; did you mean 'dim'?"),
        ("lightgcn", {"dropout": 0.1}, "backbone 'lightgcn' has no setting 'dropout'; did you mean 'node_dropout'?"),
        ("mf", {"dim": 0}, "dim is 0; expected a whole number from 1 up"),
        ("mf", {"dim": 2.5}, "dim is 2.5; expected a whole number from 1 up"),
        ("mf", {"dim": True}, "dim is True; expected a whole number from 1 up"),
        ("mf", {"dim": "64"}, "dim is '64'; expected a whole number from 1 up"),
        ("mf", {"dim": None}, "dim is None; expected a whole number from 1 up"),
        ("mf", {"init_std": 0}, "init_std is 0; expected a number above 0"),
        ("mf", {"init_std": float("nan")}, "init_std is nan; expected a number above 0"),
        ("mf", {"init_std": float("inf")}, "init_std is inf; expected a number above 0"),
        ("mf", {"init_std": "small"}, "init_std is 'small'; expected a number above 0"),
        ("neumf", {"layers": ()}, "layers is (); expected the widths of at least one layer"),
        ("neumf", {"layers": 3}, "layers is 3; expected the widths of at least one layer"),
        (
            "neumf",
            {"layers": (64, -1)},
            "layers is (64, -1); expected the widths of at least one layer, whole numbers from 1 up",
        ),
        ("lightgcn", {"layers": -1}, "layers is -1; expected a whole number from 0 up"),
        ("lightgcn", {"node_dropout": 1}, "node_dropout is 1; expected a number of at least 0 and below 1"),
        ("lightgcn", {"node_dropout": True}, "node_dropout is True; expected a number of at least 0 and below 1"),
        ("lightgcn", {"message_dropout": -0.1}, "message_dropout is -0.1; expected a number of at least 0 and below 1"),
    ],
)
def test_wrong_settings(name, settings, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        make_backbone(name, **settings)


def test_whole_numbers_of_numpy_are_whole():
    assert json.dumps(MF(dim=np.int64(3)).settings.as_dict()) == '{"dim": 3, "init_std": 0.01}'


class EarlyParameters(MF):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.user_table = torch.nn.Parameter(torch.zeros(1))


class OtherGenerator(MF):
    def build(self, train, rng):
        super().build(train, rng)
        torch.nn.init.normal_(self.item_table)


class LostSetting(MF):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.settings = self.settings.replace(dim=self.settings.dim + 1)


class NoBroadcast(MF):
    def interact(self, z_user, z_item):
        return torch.einsum("...d,nd->nd", z_user, z_item) if z_user.ndim == 3 else z_user * z_item


class NoSqueeze(MF):
    def out(self, phi):
        return phi.sum(-1, keepdim=True)


class TwiceShared(MF):
    def shared_parameters(self):
        return list(self.parameters())


class UnusedParameter(MF):
    def build(self, train, rng):
        super().build(train, rng)
        self.unused = torch.nn.Parameter(torch.zeros(2))


class NoProduct(MF):
    def out(self, phi):
        return 2 * phi.sum(-1)


class AlwaysDrops(MF):
    def reps(self, rng=None):
        return torch.nn.functional.dropout(self.user_table, 0.5), self.item_table


class NoEgoGradient(MF):
    def ego_items(self, items):
        return self.item_table.detach()[items]


class HiddenState(MF):
    inner_product = False

    def build(self, train, rng):
        super().build(train, rng)
        self.offset = float(rng.random())

    def out(self, phi):
        return phi.sum(-1) + self.offset


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (EarlyParameters, "the constructor creates parameters"),
        (OtherGenerator, "draws from the global generator of torch"),
        (LostSetting, "rebuilt from its settings has other settings"),
        (NoBroadcast, "must broadcast"),
        (NoSqueeze, r"out\(\) of 5 pairs has the shape \(5, 1\)"),
        (TwiceShared, "each parameter once"),
        (UnusedParameter, "parameter unused gets no gradient"),
        (NoProduct, "the product of representations"),
        (AlwaysDrops, "with equal generators differs"),
        (NoEgoGradient, "without gradients"),
        (HiddenState, "gives different scores"),
    ],
)
def test_the_kit_says_what_is_broken(kind, message):
    with pytest.raises(AssertionError, match=message):
        check_backbone(lambda: kind(dim=4))


def test_the_page_runs_as_it_stands():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    spaces = [{} for _ in blocks]
    for block, space in zip(blocks, spaces, strict=True):
        exec(compile(block, PAGE.name, "exec"), space)
    assert spaces[0]["logits"].shape == (2, spaces[0]["backbone"].items)
