"""CausPref: the graph without cycles, the draw of negatives, the loss from its formula, and ranking."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from icpe import MF, ConfigError, LightGCN, NeuMF, Normal
from icpe.methods import Batch
from icpe.methods._parts.acyclic import Matching, acyclicity, loss_of_pairs
from icpe.methods.causpref import CausPref
from icpe.metrics import evaluate_lists
from icpe.ranking import top_n
from icpe.ranking.tables import DotScores
from icpe.rng import stream
from icpe.runs.earlier_versions import renamed
from icpe.testing.backbones import Distance
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, block_log, check_method
from icpe.train import Trainer, TrainSettings

LOG = skewed_log(users=40, items=30, pairs=400)
MATRICES = ("user_links_change", "item_links_raw", "preference_change", "item_change", "preference_shift", "item_shift")


def built(method, double=False):
    method.build(LOG, stream(0, "test"))
    return method.double() if double else method


def shaken(method):
    """With all matrices somewhere, so that none can hide behind the identity or 0."""
    rng = np.random.default_rng(3)
    with torch.no_grad():
        for name in MATRICES:
            values = getattr(method, name, None)
            if values is not None:
                values += torch.from_numpy(rng.normal(0, 0.3, values.shape)).to(values.dtype)
    return method


def batch_of(count, size=6, seed=0):
    rng = np.random.default_rng(seed)
    users, items = torch.from_numpy(LOG.user[:size].astype(int)), torch.from_numpy(LOG.item[:size].astype(int))
    return Batch(users, items, torch.from_numpy(rng.integers(0, 30, (size, count))))


def arrays(method):
    """W, A, E_p, E_v, β_p, β_v from the parameters."""

    def near(change):
        return np.eye(*change.shape) + method.settings.map_lr * change.detach().double().numpy()

    links = method.item_links_raw.detach().double().numpy().copy()
    np.fill_diagonal(links, 0)
    found = [near(method.user_links_change), links]
    if hasattr(method, "item_change"):
        found += [near(method.preference_change), near(method.item_change)]
        found += [method.preference_shift.detach().double().numpy(), method.item_shift.detach().double().numpy()]
    return found


def softplus(x):
    return np.logaddexp(0, x)


@pytest.mark.parametrize("backbone", [*SMALL, Distance], ids=["mf", "neumf", "lightgcn", "own"])
def test_contract(backbone):
    check_method(lambda one: CausPref(one, candidates=3), [backbone])


@pytest.mark.parametrize("backbone", SMALL[:2], ids=["mf", "neumf"])
def test_contract_without_the_item(backbone):
    check_method(lambda one: CausPref(one, preference="itemfree", candidates=1, encoder_width=3), [backbone])


def test_cycles_are_counted():
    rng = np.random.default_rng(0)
    for size in (2, 5, 9):
        upper = np.triu(rng.normal(0, 3, (size, size)), 1)
        order = rng.permutation(size)
        without = torch.from_numpy(upper[order][:, order])
        assert abs(float(acyclicity(without))) < 1e-9
        assert float(torch.linalg.det(torch.eye(size) - without)) == pytest.approx(1, abs=1e-9)
        symmetric = torch.from_numpy(upper + upper.T)
        both_ways = 0.5 * float(symmetric.pow(4).sum())  # cycles of two steps, and there are longer ones
        assert float(acyclicity(symmetric)) > both_ways > 0
    three = torch.zeros(3, 3, dtype=torch.float64)
    three[0, 1] = three[1, 2] = three[2, 0] = 1.0  # tr e^M = 3·Σ 1/(3k)!
    assert float(acyclicity(three)) == pytest.approx(3 * (1 / 6 + 1 / 720 + 1 / 362880), rel=1e-5)


@pytest.mark.parametrize(("scale", "kind"), [(0.01, 64), (0.15, 64), (0.5, 32), (2.0, 5), (0.0, 4)])
def test_cycles_as_of_the_matrix_exponential(scale, kind):
    rng = np.random.default_rng(1)
    links = torch.from_numpy(rng.normal(0, scale, (kind, kind)))
    expected = float(torch.matrix_exp(links * links).trace()) - kind
    assert float(acyclicity(links)) == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert float(acyclicity(links.float())) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_gradient_of_cycles():
    rng = np.random.default_rng(2)
    links = torch.from_numpy(rng.normal(0, 0.6, (5, 5))).requires_grad_()
    assert torch.autograd.gradcheck(acyclicity, (links,))
    (found,) = torch.autograd.grad(acyclicity(links), links)
    (plain,) = torch.autograd.grad(torch.matrix_exp(links * links).trace(), links)
    torch.testing.assert_close(found, plain)
    torch.testing.assert_close(found, 2 * links * torch.matrix_exp(links * links).T)


def test_cycles_beyond_all_numbers_are_no_number():
    assert not torch.isfinite(acyclicity(torch.full((3, 3), 1e30)))
    assert not torch.isfinite(acyclicity(torch.full((3, 3), 20.0)))


@pytest.mark.parametrize("reg", [0.0, 0.3])
def test_gradients_of_pairs(reg):
    rng = np.random.default_rng(4)
    shapes = ((5, 4), (10, 4), (4, 4), (4, 4), (4, 4), (4,), (4,))
    inputs = [torch.from_numpy(rng.normal(0, 0.7, shape)).requires_grad_() for shape in shapes]
    outside = inputs[1].detach()[:5].clone()  # what is predicted gets no gradient, so differences must not move it

    def closed(*values):
        return loss_of_pairs(*values[:4], Matching(*values[4:]), 0.8, 0.6, reg)

    def plain(users, items, user_links, item_links, matrix, shift, item_term):
        preferences = torch.cat([users, users]) @ user_links.T + items @ item_links
        scores = (preferences * (items @ matrix + shift)).sum(1) + items @ item_term
        value = 0.8 * functional.softplus(scores[5:] - scores[:5]).mean()
        value = value + 0.6 * (preferences[:5] - outside).square().sum(1).mean() / 4
        return value + reg / 2 * (users.square().sum() + items.square().sum()) / 5

    torch.testing.assert_close(closed(*inputs), plain(*inputs))
    assert torch.autograd.gradcheck(plain, inputs)
    found, expected = (torch.autograd.grad(3 * form(*inputs), inputs) for form in (closed, plain))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("preference", ["conditional", "itemfree"])
@pytest.mark.parametrize("width", [None, 2, 7])
@pytest.mark.parametrize("backbone", [MF, LightGCN])
def test_loss_from_the_formula(backbone, width, preference):
    settings = {"ranking_weight": 0.9, "reconstruction_weight": 0.4, "acyclicity_weight": 2.0}
    settings |= {"item_sparsity": 0.7, "user_sparsity": 0.01, "reg": 0.02}
    model = backbone(dim=5, init_std=0.5)
    method = CausPref(model, **settings, candidates=1, map_lr=0.5, preference=preference, encoder_width=width)
    method = shaken(built(method, double=True)).eval()
    batch = batch_of(1)
    found = float(method.loss(batch).detach())
    user_links, links, of_preference, of_item, preference_shift, item_shift = arrays(method)
    user, item = (one.detach().numpy() for one in model.reps())
    u, i, j = user[batch.users], item[batch.items], item[batch.negatives[:, 0]]
    free = u @ user_links.T @ (np.eye(5) + links + links @ links + links @ links @ links)

    def preferred(items):
        return u @ user_links.T + items @ links if preference == "conditional" else free

    def score(items):
        left, right = preferred(items) @ of_preference.T + preference_shift, items @ of_item.T + item_shift
        return (left * right).sum(1)

    powers = torch.matrix_exp(torch.from_numpy(links * links))
    cycles = float(powers.trace()) - 5
    expected = 0.9 * softplus(score(j) - score(i)).mean()
    expected += 0.4 * ((u @ user_links.T + i @ links - i) ** 2).sum(1).mean() / 5
    expected += cycles**2 / 2 + 2 * cycles + 0.7 * np.abs(links).sum() / 25 + 0.01 * np.abs(user_links).sum()
    ego = [model.user_table[batch.users], model.item_table[batch.items], model.item_table[batch.negatives[:, 0]]]
    expected += 0.01 * sum(float(rows.square().sum(1).mean().detach()) for rows in ego)
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("preference", ["conditional", "itemfree"])
def test_loss_of_neumf_from_the_formula(preference):
    """The head stays, and the preference stands for the user."""
    model = NeuMF(dim=3, layers=(4, 2), init_std=0.5)
    method = shaken(built(CausPref(model, candidates=1, map_lr=0.5, preference=preference, reg=0.0), double=True))
    assert not hasattr(method, "item_change")
    batch = batch_of(1)
    user_links, links = (torch.from_numpy(one) for one in arrays(method))
    users, items = model.reps()
    u, i, j = users[batch.users], items[batch.items], items[batch.negatives[:, 0]]
    free = u @ user_links.T @ (torch.eye(6) + links + links @ links + links @ links @ links)
    positive, negative = (
        model.score(u @ user_links.T + one @ links if preference == "conditional" else free, one) for one in (i, j)
    )
    cycles = torch.matrix_exp(links * links).trace() - 6
    expected = (
        functional.softplus(negative - positive).mean() + 0.5 * (u @ user_links.T + i @ links - i).square().mean()
    )
    expected = expected + cycles**2 / 2 + 6 * cycles + links.abs().mean() + 1e-6 * user_links.abs().sum()
    assert float(method.loss(batch).detach()) == pytest.approx(float(expected.detach()), rel=1e-10)


@pytest.mark.parametrize("preference", ["conditional", "itemfree"])
@pytest.mark.parametrize("backbone", [MF, NeuMF], ids=["mf", "neumf"])
def test_gradients_of_all_parameters_by_differences(backbone, preference):
    model = backbone(dim=3, init_std=0.5)
    method = CausPref(model, candidates=1, map_lr=0.5, preference=preference, reconstruction_weight=0.0, reg=0.1)
    method = shaken(built(method, double=True))
    batch, rng = batch_of(1), np.random.default_rng(0)
    torch.autograd.backward(method.loss(batch))
    for name, values in method.named_parameters():
        direction = torch.from_numpy(rng.normal(size=values.shape))
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                values += sign * 1e-6 * direction
                ends.append(float(method.loss(batch)))
                values -= sign * 1e-6 * direction
        slope = float((values.grad * direction).sum())
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-8), name


def test_items_that_are_predicted_get_no_gradient_from_it():
    method = built(CausPref(MF(dim=4, init_std=0.5), ranking_weight=0.0, candidates=1, reg=0.0), double=True)
    with torch.no_grad():
        method.item_links_raw.zero_()
    torch.autograd.backward(method.loss(batch_of(1)))
    assert not method.backbone.item_table.grad.any()
    assert method.backbone.user_table.grad.any()


@pytest.mark.parametrize("backbone", [MF, LightGCN], ids=["mf", "lightgcn"])
@pytest.mark.parametrize("preference", ["conditional", "itemfree"])
def test_without_a_graph_it_is_bpr(backbone, preference):
    def run(method):
        trainer = Trainer(method, LOG, 0, TrainSettings(epochs=2, batch_size=64, lr=0.003))
        if isinstance(method, CausPref):
            with torch.no_grad():
                method.item_links_raw.zero_()
            for name in MATRICES:
                getattr(method, name).requires_grad_(False)
        trainer.run()
        return method.backbone.user_table.detach(), method.backbone.item_table.detach()

    causal = run(CausPref(backbone(dim=8), reconstruction_weight=0.0, candidates=1, preference=preference))
    for one, other in zip(causal, run(Normal(backbone(dim=8), loss="bpr")), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("preference", ["conditional", "itemfree"])
@pytest.mark.parametrize(
    "backbone",
    [lambda: MF(dim=6, init_std=0.5), lambda: NeuMF(dim=4, layers=(5, 3), init_std=0.5), lambda: Distance()],
    ids=["mf", "neumf", "own"],
)
def test_ranking_equals_scores_of_pairs(backbone, preference):
    method = shaken(built(CausPref(backbone(), map_lr=1.0, preference=preference))).eval()
    with torch.no_grad():
        found = method.scores().block(np.arange(40), 0, 30)
        users, items = method.backbone.reps()
        matrices = [torch.from_numpy(one).float() for one in arrays(method)]
        user_links, links = matrices[:2]
        for user in range(0, 40, 7):
            if preference == "conditional":
                wanted = users[user] @ user_links.T + items @ links
            else:
                reach = torch.eye(len(links)) + links + links @ links + links @ links @ links
                wanted = (users[user] @ user_links.T @ reach).expand_as(items)
            if len(matrices) == 2:
                expected = method.backbone.score(wanted, items)
            else:
                expected = (wanted @ matrices[2].T + matrices[4]) * (items @ matrices[3].T + matrices[5])
                expected = expected.sum(1)
            assert np.allclose(found[user], expected, rtol=1e-4, atol=1e-5)
    assert isinstance(method.scores(), DotScores) == isinstance(method.backbone, MF)


def test_what_the_item_adds_is_its_bias():
    """The scores of two users differ by an inner product; only with the item in the preference is there a bias."""
    for preference in ("conditional", "itemfree"):
        method = shaken(built(CausPref(MF(dim=4), preference=preference)))
        assert (method.scores().item_bias is not None) == (preference == "conditional")


def test_far_items_are_drawn_more_often():
    temperature, count = 0.5, 40_000
    method = CausPref(MF(), candidates=4, temperature=temperature)
    preference = torch.tensor([[1.0, 0.0]])
    angles = torch.tensor([0.0, 1.0, 2.0, 3.0])
    offered = torch.stack([torch.cos(angles), torch.sin(angles)], 1) * torch.tensor([3.0, 0.1, 1.0, 2.0])[:, None]
    chosen = method.choose(
        preference.expand(count, 2), offered.expand(count, 4, 2), torch.Generator().manual_seed(0)
    ).numpy()
    share = np.bincount(chosen, minlength=4) / count
    expected = np.exp(-np.cos([0.0, 1.0, 2.0, 3.0]) / temperature)
    assert np.abs(share - expected / expected.sum()).max() < 4 * 0.5 / count**0.5
    assert (np.diff(share) > 0).all()


def test_negatives_are_drawn_by_the_preference_without_the_item():
    """With a low temperature the farthest from p̄_u is taken, and only that one is trained and regularised."""
    method = CausPref(MF(dim=4, init_std=0.5), candidates=5, temperature=1e-4, map_lr=0.5, reg=0.5)
    method = shaken(built(method, double=True))
    batch = batch_of(5)
    user_links, links = arrays(method)[:2]
    user, item = (one.detach().numpy() for one in method.backbone.reps())
    wanted = user[batch.users] @ user_links.T @ (np.eye(4) + links + links @ links + links @ links @ links)
    offered = item[batch.negatives]
    cosine = np.einsum("nd,nqd->nq", wanted, offered) / np.linalg.norm(offered, axis=2)
    farthest = batch.negatives[torch.arange(6), torch.from_numpy(cosine.argmin(1))]
    alone = built(CausPref(MF(dim=4, init_std=0.5), candidates=1, map_lr=0.5, reg=0.5), double=True)
    alone.load_state_dict(method.state_dict())
    expected = float(alone.loss(Batch(batch.users, batch.items, farthest[:, None])).detach())
    assert float(method.loss(batch).detach()) == pytest.approx(expected, rel=1e-12)  # torch's own generator
    assert float(method.loss(batch, torch.Generator().manual_seed(1)).detach()) == pytest.approx(expected, rel=1e-12)


def test_dense_matrices_take_smaller_steps():
    """Adam's first step is the learning rate, whatever the gradient."""
    for share in (1.0, 0.1, 0.01):
        method = CausPref(MF(dim=4, init_std=0.5), map_lr=share)
        trainer = Trainer(method, LOG, 0, TrainSettings(epochs=1, batch_size=1000, lr=0.002))
        before = [method.user_links().detach(), method.item_links().detach().clone()]
        trainer.run()
        after = [method.user_links().detach(), method.item_links().detach()]
        moved = [one - start for one, start in zip(after, before, strict=True)]
        assert float(moved[0].abs().median()) == pytest.approx(0.002 * share, rel=0.01)
        assert float(moved[1].abs().max()) == pytest.approx(0.002, rel=0.01)


def test_training_leaves_few_links_and_no_cycles():
    """And the list of a user holds the items of the user's group, which popularity knows nothing of."""
    log = block_log()
    model = CausPref(MF(dim=16)).fit(log, epochs=100, batch_size=128, lr=0.02)
    shown = model.method.diagnostics()
    assert shown["cycles"] < 1e-2
    assert shown["zero_links"] >= 0.8
    everybody = np.arange(len(log.users), dtype=np.int32)
    assert evaluate_lists(top_n(model.scores, everybody, 20), log, log, n=[20]).values["ndcg@20"] > 0.8


def test_what_it_shows_of_itself():
    method = built(CausPref(MF(dim=4)))
    with torch.no_grad():
        method.item_links_raw.copy_(torch.eye(4) * 9)  # the diagonal is no link
        method.item_links_raw[0, 1] = -0.5
        method.item_links_raw[2, 3] = 0.009
    assert method.diagnostics() == {"cycles": 0.0, "zero_links": pytest.approx(11 / 12), "strongest_link": 0.5}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"candidates": 0}, "candidates is 0"),
        ({"temperature": 0.0}, "temperature is 0.0; expected a number above 0"),
        ({"reconstruction_weight": -1}, "reconstruction_weight is -1"),
        ({"acyclicity_weight": float("nan")}, "acyclicity_weight is nan"),
        ({"map_lr": "fast"}, "map_lr is 'fast'"),
        ({"preference": "both"}, "preference is 'both'; expected one of conditional, itemfree"),
        ({"encoder_width": 0}, "encoder_width is 0"),
        ({"reg": -1.0}, "reg is -1.0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ConfigError, match=message):
        CausPref(MF(), **settings)


def test_the_usual_settings_are_among_those_to_search():
    settings, searched = CausPref(MF()).settings.as_dict(), CausPref.Settings.search_space()
    assert set(searched) == {"reconstruction_weight", "acyclicity_weight", "candidates", "map_lr"}
    assert all(settings[name] in values for name, values in searched.items())


def test_settings_of_version_0_1():
    old = {"ranking": 0.1, "reconstruction": 0.2, "eta": 0.3, "sparsity": 0.4, "map_sparsity": 0.5, "candidates": 3}
    old |= {"temperature": 0.6, "dense_lr": 0.7, "preference": "itemfree", "width": 8, "reg": 0.5}
    found = CausPref.Settings.parse(renamed("causpref", old))
    assert (found.ranking_weight, found.reconstruction_weight, found.acyclicity_weight) == (0.1, 0.2, 0.3)
    assert (found.item_sparsity, found.user_sparsity, found.map_lr, found.encoder_width) == (0.4, 0.5, 0.7, 8)
