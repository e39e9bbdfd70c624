"""Closed-form losses and gradients against torch's own, in float64."""

import numpy as np
import pytest
import torch

from icpe.methods._parts.closed_form import (
    bce_on_rows,
    bpr_on_rows,
    plain_bce,
    plain_bpr,
    plain_groups,
    plain_softmax,
    softmax_in_groups,
    softmax_on_rows,
)

SIZE, DIM = 7, 5
LOSSES = {
    "bce": lambda users, both, **more: bce_on_rows(users, both, neg_weight=1.7, scale=0.9, **more),
    "bpr": lambda users, both, **more: bpr_on_rows(users, both, scale=0.9, **more),
    "softmax": lambda users, both, **more: softmax_on_rows(users, both, temperature=0.3, **more),
}
PLAIN = {
    "bce": lambda users, items, **more: plain_bce(users, items, 1.7, 0.9, *extras_of(more)),
    "bpr": lambda users, items, **more: plain_bpr(users, items, 0.9, *extras_of(more)),
    "softmax": lambda users, items, **more: plain_softmax(users, items, 0.3, *extras_of(more), None),
}
EXTRAS = {
    "plain": (),
    "reg": ("reg",),
    "offset": ("offset",),
    "weight": ("weight",),
    "user_weight": ("user_weight",),
    "all": ("reg", "offset", "weight", "user_weight"),
}


def inputs(drawn, names=(), dtype=torch.float64, spread=1.0):
    rng = np.random.default_rng(3)

    def values(*shape):
        return torch.tensor(rng.normal(size=shape) * spread, dtype=dtype)

    users, both, offset = values(SIZE, DIM), values(SIZE + drawn, DIM), values(SIZE + drawn)
    known = {"offset": offset.requires_grad_(), "weight": values(SIZE).abs(), "user_weight": values(SIZE), "reg": 0.3}
    return users.requires_grad_(), both.requires_grad_(), {name: known[name] for name in names}


def extras_of(more):
    return [more.get(name) for name in ("offset", "weight", "user_weight")] + [more.get("reg", 0.0)]


def results(loss, users, both, more, factor=1.0, losses=LOSSES):
    wanted = [users, both, *([more["offset"]] if "offset" in more else [])]
    value = losses[loss](users, both, **more)
    return value.detach(), torch.autograd.grad(factor * value, wanted)


def reference(*arguments, **more):
    return results(*arguments, **more, losses=PLAIN)


@pytest.mark.parametrize("extras", EXTRAS)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_closed_form_equals_torch(loss, count, extras):
    case = inputs(SIZE * count, EXTRAS[extras])
    value, grads = results(loss, *case)
    expected, expected_grads = reference(loss, *case)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    assert len(grads) == len(expected_grads)
    for found, right in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_by_finite_differences(loss):
    users, both, more = inputs(SIZE * 2, ("reg", "offset", "weight"))
    _, grads = results(loss, users, both, more)
    small = 1e-6
    for values, grad in zip((users, both, more["offset"]), grads, strict=True):
        flat = values.detach().view(-1)
        for place in range(0, len(flat), 5):
            kept, ends = flat[place].item(), []
            for side in (small, -small):
                flat[place] = kept + side
                ends.append(LOSSES[loss](users, both, **more).item())
            flat[place] = kept
            assert grad.view(-1)[place].item() == pytest.approx((ends[0] - ends[1]) / (2 * small), abs=1e-8, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_users_weight_is_in_their_gradient_alone(loss):
    """The value and the gradients of items stay; in bce the weight is of the positive's own term."""
    users, both, more = inputs(SIZE * 2, ("user_weight",))
    value, (user_grad, both_grad) = results(loss, users, both, more)
    plain, (plain_user, plain_both) = results(loss, users, both, {})
    assert value == plain
    torch.testing.assert_close(both_grad, plain_both)
    if loss == "bce":
        own = -torch.sigmoid(-0.9 * (users * both[:SIZE]).sum(1, keepdim=True)) * 0.9 * both[:SIZE] / SIZE
        expected = plain_user + (more["user_weight"][:, None] - 1) * own.detach()
    else:
        expected = more["user_weight"][:, None] * plain_user
    torch.testing.assert_close(user_grad, expected)


@pytest.mark.parametrize("loss", LOSSES)
def test_single_precision(loss):
    case = inputs(SIZE * 2, EXTRAS["all"], torch.float32)
    value, grads = results(loss, *case)
    exact = inputs(SIZE * 2, EXTRAS["all"])
    expected, expected_grads = reference(loss, *exact)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-6)
    for found, right in zip(grads, expected_grads, strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("spread", [0.0, 1e-3, 30.0])
def test_far_out(loss, spread):
    """All rows zero, or logits of hundreds: finite and the same as torch's."""
    case = inputs(SIZE, ("reg", "offset"), spread=spread)
    value, grads = results(loss, *case)
    expected, expected_grads = reference(loss, *case)
    torch.testing.assert_close(value, expected)
    for found, right in zip(grads, expected_grads, strict=True):
        assert found.isfinite().all()
        torch.testing.assert_close(found, right)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_row_that_is_no_number_shows(loss, wrong):
    users, both, _ = inputs(SIZE)
    with torch.no_grad():
        users[2, 1] = wrong
    assert not LOSSES[loss](users, both).isfinite()


@pytest.mark.parametrize("loss", LOSSES)
def test_it_is_a_number_like_any_other(loss):
    """Parts of larger sums, behind other steps, and without gradients."""
    users, both, more = inputs(SIZE, ("offset",))
    _, grads = results(loss, users, both, more, factor=-2.5)
    _, expected = reference(loss, users, both, more, factor=-2.5)
    for found, right in zip(grads, expected, strict=True):
        torch.testing.assert_close(found, right)
    table = torch.nn.Parameter(both.detach()[:4].clone())
    (3 * LOSSES[loss](users.detach(), table[torch.arange(2 * SIZE) % 4])).backward()
    assert table.grad.abs().sum() > 0
    with torch.no_grad():
        assert not LOSSES[loss](users, both).requires_grad


def test_gradients_are_handed_out_once():
    users, both, _ = inputs(SIZE)
    loss = bce_on_rows(users, both)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="compute the loss again"):
        loss.backward()


@pytest.mark.parametrize("extras", EXTRAS)
@pytest.mark.parametrize("group", [1, 2, 3, 7, 20])
def test_groups_equal_torch(group, extras):
    """Whole groups, a rest, single rows, fewer rows than a group; one item comes twice in a group."""
    users, items, more = inputs(0, EXTRAS[extras])
    codes = torch.tensor([4, 4, 1, 2, 3, 2, 5])
    wanted = [users, items, *([more["offset"]] if "offset" in more else [])]
    found = softmax_in_groups(users, items, 0.3, codes, group, **more)
    grads = torch.autograd.grad(found, wanted)
    expected = plain_groups(users, items, 0.3, codes, group, *extras_of(more))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for one, other in zip(grads, torch.autograd.grad(expected, wanted), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_groups_by_hand():
    """Rows 0 to 2 are a group, in which 0 and 1 have the same item, and 3 and 4 are the rest."""
    users, items, more = inputs(0, ("offset", "weight"))
    users, items = users[:5].detach(), items[:5].detach()
    offset, weight = (more[name].detach()[:5] for name in ("offset", "weight"))
    cosine = (users / users.norm(dim=1)[:, None]) @ (items / items.norm(dim=1)[:, None]).T
    logits = (cosine / 0.3 + offset).exp()
    against = {0: [2], 1: [2], 2: [0, 1], 3: [4], 4: [3]}
    losses = [
        -(logits[row, row] / (logits[row, row] + logits[row, peers].sum())).log() for row, peers in against.items()
    ]
    found = softmax_in_groups(users, items, 0.3, torch.tensor([8, 8, 1, 2, 3]), 3, offset=offset, weight=weight)
    torch.testing.assert_close(found, (weight * torch.stack(losses)).mean())


def test_one_group_is_the_batch():
    users, items, more = inputs(0, EXTRAS["all"])
    codes = torch.tensor([4, 4, 1, 2, 3, 2, 5])
    whole, grouped = (softmax_on_rows(users, items, 0.3, codes=codes, group=group, **more) for group in (0, SIZE))
    torch.testing.assert_close(whole, grouped)
