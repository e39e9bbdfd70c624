"""CPR: samples, the defining invariance, the loss from its formula, and what it learns."""

import itertools
import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
import torch

from icpe import MF, ConfigError, LightGCN, NeuMF, Normal
from icpe.backbones.base import normal_table
from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.methods.cpr import CPR, Layout, shares
from icpe.ranking import top_n
from icpe.rng import stream
from icpe.runs.earlier_versions import renamed
from icpe.testing.backbones import Distance
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, check_method
from icpe.train.batch import Batch, SampledBatch
from icpe.train.sampling import Sampler

LOG = skewed_log(users=40, items=30, pairs=300)
PAIRS = set(zip(LOG.user.tolist(), LOG.item.tolist(), strict=True))


class Biased(Distance):
    """A number for each user and each item besides."""

    def build(self, train, rng):
        super().build(train, rng)
        self.user_bias = normal_table(self.users, 1, 1.0, rng)
        self.item_bias = normal_table(self.items, 1, 1.0, rng)

    def reps(self, rng=None):
        return torch.cat([self.of_users, self.user_bias], 1), torch.cat([self.of_items, self.item_bias], 1)

    def interact(self, z_user, z_item):
        own = (z_user - z_item)[..., :-1].square()
        return torch.cat([own, -(z_user + z_item)[..., -1:]], -1)


def built(method, log=LOG):
    method.build(log, stream(0, "test"))
    return method.double()


def batch_of(method, size=16, log=LOG, seed=0):
    return Batch.of(next(Sampler(log, method.negatives, size, seed, method.sample).epoch(0)))


def samples(drawn, kinds):
    """The samples of a batch as lists of (user, item), by k."""
    users, items, found, at = drawn.users.tolist(), drawn.items.tolist(), {}, 0
    for k, count in zip(kinds, drawn.labels.tolist()[1:], strict=True):
        found[k] = []
        for _ in range(count):
            found[k].append(list(zip(users[at : at + k], items[at : at + k], strict=True)))
            at += k
    assert at == len(users) == len(items)
    return found


def excess(score, sample):
    """The x of a sample, from the formula."""
    k = len(sample)
    own = sum(score(user, item) for user, item in sample) / k
    return own - sum(score(sample[t][0], sample[(t + 1) % k][1]) for t in range(k)) / k


def scorer(method):
    users, items = method.backbone.reps()
    return lambda user, item: float(method.backbone.score(users[user], items[item]))


@pytest.mark.parametrize("backbone", [*SMALL, Distance], ids=["mf", "neumf", "lightgcn", "own"])
def test_contract(backbone):
    check_method(lambda one: CPR(one, oversampling=3.0), [backbone])


@pytest.mark.parametrize("settings", [{"oversampling": 1.0, "max_pairs": 4}, {"only_max_pairs": True}], ids=str)
def test_contract_of_variants(settings):
    check_method(lambda one: CPR(one, **settings), SMALL[:1])


@pytest.mark.parametrize(
    ("size", "number", "ratio", "expected"),
    [
        (1024, 2, 3, [768, 256]),
        (2048, 2, 3, [1536, 512]),
        (130, 3, 3, [90, 30, 10]),
        (7, 1, 3, [7]),
        (1, 2, 3, [1, 0]),
        (3, 5, 1, [1, 1, 1, 0, 0]),  # rounded alone, these would be five
    ],
)
def test_shares_of_samples(size, number, ratio, expected):
    assert shares(size, number, ratio) == expected


def test_as_many_samples_are_drawn_and_kept_as_the_oversampling_says(monkeypatch):
    log = skewed_log(users=500, items=300, pairs=5000)
    method = built(CPR(MF(dim=4, init_std=0.1), max_pairs=3, ratio=3, oversampling=3), log)
    drawn = batch_of(method, 2048, log)
    assert drawn.labels.tolist() == [2048, 4608, 1536]
    assert len(drawn.users) == 2 * 4608 + 3 * 1536
    seen = []
    plain = CPR.excess
    monkeypatch.setattr(CPR, "excess", lambda *args: seen.append(plain(*args)) or seen[-1])
    method.loss(drawn)
    assert [len(one) for one in seen] == [6144, 2048]
    assert [one.requires_grad for one in seen] == [False, True]


def test_an_oversampling_that_is_no_binary_number_is_not_rounded_up():
    method = built(CPR(MF(dim=2), oversampling=1.1, only_max_pairs=True, max_pairs=2))
    assert 1.1 * 50 > 55
    assert batch_of(method, 50).labels.tolist() == [50, 55]


@pytest.mark.parametrize("k", [2, 3, 4])
def test_no_crossed_pair_is_in_training(k):
    method = built(CPR(MF(dim=2), max_pairs=k, only_max_pairs=True, oversampling=2))
    drawn = batch_of(method, 200)
    for sample in samples(drawn, [k])[k]:
        assert set(sample) <= PAIRS
        assert not {(sample[t][0], sample[(t + 1) % k][1]) for t in range(k)} & PAIRS


@pytest.mark.parametrize("k", [2, 3])
def test_samples_are_uniform_over_all_that_are_allowed(k):
    """Every allowed k-tuple of a tiny log comes about as often as any other, and no other comes at all."""
    user, item = np.array([0, 0, 1, 2, 3, 3]), np.array([0, 1, 1, 2, 3, 0])
    log = Interactions.from_codes(pl.Series(range(4)), pl.Series(range(5)), user.astype("i4"), item.astype("i4"))
    pairs = list(zip(log.user.tolist(), log.item.tolist(), strict=True))
    allowed = {
        rows
        for rows in itertools.product(range(len(pairs)), repeat=k)
        if not {(pairs[rows[t]][0], pairs[rows[(t + 1) % k]][1]) for t in range(k)} & set(pairs)
    }
    method = built(CPR(MF(dim=2), max_pairs=k, only_max_pairs=True, oversampling=1), log)
    number = 400 * len(allowed)
    found = Counter(tuple(row) for row in method.draw_samples(k, number, np.random.default_rng(1)).tolist())
    assert set(found) == allowed
    counts = np.array(list(found.values()))
    # Chi-square: its mean is the degrees of freedom, its variance twice that.
    free = len(allowed) - 1
    assert ((counts - 400) ** 2 / 400).sum() < free + 5 * math.sqrt(2 * free)
    share = len(allowed) / len(pairs) ** k
    assert method.accepted[k] == pytest.approx(share, abs=4 * math.sqrt(share / 4096))
    assert method.diagnostics()["accepted"][str(k)] == round(method.accepted[k], 4)


def test_other_steps_have_other_samples():
    method = built(CPR(MF(dim=2)))
    one, two = itertools.islice(Sampler(LOG, method.negatives, 16, 0, method.sample).epoch(0), 2)
    assert not np.array_equal(one.users, two.users)
    again = next(Sampler(LOG, method.negatives, 16, 0, method.sample).epoch(0))
    assert np.array_equal(one.users, again.users)
    assert np.array_equal(one.rows, again.rows)
    assert np.array_equal(LOG.user[one.rows], one.users)
    assert np.array_equal(LOG.item[one.rows], one.items)


def test_data_without_samples():
    full = Interactions.from_codes(
        pl.Series(range(3)), pl.Series(range(3)), np.repeat(range(3), 3).astype("i4"), np.tile(range(3), 3).astype("i4")
    )
    method = built(CPR(MF(dim=2)), full)
    with pytest.raises(DataError, match="only 0 of .* samples of 2 pairs"):
        batch_of(method, 4, full)


@pytest.mark.parametrize("backbone", [MF(dim=4, init_std=0.5), NeuMF(dim=4, layers=(8, 4), init_std=0.5), Distance()])
@pytest.mark.parametrize("oversampling", [1, 2.5])
def test_loss_is_the_formula(backbone, oversampling):
    method = built(CPR(backbone, max_pairs=4, ratio=2, oversampling=oversampling, reg=0.3)).eval()
    drawn = batch_of(method, 14)
    found = samples(drawn, [2, 3, 4])
    assert [len(found[k]) for k in (2, 3, 4)] == [math.ceil(oversampling * share) for share in (8, 4, 2)]
    with torch.no_grad():
        score = scorer(method)
        ranked = sorted((excess(score, sample), sample) for k in found for sample in found[k])[:14]
        # Without oversampling all samples are kept, which gives the plain mean.
        expected = np.mean([np.log1p(np.exp(-x)) for x, _ in ranked])
        users, items = zip(*[pair for _, sample in ranked for pair in sample], strict=True)
        for ego, codes in ((method.backbone.ego_users, users), (method.backbone.ego_items, items)):
            expected += 0.5 * 0.3 * ego(torch.tensor(codes)).square().sum(1).mean().item()
    assert float(method.loss(drawn).detach()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("make", [lambda: MF(dim=3, init_std=0.5), lambda: NeuMF(dim=2, layers=(4, 2), init_std=0.5)])
def test_gradient_is_that_of_the_value(make):
    method = built(CPR(make(), oversampling=2, reg=0.1)).eval()
    drawn = batch_of(method, 6)
    method.loss(drawn).backward()
    rng = np.random.default_rng(0)
    for parameter in method.parameters():
        direction = torch.from_numpy(rng.standard_normal(parameter.shape))
        slope = 0.0 if parameter.grad is None else float((parameter.grad * direction).sum())
        values = []
        with torch.no_grad():
            for step in (1e-5, -2e-5):
                parameter.add_(step * direction)
                values.append(float(method.loss(drawn)))
            parameter.add_(1e-5 * direction)
        assert slope == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("oversampling", [1, 3])
def test_what_belongs_to_a_user_or_an_item_alone_cancels(oversampling):
    """The defining invariance: s + a_u + b_i has the same loss, and a and b get no gradient."""
    plain, biased = (built(CPR(one(), oversampling=oversampling, reg=0.0)) for one in (Distance, Biased))
    biased.load_state_dict(plain.state_dict(), strict=False)
    drawn = batch_of(plain, 64)
    losses = [method.loss(drawn) for method in (plain, biased)]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-12)
    losses[1].backward()
    assert biased.backbone.of_items.grad.abs().max() > 1e-4
    for bias in (biased.backbone.user_bias, biased.backbone.item_bias):
        assert bias.abs().max() > 1  # there is something to cancel
        assert bias.grad.abs().max() < 1e-15


def test_two_pairs_are_the_mean_of_two_bpr_margins():
    method = built(CPR(MF(dim=4, init_std=1.0), max_pairs=2, oversampling=1, reg=0.0))
    drawn = batch_of(method, 20)
    (u1, u2), (i1, i2) = drawn.users.view(-1, 2).T, drawn.items.view(-1, 2).T
    users, items = method.backbone.reps()
    table = users @ items.T
    margin = 0.5 * ((table[u1, i1] - table[u1, i2]) + (table[u2, i2] - table[u2, i1]))
    expected = torch.nn.functional.softplus(-margin).mean()
    assert method.loss(drawn).item() == pytest.approx(expected.item(), rel=1e-12)


def test_where_a_sample_begins_does_not_matter():
    method = built(CPR(MF(dim=4, init_std=1.0), max_pairs=4, only_max_pairs=True, oversampling=1))
    drawn = batch_of(method, 9)
    turned = [codes.view(-1, 4).roll(1, 1).reshape(-1) for codes in (drawn.users, drawn.items)]
    mirrored = [codes.view(-1, 4).flip(1).reshape(-1) for codes in (drawn.users, drawn.items)]
    plain, same, other = (
        method.loss(Batch(*codes, drawn.negatives, drawn.labels)).item()
        for codes in ((drawn.users, drawn.items), turned, mirrored)
    )
    assert plain == pytest.approx(same, rel=1e-12)
    assert plain != pytest.approx(other, rel=1e-6)  # the other way round, other items are exchanged


def test_layout_chooses_whole_samples():
    layout = Layout(range(2, 4), [3, 2])  # pairs 0-1, 2-3, 4-5, then 6-8, 9-11
    pairs, left = layout.chosen(torch.tensor([4, 0, 2]))
    assert pairs.tolist() == [0, 1, 4, 5, 9, 10, 11]
    assert left == Layout(range(2, 4), [2, 1])
    assert left.next(pairs).tolist() == [1, 0, 5, 4, 10, 11, 9]
    assert left.means(pairs.double()).tolist() == [0.5, 4.5, 10.0]
    pairs, left = layout.chosen(torch.tensor([1]))
    assert left.means(left.next(pairs.double())).tolist() == [2.5]


def test_the_output_bias_of_neumf_gets_no_gradient():
    method = built(CPR(NeuMF(dim=4, layers=(8, 4), init_std=0.5), oversampling=2, reg=0.0))
    method.loss(batch_of(method, 32)).backward()
    found = {name: value.grad for name, value in method.named_parameters() if value.grad is not None}
    biases = [grad for grad in found.values() if grad.numel() == 1]
    assert len(biases) == 1
    assert biases[0].abs().max() < 1e-15
    assert max(float(grad.abs().max()) for grad in found.values()) > 1e-4


def test_default_oversampling_depends_on_the_cost_of_a_score():
    found = [CPR(backbone).settings.oversampling for backbone in (MF(), LightGCN(), NeuMF(), Distance())]
    assert found == [3.0, 3.0, 1.0, 1.0]
    searched = CPR.Settings.search_space()
    assert set(searched) == {"max_pairs", "ratio", "oversampling"}
    for name, values in searched.items():
        assert CPR(MF()).settings.as_dict()[name] in values
        assert CPR(NeuMF()).settings.as_dict()[name] in values


def test_lists_are_less_popular_than_those_of_normal():
    """Relevance is independent of popularity here: groups like their own items, shown more or less often."""
    rng, groups, each = np.random.default_rng(0), 4, 40
    shown = np.tile(np.geomspace(1, 0.05, each), groups)
    chance = np.kron(np.eye(groups), np.ones((50, each))) * 0.5 + 0.05
    user, item = np.nonzero(rng.random(chance.shape) < chance * shown)
    log = Interactions.from_codes(
        pl.Series(range(groups * 50)), pl.Series(range(groups * each)), user.astype("i4"), item.astype("i4")
    )
    mean = {}
    for name, method in (("normal", Normal(MF(dim=16))), ("cpr", CPR(MF(dim=16)))):
        model = method.fit(log, epochs=40, batch_size=256, lr=0.01)
        lists = top_n(model.scores, np.arange(len(log.users), dtype=np.int32), 20, hide=[log])
        mean[name] = log.item_counts[lists.items].mean()
    assert mean["cpr"] < 0.8 * mean["normal"]


def test_loss_of_a_new_user_is_pairwise():
    positive, negative = torch.tensor([1.0, 3.0]), torch.tensor([0.5, 2.0, -1.0])
    expected = np.mean([np.log1p(np.exp(j - i)) for i in (1.0, 3.0) for j in (0.5, 2.0, -1.0)])
    assert CPR(MF()).user_loss(positive, negative).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_pairs": 1}, "max_pairs is 1; expected a whole number from 2 up"),
        ({"max_pairs": 2.0}, "max_pairs is 2.0"),
        ({"ratio": 0}, "ratio is 0; expected a number above 0"),
        ({"oversampling": 0.5}, "oversampling is 0.5; expected a number of at least 1"),
        ({"only_max_pairs": 2}, "only_max_pairs is 2; expected true or false"),
        ({"reg": -1}, "reg is -1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ConfigError, match=message):
        CPR(MF(), **settings)


def test_what_was_drawn_for_the_step_counts_samples_only():
    method = built(CPR(MF(dim=2), oversampling=1))
    empty = np.empty(0, np.int64)
    given = SampledBatch(np.zeros(5, np.int64), empty, empty, empty)
    drawn = method.sample(given, 0, np.random.default_rng(0))
    assert drawn.labels.tolist() == [5, 4, 1]
    assert len(drawn.users) == 11


def test_settings_of_version_0_1():
    old = {"k_max": 4, "ratio": 2.0, "k_only": True, "rate": 2.5, "reg": 0.5}
    found = CPR.Settings.parse(renamed("cpr", old))
    assert (found.max_pairs, found.ratio, found.only_max_pairs, found.oversampling) == (4, 2.0, True, 2.5)
