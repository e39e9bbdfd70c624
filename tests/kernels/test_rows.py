"""Row-wise optimisers end where the dense ones of torch end."""

import numpy as np
import pytest
import torch
from torch import nn

from icpe.kernels.rows import add_up
from icpe.train.row_optimizer import RowAdam, RowRMSprop, RowTable


def test_add_up():
    slots = np.full(6, -1, np.int32)
    rows, sums = add_up(np.array([4, 1, 4, 5, 1, 4]), np.arange(12.0, dtype=np.float32).reshape(6, 2), slots)
    assert rows.tolist() == [4, 1, 5]
    assert sums.tolist() == [[0 + 4 + 10, 1 + 5 + 11], [2 + 8, 3 + 9], [6, 7]]
    assert (slots == -1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("kind", "dense_kind"), [(RowAdam, torch.optim.Adam), (RowRMSprop, torch.optim.RMSprop)])
def test_rows_follow_the_dense_optimiser(kind, dense_kind, dtype):
    """300 steps on random rows, some touched often, some once, some never; gradients as large as in real training."""
    rng = np.random.default_rng(0)
    start = torch.tensor(rng.normal(size=(40, 5)) * 0.01, dtype=dtype)
    dense, rows = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    optimizer = dense_kind([dense], lr=1e-2)
    table, mine = RowTable(rows, kind.moments), kind(1e-2)
    for _ in range(300):
        touched = torch.tensor((40 * rng.random(12) ** 3).astype(int))
        weights = torch.tensor(rng.normal(size=(12, 5)), dtype=dtype)
        mine.catch_up(table, touched.numpy())
        for parameter in (dense, rows):
            parameter.grad = None
            taken = nn.functional.embedding(touched, parameter, sparse=parameter is rows)
            (1e-3 * (taken * weights).sum() + 1e-3 * taken.square().sum()).backward()
        optimizer.step()
        mine.begin_step()
        mine.apply(table)
        # What a batch reads must be right at every step, not only at the end.
        mine.catch_up(table, touched.numpy())
        assert torch.allclose(rows[touched], dense[touched], atol=1e-4, rtol=1e-4)
    mine.catch_up(table, np.arange(40))
    assert (dense - start).abs().max() > 0.1
    assert torch.allclose(rows, dense, atol=1e-4, rtol=1e-4)
    assert (rows[39] == start[39]).all() or (table.last[39] > 0), "a row never touched stays"


def test_state_round_trip():
    torch.manual_seed(0)
    table, mine = RowTable(nn.Parameter(torch.randn(9, 3)), 2), RowAdam(0.1)
    for _ in range(70_000):
        mine.begin_step()  # longer than the first allocation of the series
    copy = RowAdam(0.1)
    copy.restore(mine.extra())
    assert copy.step == mine.step
    mine.begin_step()
    copy.begin_step()
    assert (copy.extra()["series"] == mine.extra()["series"]).all()
    assert table.last.sum() == 0
