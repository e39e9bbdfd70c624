"""Row-wise optimisers end where the dense ones of torch end."""

import numpy as np
import pytest
import torch
from torch import nn

from icpe.backbones.rows import RowParameter, read_through, take_all_rows, take_rows
from icpe.train.row_optimizer import RowAdam, RowRMSprop, RowTable
from icpe.train.small_optimizer import Adam, SmallOptimizer


def loss_of(taken, weights):
    """Gradients as large as in real training."""
    return 1e-3 * (taken * weights).sum() + 1e-3 * taken.square().sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("kind", "dense_kind"), [(RowAdam, torch.optim.Adam), (RowRMSprop, torch.optim.RMSprop)])
def test_rows_follow_the_dense_optimiser(kind, dense_kind, dtype):
    """300 steps on random rows, some touched often, some once, some never; taken at once, or in two goes."""
    rng = np.random.default_rng(0)
    start = torch.tensor(rng.normal(size=(40, 5)) * 0.01, dtype=dtype)
    dense, rows = nn.Parameter(start.clone()), RowParameter(start.clone())
    optimizer, mine = dense_kind([dense], lr=1e-2), kind(1e-2)
    table = RowTable(rows, mine)
    for step in range(300):
        touched = torch.tensor((40 * rng.random(12) ** 3).astype(int))
        weights = torch.tensor(rng.normal(size=(12, 5)), dtype=dtype)
        optimizer.zero_grad()
        loss_of(take_rows(dense, touched), weights).backward()
        with read_through([(rows, table.take)]):
            if step % 2:
                taken = take_rows(rows, touched.view(3, 4)).view(12, 5)
            else:
                taken = torch.cat([take_rows(rows, touched[:5]), take_rows(rows, touched[5:])])
            # What a batch reads must be right at every step, not only at the end.
            assert torch.allclose(taken, dense[touched], atol=1e-4, rtol=1e-4)
            loss_of(taken, weights).backward()
        optimizer.step()
        mine.step([table])
        if step % 70 == 0:
            mine.settle(table)
            assert torch.allclose(rows, dense, atol=1e-4, rtol=1e-4)
    mine.settle(table)
    assert (dense - start).abs().max() > 0.1
    assert torch.allclose(rows, dense, atol=1e-4, rtol=1e-4)
    assert rows.grad is None
    assert (table.latest == -1).all()
    assert (rows[39] == start[39]).all() or (table.last[39] > 0), "a row never touched stays"


@pytest.mark.parametrize(("kind", "dense_kind"), [(RowAdam, torch.optim.Adam), (RowRMSprop, torch.optim.RMSprop)])
def test_rows_without_gradient_are_as_good_as_not_taken(kind, dense_kind):
    """Taken without gradients, or left out of the loss: they move as the dense optimiser moves them."""
    dense, rows = (one(torch.ones(3, 2, dtype=torch.float64)) for one in (nn.Parameter, RowParameter))
    optimizer, mine = dense_kind([dense], lr=0.1), kind(0.1)
    table = RowTable(rows, mine)
    for asked in ([0, 1], [1], [0, 2], [0]):
        optimizer.zero_grad()
        take_rows(dense, torch.tensor(asked)).square().sum().backward()
        with read_through([(rows, table.take)]):
            take_rows(rows, torch.tensor([1, 2]))
            with torch.no_grad():
                assert not take_rows(rows, torch.tensor([0])).requires_grad
            take_rows(rows, torch.tensor(asked)).square().sum().backward()
        optimizer.step()
        mine.step([table])
    mine.settle(table)
    torch.testing.assert_close(rows, dense, atol=1e-6, rtol=0)


def test_gradients_of_a_row_add_up():
    """One step of RMSprop from 0 moves by lr/√0.01 · sign, and by the sum of gradients in the average."""
    parameter = RowParameter(torch.zeros(6, 2))
    mine = RowRMSprop(0.1)
    table = RowTable(parameter, mine)
    taken = table.take(torch.tensor([4, 1, 4, 5, 1, 4]))
    taken.grad = torch.arange(12.0).view(6, 2) + 1
    mine.step([table])
    sums = torch.zeros(6, 2)
    sums[4], sums[1], sums[5] = (
        torch.tensor([1 + 5 + 11, 2 + 6 + 12]),
        torch.tensor([3 + 9, 4 + 10]),
        torch.tensor([7, 8]),
    )
    torch.testing.assert_close(table.moments[:, 0], 0.01 * sums**2)
    torch.testing.assert_close(parameter.detach(), -(sums > 0).float())


def test_a_table_of_nobody_has_dense_gradients():
    parameter = RowParameter(torch.ones(4, 2))
    mine = RowAdam(0.1)
    with read_through([(parameter, RowTable(parameter, mine).take)]):
        take_rows(parameter, torch.tensor([1])).sum().backward()
        assert parameter.grad is None
    take_rows(parameter, torch.tensor([1, 3, 3])).sum().backward()
    assert parameter.grad.tolist() == [[0, 0], [1, 1], [0, 0], [2, 2]]


def test_state_round_trip():
    torch.manual_seed(0)
    mine = RowAdam(0.1)
    table = RowTable(RowParameter(torch.randn(9, 3)), mine)
    for _ in range(70_000):
        mine.step([])  # longer than the first allocation of the series
    copy = RowAdam(0.1)
    copy.restore(mine.extra())
    assert copy.now == mine.now
    mine.step([])
    copy.step([])
    assert (copy.extra()["series"] == mine.extra()["series"]).all()
    assert table.last.sum() == 0


@pytest.mark.parametrize(
    ("name", "dense_kind"), [("adam", torch.optim.Adam), ("rmsprop", lambda one, lr: torch.optim.RMSprop(one, lr=lr))]
)
def test_small_parameters_end_where_torch_ends(name, dense_kind):
    """Also those that now and then have no gradient, and across a saved state."""
    rng = torch.Generator().manual_seed(0)
    starts = [torch.randn(3, 4, generator=rng, dtype=torch.float64), torch.randn(5, generator=rng, dtype=torch.float64)]
    theirs, ours = ([nn.Parameter(start.clone()) for start in starts] for _ in range(2))
    optimizer, mine = dense_kind(theirs, lr=0.1), SmallOptimizer(name, ours, 0.1)
    for step in range(30):
        for number, (their, our) in enumerate(zip(theirs, ours, strict=True)):
            grad = None if number and step % 3 == 0 else torch.randn(their.shape, generator=rng, dtype=torch.float64)
            their.grad, our.grad = grad, None if grad is None else grad.clone()
        optimizer.step()
        mine.step()
        if step == 10:
            kept = {key: value.clone() for key, value in mine.tensors().items()}
            mine = SmallOptimizer(name, ours, 0.1)
            mine.restore(kept)
    for their, our in zip(theirs, ours, strict=True):
        assert our.grad is None
        torch.testing.assert_close(our, their, rtol=1e-10, atol=1e-12)


def test_which_parameters_are_small():
    assert SmallOptimizer.suits(nn.Parameter(torch.zeros(256, 256)))
    assert not SmallOptimizer.suits(nn.Parameter(torch.zeros(257, 256)))
    assert not SmallOptimizer.suits(nn.Parameter(torch.zeros(4, dtype=torch.bfloat16)))


@pytest.mark.parametrize("fused", [True, False])
def test_adam_has_the_bits_of_torch(fused):
    torch.manual_seed(0)
    theirs = [torch.randn(5, 3, requires_grad=True), torch.randn(70, requires_grad=True)]
    ours = [one.detach().clone().requires_grad_() for one in theirs]
    reference, mine = torch.optim.Adam(theirs, lr=0.1, fused=fused), Adam(ours, 0.1, fused)
    for step in range(20):
        for one in (*theirs, *ours):
            one.grad = torch.sin((step + 1) * one.detach())
        reference.step()
        mine.step()
        assert all(map(torch.equal, theirs, ours))
    assert all(one.grad is None for one in ours)


@pytest.mark.parametrize("kind", [RowAdam, RowRMSprop])
@pytest.mark.parametrize("together", [True, False])
def test_rows_of_two_tables_together(kind, together):
    """They are those of each table, and so are the steps that their gradients take."""
    asked, ends = [torch.tensor([1, 3, 3]), torch.tensor([[0, 5], [5, 2]])], []
    for at_once in (False, True):
        generator = torch.Generator().manual_seed(0)
        parameters = [RowParameter(torch.randn(6, width, generator=generator)) for width in (2, 3)]
        mine = kind(0.1)
        tables = {parameter: RowTable(parameter, mine) for parameter in parameters}

        def read_all(wanted, mine=mine, tables=tables):
            return mine.take([(tables[parameter], rows) for parameter, rows in wanted])

        pairs = list(zip(parameters, asked, strict=True))
        readers = [(parameter, table.take) for parameter, table in tables.items()]
        for _ in range(3):
            with read_through(readers, read_all if together else None):
                taken = take_all_rows(*pairs) if at_once else [take_rows(*pair) for pair in pairs]
                sum(one.square().sum() for one in taken).backward()
            mine.step(tables.values())
        ends.append([one.detach() for one in (*taken, *parameters)])
    assert all(torch.equal(one, two) for one, two in zip(*ends, strict=True))
    plain = torch.eye(4)
    mixed = take_all_rows((plain, torch.tensor([2])), (parameters[0], torch.tensor([0])))
    assert torch.equal(mixed[0], plain[[2]])
    assert torch.equal(mixed[1], parameters[0][:1])
