"""DICE: the sampler on all positives of a tiny log, losses from their formulas, distance correlation, schedules."""

import copy
from collections import Counter
from itertools import permutations

import numpy as np
import polars as pl
import pytest
import torch
from torch.nn.functional import softplus

from icpe import MF, ConfigError, LightGCN, NeuMF, Normal
from icpe.data.interactions import Interactions
from icpe.methods._parts.distance_correlation import DistanceCorrelation
from icpe.methods._parts.popularity_margin import PopularityMarginSampler
from icpe.methods.dice import DICE, first_positions, products_with_penalty
from icpe.ranking.tables import DotScores, SumScores
from icpe.rng import stream
from icpe.runs.earlier_versions import renamed
from icpe.testing.backbones import Distance
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, check_method
from icpe.train import Trainer, TrainSettings
from icpe.train.batch import Batch
from icpe.train.loop import Validation
from icpe.train.sampling import Sampler

LOG = skewed_log(users=40, items=30, pairs=400)
WITHOUT_CAUSES = {"interest_weight": 0.0, "conformity_weight": 0.0}
SAMPLING = {"min_candidates": 2, "margin": 1.0}  # small enough for small logs to have candidates


def built(method, log=LOG):
    method.build(log, stream(0, "test"))
    return method.double()


def batch_of(method, size=16, log=LOG):
    return Batch.of(next(Sampler(log, method.negatives, size, 0, method.sample).epoch(0)))


def naive_correlation(first, second):
    """Distance correlation, from its definition, with a little under every root."""
    sides = []
    for rows in (first, second):
        far = np.array([[np.linalg.norm(one - other) for other in rows] for one in rows])
        sides.append(far - far.mean(0) - far.mean(1)[:, None] + far.mean())
    a, c = sides
    common, of_a, of_c = ((one * other).mean() + 1e-8 for one, other in ((a, c), (a, a), (c, c)))
    return np.sqrt(common) / np.sqrt(np.sqrt(of_a) * np.sqrt(of_c))


@pytest.mark.parametrize("backbone", SMALL, ids=["mf", "neumf", "lightgcn"])
def test_contract(backbone):
    check_method(lambda one: DICE(one, **SAMPLING), [backbone])


def test_contract_of_a_variant():
    settings = {
        "min_candidates": 40,
        "conformity_weight": 0.3,
        "discrepancy": "l2",
        "discrepancy_weight": 1e-3,
        "rank_by": "interest",
        "negatives": 1,
    }
    check_method(lambda one: DICE(one, **settings), SMALL[:1])


def test_contract_of_two_whole_channels_of_any_backbone():
    check_method(lambda one: DICE(one, size="full", rank_by="interest", **SAMPLING), [Distance])
    with pytest.raises(ConfigError, match="no form of half the width.*full"):
        DICE(Distance())


# --- the sampler -----------------------------------------------------------------------------------------------------


def tiny_log():
    """Counts 0 to 8 of nine items; user 0 has used items of all kinds."""
    pairs = {(user, item) for item in range(9) for user in range(1, 1 + item)}
    pairs -= {(1, 8), (1, 4)}
    pairs |= {(0, 8), (0, 4)}
    user, item = np.array(sorted(pairs), np.int32).T
    return Interactions.from_codes(pl.Series(range(9)), pl.Series(range(9)), user, item)


def sets(log, user, item, margin):
    """P and L, from their definition."""
    counts = log.item_counts
    others = set(range(len(log.items))) - set(log.item[log.user == user].tolist())
    more = {j for j in others if counts[j] > counts[item] + margin}
    return more, {j for j in others if counts[j] < counts[item] / 2}


@pytest.mark.parametrize("margin", [0.0, 1.5, 3.0])
@pytest.mark.parametrize("pool", [1, 2, 4])
def test_every_positive_of_a_tiny_log_draws_as_the_rule_says(margin, pool):
    log, draws, count = tiny_log(), 600, 2
    assert log.item_counts.tolist() == list(range(9))
    sampler, rng = PopularityMarginSampler(log, pool), np.random.default_rng(0)
    users, items = log.user.astype(np.int64), log.item.astype(np.int64)
    given = np.full((len(log), count), -1)
    for place, user in enumerate(users):
        given[place] = sorted(set(range(9)) - set(items[users == user].tolist()))[:1] * 2
    drawn, marks = zip(*(sampler.sample(users, items, given, margin, rng) for _ in range(draws)), strict=True)
    kinds = Counter()
    for place, (user, item) in enumerate(zip(users, items, strict=True)):
        more, less = sets(log, user, item, margin)
        found = Counter(tuple(one[place].tolist()) for one in drawn)
        ups = np.array([one[place] for one in marks])
        enough = max(pool, count)
        if len(more) < enough and len(less) < count:
            kinds["given"] += 1
            assert set(found) == {tuple(given[place])}
            assert (ups == (log.item_counts[given[place]] > log.item_counts[item])).all()
            continue
        assert all((one[place][0] in more) == bool(up[place][0]) for one, up in zip(drawn, marks, strict=True))
        if len(more) < enough:
            kinds["less"] += 1
            expected, chances = list(permutations(less, count)), None
        elif len(less) < enough:
            kinds["more"] += 1
            expected, chances = list(permutations(more, count)), None
        else:
            kinds["both"] += 1
            expected = list(permutations(more | less, count))
            # ¼ for each pattern of sets, uniform within.
            sizes = {True: len(more), False: len(less)}
            chances = [0.25 / sizes[a in more] / (sizes[b in more] - ((a in more) == (b in more))) for a, b in expected]
            assert sum(chances) == pytest.approx(1)
            assert abs(ups.mean() - 0.5) < 0.1
        assert set(found) <= set(expected)
        share = np.full(len(expected), 1 / len(expected)) if chances is None else np.array(chances)
        counted = np.array([found[one] for one in expected])
        chi = ((counted - draws * share) ** 2 / (draws * share)).sum()
        free = len(expected) - 1
        assert chi < free + 6 * np.sqrt(2 * free) + 3, (user, item)
    assert kinds["given"] > 0
    assert kinds["less"] > 0
    if pool < 4 and margin < 3:
        assert kinds["both"] > 0


def test_sampler_on_a_larger_log():
    log = skewed_log(users=300, items=400, pairs=9000)
    sampler, rng = PopularityMarginSampler(log, 20), np.random.default_rng(0)
    users, items, counts = log.user.astype(np.int64), log.item.astype(np.int64), log.item_counts
    fallback = np.full((len(log), 4), -1)
    drawn, more = sampler.sample(users, items, fallback, 7.5, rng)
    given = (drawn == -1).any(1)
    assert given.mean() < 0.2
    drawn, more, users, items = drawn[~given], more[~given], users[~given], items[~given]
    own = np.broadcast_to(counts[items][:, None], drawn.shape)
    assert (counts[drawn][more] > own[more] + 7.5).all()
    assert (counts[drawn][~more] < own[~more] / 2).all()
    used = set(zip(log.user.tolist(), log.item.tolist(), strict=True))
    assert not used & set(zip(np.repeat(users, 4).tolist(), drawn.ravel().tolist(), strict=True))
    assert (np.diff(np.sort(drawn, axis=1), axis=1) > 0).all()
    both = more.any(1) & ~more.all(1)
    assert both.sum() > 1000
    # The sizes of both sets, by definition, decide for a sample of positives which one is drawn from.
    for row in rng.choice(len(users), 200, replace=False):
        up, down = sets(log, users[row], items[row], 7.5)
        if len(up) < 20:
            assert not more[row].any()
        elif len(down) < 20:
            assert more[row].all()


def test_draws_of_a_set_as_small_as_their_number_take_all_of_it():
    log = tiny_log()
    sampler = PopularityMarginSampler(log, 1)
    user, item = np.array([5]), np.array([8])  # n = 8: nobody is more popular; less than 4: items 0 to 3, all unused
    assert sets(log, 5, 8, 0.0) == (set(), {0, 1, 2, 3})
    drawn, more = sampler.sample(user, item, np.full((1, 4), -1), 0.0, np.random.default_rng(0))
    assert sorted(drawn[0].tolist()) == [0, 1, 2, 3]
    assert not more.any()


def test_given_negatives_are_marked_by_plain_popularity():
    user, item = np.array([(0, 0), (1, 1), (2, 2), (3, 2)], np.int32).T  # counts 1, 1, 2 and 0
    log = Interactions.from_codes(pl.Series(range(4)), pl.Series(range(4)), user, item)
    given = np.array([[1, 2, 3]])
    drawn, more = PopularityMarginSampler(log, 40).sample(
        np.array([0]), np.array([0]), given, 5.0, np.random.default_rng(0)
    )
    assert drawn.tolist() == given.tolist()
    assert more.tolist() == [[False, True, False]]


def test_margin_goes_by_the_data_and_decays():
    counts = np.repeat([0, 10, 30, 100], 5)
    user, item = np.array([(u, i) for i, n in enumerate(counts) for u in range(n)], np.int32).T
    log = Interactions.from_codes(pl.Series(range(120)), pl.Series(range(20)), user, item)
    expected = np.quantile(counts, 0.75) - np.quantile(counts, 0.5)
    assert expected > 20
    assert built(DICE(MF(dim=4)), log).first_margin == expected
    assert built(DICE(MF(dim=4), margin_scale=0.5), log).first_margin == expected / 2
    assert built(DICE(MF(dim=4), margin=7, margin_scale=2.0), log).first_margin == 14
    assert built(DICE(MF(dim=4)), skewed_log(users=9, items=9, pairs=20)).first_margin == 5
    method, seen = built(DICE(MF(dim=4), decay=0.5), log), []
    plain = method.sampler.sample
    method.sampler.sample = lambda *given: seen.append(given[3]) or plain(*given)
    for epoch in range(3):
        next(Sampler(log, method.negatives, 8, 0, method.sample).epoch(epoch))
    assert seen == [expected, expected / 2, expected / 4]


def test_marks_and_negatives_reach_the_batch():
    log = skewed_log(users=300, items=400, pairs=9000)
    method = built(DICE(MF(dim=4), min_candidates=20, margin=7.5), log)
    batch = batch_of(method, 500, log)
    assert batch.labels.shape == batch.negatives.shape == (500, 4)
    counts = torch.from_numpy(log.item_counts)
    own = counts[batch.items][:, None].expand(-1, 4)
    clear = (counts[batch.negatives] > own + 7.5) | (counts[batch.negatives] < own / 2)
    assert clear.double().mean() > 0.8
    assert torch.equal(batch.labels[clear] == 1, (counts[batch.negatives] > own)[clear])
    assert 0.1 < batch.labels.double().mean() < 0.9


# --- distance correlation --------------------------------------------------------------------------------------------


def normal_rows(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def test_correlation_is_the_definition():
    first, second = normal_rows(30, 4), normal_rows(30, 3, seed=1)
    for other in (second, first[:, :3] + 0.3 * second):
        found = DistanceCorrelation()(first, other).item()
        assert found == pytest.approx(naive_correlation(first.numpy(), other.numpy()), abs=1e-7)
    single = DistanceCorrelation()(first.float(), second.float())
    assert single.dtype == torch.float32
    assert single.item() == pytest.approx(naive_correlation(first.numpy(), second.numpy()), abs=1e-5)


def test_correlation_with_itself_turned_scaled_and_shifted_is_one():
    rows = normal_rows(50, 6)
    turn = torch.linalg.qr(normal_rows(6, 6, seed=1))[0]
    for other in (rows, -2.5 * rows @ turn + 7):
        assert DistanceCorrelation()(rows, other).item() == pytest.approx(1, abs=1e-6)
    assert DistanceCorrelation()(rows, normal_rows(50, 6, seed=2)).item() < 0.8


def test_gradient_of_the_correlation():
    first, second = normal_rows(5, 3).requires_grad_(), normal_rows(5, 4, seed=1).requires_grad_()
    correlation = DistanceCorrelation()
    assert torch.autograd.gradcheck(correlation, (first, second))
    assert torch.autograd.gradcheck(lambda one: 3 * correlation(one, second.detach()), (first,))


def test_equal_rows_have_finite_gradients_and_no_direction():
    rows = normal_rows(6, 3).float()
    rows[3] = rows[1]
    for first in (rows, torch.full((4, 3), 0.1), torch.zeros(1, 3)):
        first = first.clone().requires_grad_()
        second = normal_rows(len(first), 2, seed=3).float().requires_grad_()
        DistanceCorrelation()(first, second).backward()
        assert first.grad.isfinite().all()
        assert second.grad.isfinite().all()
    # Moved together, the two equal rows stay equal, and the value has a slope there.
    rows, second, step = rows.double().requires_grad_(), normal_rows(6, 2, seed=3), torch.zeros(6, 3).double()
    step[[1, 3]] = torch.tensor([0.3, -0.7, 0.2]).double()
    DistanceCorrelation()(rows, second).backward()
    values = [naive_correlation((rows.detach() + 1e-6 * sign * step).numpy(), second.numpy()) for sign in (1, -1)]
    assert (rows.grad * step).sum().item() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-6)


def test_memory_serves_for_other_sizes_and_kinds():
    correlation = DistanceCorrelation()
    for size, kind in ((9, torch.float64), (5, torch.float64), (12, torch.float32), (12, torch.float64)):
        first, second = (normal_rows(size, 3, seed=seed).to(kind) for seed in (0, 1))
        assert correlation(first, second).item() == DistanceCorrelation()(first, second).item()
    with pytest.raises(ValueError, match="3 rows on one side and 4 on the other"):
        correlation(normal_rows(3, 2), normal_rows(4, 2))


# --- the loss --------------------------------------------------------------------------------------------------------


def expected_loss(method, batch, a, b):
    """The whole loss from its formula, pair by pair."""
    with torch.no_grad():
        return _expected_loss(method, batch, a, b)


def _expected_loss(method, batch, a, b):
    channels = method.backbone.first, method.backbone.second
    tables = [[side.detach() for side in channel.reps()] for channel in channels]

    def gaps(user, item, other):
        return [
            float(channel.score(users[user], items[item]) - channel.score(users[user], items[other]))
            for channel, (users, items) in zip(channels, tables, strict=True)
        ]

    def cost(x):  # −log σ(x)
        return np.log1p(np.exp(-x))

    terms = []
    for user, item, others, marks in zip(
        *map(torch.Tensor.tolist, (batch.users, batch.items, batch.negatives, batch.labels)), strict=True
    ):
        for other, mark in zip(others, marks, strict=True):
            interest, conformity = gaps(user, item, other)
            terms.append(cost(interest + conformity))
            terms[-1] += a * cost(interest) + b * cost(-conformity) if mark else b * cost(conformity)
    loss = np.mean(terms)
    weight, everything = method.settings.discrepancy_weight, torch.cat([batch.items, batch.negatives.reshape(-1)])
    for side, codes in enumerate((batch.users, everything)):
        distinct = sorted(set(codes.tolist()))
        first, second = (table[side][distinct].numpy() for table in tables)
        if method.settings.discrepancy == "dcor":
            loss += weight * naive_correlation(first, second)
        elif method.settings.discrepancy == "l1":
            loss -= weight * np.abs(first - second).mean()
        else:
            loss -= weight * np.square(first - second).mean()
    backbone = method.backbone
    for rows in (backbone.ego_users(batch.users), backbone.ego_items(batch.items), backbone.ego_items(batch.negatives)):
        loss += 0.5 * method.reg * rows.detach().square().sum(-1).mean().item()
    return loss


@pytest.mark.parametrize("discrepancy", ["dcor", "l1", "l2"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: MF(dim=6, init_std=0.7),
        lambda: NeuMF(dim=4, layers=(8, 4), init_std=0.7),
        lambda: LightGCN(dim=4, layers=2, init_std=0.7),
    ],
    ids=["mf", "neumf", "lightgcn"],
)
def test_loss_is_the_formula(make, discrepancy):
    weights = {"interest_weight": 0.4, "conformity_weight": 0.7, "discrepancy_weight": 0.9, "reg": 0.2}
    method = built(DICE(make(), negatives=3, discrepancy=discrepancy, **SAMPLING, **weights)).eval()
    batch = batch_of(method, 24)
    assert 0 < batch.labels.sum() < batch.labels.numel()
    assert method.loss(batch).item() == pytest.approx(expected_loss(method, batch, 0.4, 0.7), rel=1e-7)
    method.refresh(1, 0)  # an epoch later both weights are smaller
    assert method.loss(batch).item() == pytest.approx(expected_loss(method, batch, 0.36, 0.63), rel=1e-6)


def test_weight_of_conformity_is_that_of_interest_unless_told():
    one, two = (
        built(DICE(MF(dim=4, init_std=0.5), interest_weight=0.5, conformity_weight=b, **SAMPLING)) for b in (None, 0.5)
    )
    batch = batch_of(one)
    assert one.loss(batch).item() == two.loss(batch).item()
    assert one.diagnostics() == {"margin": 1.0, "interest_weight": 0.5, "conformity_weight": 0.5}


@pytest.mark.parametrize("make", [lambda: MF(dim=4, init_std=0.5), lambda: NeuMF(dim=4, layers=(4, 2), init_std=0.5)])
def test_gradient_is_that_of_the_value(make):
    weights = {"interest_weight": 0.4, "conformity_weight": 0.7, "discrepancy_weight": 0.5, "reg": 0.3}
    method = built(DICE(make(), **weights, **SAMPLING)).eval()
    rng = np.random.default_rng(0)
    with torch.no_grad():  # biases of 0 would leave units of NeuMF at the kink
        for parameter in method.parameters():
            parameter.add_(torch.from_numpy(0.2 * rng.standard_normal(parameter.shape)))
    batch = batch_of(method, 6)
    method.loss(batch).backward()
    for parameter in method.parameters():
        direction, values = torch.from_numpy(rng.standard_normal(parameter.shape)), []
        slope = float((parameter.grad * direction).sum())
        with torch.no_grad():
            for step in (1e-5, -2e-5):
                parameter.add_(step * direction)
                values.append(float(method.loss(batch)))
            parameter.add_(1e-5 * direction)
        assert slope == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4, abs=1e-7)


def test_gradient_of_products_with_their_penalty():
    users, items = normal_rows(3, 2).requires_grad_(), normal_rows(3, 4, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda one, two: products_with_penalty(one, two, 0.7), (users, items))


def test_without_its_terms_it_is_bpr_on_the_sum_of_both_channels():
    dice = built(DICE(MF(dim=8, init_std=0.5), **WITHOUT_CAUSES, discrepancy_weight=0.0, reg=0.1, negatives=3))
    plain = built(Normal(MF(dim=8), loss="bpr", negatives=3, reg=0.1))
    first, second = dice.backbone.first, dice.backbone.second
    with torch.no_grad():
        plain.backbone.user_table.copy_(torch.cat([first.user_table, second.user_table], 1))
        plain.backbone.item_table.copy_(torch.cat([first.item_table, second.item_table], 1))
    batch = Batch.of(next(Sampler(LOG, plain.negatives, 32, 0).epoch(0)))  # uniform negatives
    marked = Batch(batch.users, batch.items, batch.negatives, batch.negatives % 2)
    losses = [method.loss(one) for method, one in ((dice, marked), (plain, batch))]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-12)
    for loss in losses:
        loss.backward()
    joined = torch.cat([first.item_table.grad, second.item_table.grad], 1)
    torch.testing.assert_close(joined, plain.backbone.item_table.grad)
    joined = torch.cat([first.user_table.grad, second.user_table.grad], 1)
    torch.testing.assert_close(joined, plain.backbone.user_table.grad)


def test_interest_loss_leaves_the_conformity_channel_alone():
    """The difference that the weight makes in the gradients is that of the interest loss."""
    grads = []
    for a in (0.0, 0.8):
        method = built(DICE(MF(dim=6, init_std=0.5), interest_weight=a, conformity_weight=0.1, **SAMPLING))
        batch = batch_of(method)
        method.loss(batch).backward()
        grads.append([one.item_table.grad for one in (method.backbone.first, method.backbone.second)])
    assert torch.equal(grads[0][1], grads[1][1])
    assert (grads[0][0] - grads[1][0]).abs().max() > 1e-3


def test_discrepancy_alone_brings_the_correlation_down():
    method = built(DICE(MF(dim=8, init_std=0.5), **WITHOUT_CAUSES, discrepancy_weight=1.0, reg=0.0, **SAMPLING))
    with torch.no_grad():  # channels that depend on each other
        for seed, channel in enumerate((method.backbone.first, method.backbone.second)):
            channel.user_table.copy_(normal_rows(40, 4) + 0.3 * normal_rows(40, 4, seed=1 + seed))
            channel.item_table.copy_(normal_rows(30, 4) + 0.3 * normal_rows(30, 4, seed=3 + seed))
    batch = batch_of(method, 64)

    def correlation():
        users = [one.user_table.detach().numpy() for one in (method.backbone.first, method.backbone.second)]
        items = [one.item_table.detach().numpy() for one in (method.backbone.first, method.backbone.second)]
        return naive_correlation(*users), naive_correlation(*items)

    before = correlation()
    for _ in range(100):
        codes = torch.cat([batch.items[:, None], batch.negatives], 1).view(-1)
        rows = [one.rows(batch.users, codes) for one in (method.backbone.first, method.backbone.second)]
        users, items = zip(*rows, strict=True)
        term = method.dependence(users, batch.users) + method.dependence(items, codes)
        found = torch.autograd.grad(term, list(method.parameters()))
        with torch.no_grad():
            for parameter, grad in zip(method.parameters(), found, strict=True):
                parameter.sub_(5.0 * grad)
    after = correlation()
    assert after[0] < before[0] - 0.1
    assert after[1] < before[1] - 0.1


def test_only_so_many_distinct_rows_enter_the_correlation(monkeypatch):
    seen = []
    plain = DistanceCorrelation.__call__
    monkeypatch.setattr(DistanceCorrelation, "__call__", lambda *args: seen.append(args[1:]) or plain(*args))
    method = built(DICE(MF(dim=4), discrepancy_rows=7, **SAMPLING))
    batch = batch_of(method, 64)
    method.loss(batch)
    assert [tuple(one.shape) for pair in seen for one in pair] == [(7, 2)] * 4
    wanted = list(dict.fromkeys(batch.users.tolist()))[:7]
    assert torch.equal(seen[0][0], method.backbone.first.user_table[wanted])
    assert torch.equal(seen[0][1], method.backbone.second.user_table[wanted])


def test_first_positions():
    codes = np.random.default_rng(0).integers(20, size=200)
    expected = sorted(np.unique(codes, return_index=True)[1].tolist())
    assert first_positions(torch.from_numpy(codes), 100).tolist() == expected
    assert first_positions(torch.from_numpy(codes), 4).tolist() == expected[:4]
    assert first_positions(torch.tensor([3]), 4).tolist() == [0]


# --- schedule, ranking, settings --------------------------------------------------------------------------------------


def test_weights_fade_after_every_epoch():
    shown = []
    trainer = Trainer(
        DICE(MF(dim=4), decay=0.5, interest_weight=0.2, conformity_weight=0.4, margin=8.0),
        LOG,
        0,
        TrainSettings(batch_size=64, epochs=3, evaluate_every=1),
    )
    trainer.run(on_evaluation=lambda record: shown.append((record["step"], record["dice"])))
    steps = trainer.steps // 3
    for step, values in shown:
        fade = 0.5 ** ((step - 1) // steps)
        assert values == pytest.approx(
            {"margin": 8 * fade, "interest_weight": 0.2 * fade, "conformity_weight": 0.4 * fade}
        )
    assert float(trainer.method.fade) == 0.25


@pytest.mark.parametrize("make", [lambda: MF(dim=4, init_std=0.5), lambda: NeuMF(dim=4, layers=(4, 2), init_std=0.5)])
def test_ranking_by_interest_is_the_first_channel(make):
    method = DICE(make())
    method.build(LOG, stream(0, "test"))
    with torch.no_grad():
        total = method.scores().block(np.arange(5), 0, 30)
        method.choose_ranking(rank_by="interest")
        assert method.ranks_by == "interest"
        interest = method.scores().block(np.arange(5), 0, 30)
        parts = [
            one.scores(*one.reps()).block(np.arange(5), 0, 30)
            for one in (method.backbone.first, method.backbone.second)
        ]
    assert np.allclose(interest, parts[0], atol=1e-6)
    assert np.allclose(total, parts[0] + parts[1], atol=1e-6)
    assert isinstance(method.scores(), DotScores) == isinstance(make(), MF)


def test_validation_chooses_what_ranks():
    def trained(better, **settings):
        def validate(method, last_share=None):
            """A validation that likes only one of the two."""
            length = method.scores().user_vectors.shape[1]
            return Validation(float(length == {"interest": 2, "total": 4}[better]), {}, None, 0.0)

        method = DICE(MF(dim=4, init_std=0.5), **settings)
        Trainer(method, LOG, 0, TrainSettings(batch_size=64, epochs=1), validate).run()
        return method

    assert trained("interest").ranks_by == "interest"
    assert trained("total").ranks_by == "total"
    assert trained("interest", rank_by="total").ranks_by == "total"
    chosen = trained("interest")
    other = copy.deepcopy(chosen)
    other.choose_ranking(rank_by="total")
    assert other.ranks_by == "total"
    other.load_state_dict(chosen.state_dict())
    assert other.ranks_by == "interest"
    assert chosen.settings.rank_by is None


def test_what_ranks_may_be_changed_after_training():
    model = DICE(MF(dim=4)).fit(LOG, epochs=2)
    assert model.method.ranks_by == "total"  # nothing was validated
    by_interest = model.adjusted(rank_by="interest")
    assert by_interest.scores.user_vectors.shape[1] == 2
    assert model.scores.user_vectors.shape[1] == 4
    assert by_interest.adjusted(rank_by="total").scores.user_vectors.shape[1] == 4
    with pytest.raises(ConfigError, match="rank_by is 'conformity'; expected one of total, interest"):
        model.adjusted(rank_by="conformity")


def test_scores_of_two_neumf_are_added():
    method = DICE(NeuMF(dim=4, layers=(4, 2)))
    method.build(LOG, stream(0, "test"))
    assert isinstance(method.scores(), SumScores)


def test_loss_of_a_new_user_is_pairwise():
    positive, negative = torch.tensor([1.0, 3.0]), torch.tensor([0.5, 2.0, -1.0])
    expected = softplus(negative[None] - positive[:, None]).mean()
    assert torch.equal(DICE(MF()).user_loss(positive, negative), expected)


def test_half_the_width_has_as_many_parameters_as_normal():
    def number(method):
        method.build(LOG, stream(0, "test"))
        return sum(one.numel() for one in method.parameters())

    plain = number(Normal(MF(dim=8)))
    assert number(DICE(MF(dim=8))) == plain
    assert number(DICE(MF(dim=8), size="full")) == 2 * plain


def test_settings_that_the_data_decide_are_left_open_and_the_defaults_are_searched():
    settings = DICE(MF()).settings.as_dict()
    given = {"margin": 3.0, "conformity_weight": 0.2, "rank_by": "total", "beta": 0.5, "boost": 0.1}
    assert {name for name, value in settings.items() if value is None} == set(given)
    assert DICE(MF(), **given).settings.as_dict() == settings | given
    searched = DICE.Settings.search_space()
    assert set(searched) == {"interest_weight", "discrepancy_weight", "decay", "margin_scale"}
    assert all(settings[name] in values for name, values in searched.items())
    assert [one.name for one in DICE.Settings.declared() if one.ranking] == ["beta", "boost", "rank_by"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": "third"}, "size is 'third'; expected one of half, full"),
        ({"negatives": 0}, "negatives is 0; expected a whole number from 1 up"),
        ({"margin": -1}, "margin is -1"),
        ({"kapa": 1}, "no setting 'kapa'"),
        ({"margin_scale": -1}, "margin_scale is -1"),
        ({"min_candidates": 0}, "min_candidates is 0"),
        ({"interest_weight": -0.1}, "interest_weight is -0.1"),
        ({"conformity_weight": -0.1}, "conformity_weight is -0.1"),
        ({"discrepancy_weight": -1}, "discrepancy_weight is -1"),
        ({"decay": 0}, "decay is 0; expected a number above 0 and at most 1"),
        ({"decay": 1.1}, "decay is 1.1"),
        ({"discrepancy": "cosine"}, "discrepancy is 'cosine'; expected one of dcor, l1, l2"),
        ({"discrepancy_rows": 0}, "discrepancy_rows is 0"),
        ({"rank_by": "conformity"}, "rank_by is 'conformity'; expected one of total, interest"),
        ({"reg": -1}, "reg is -1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ConfigError, match=message):
        DICE(MF(), **settings)


def test_what_is_no_backbone_is_refused():
    with pytest.raises(ConfigError, match="backbone is 'mf'; expected a backbone"):
        DICE("mf")


def test_settings_of_version_0_1():
    old = {
        "size": "half",
        "negatives": 4,
        "margin": 3.0,
        "margin_scale": 1.0,
        "pool": 7,
        "a": 0.2,
        "b": 0.3,
        "kappa": 0.4,
    }
    old |= {"decay": 0.9, "discrepancy": "l1", "dcor_rows": 8, "infer": "total", "reg": 0.5}
    found = DICE.Settings.parse(renamed("dice", old))
    assert (found.min_candidates, found.interest_weight, found.conformity_weight) == (7, 0.2, 0.3)
    assert (found.discrepancy_weight, found.discrepancy_rows, found.rank_by) == (0.4, 8, "total")
