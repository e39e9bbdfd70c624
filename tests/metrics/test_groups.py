"""Exposure of groups of items, by hand."""

import numpy as np
import polars as pl
import pytest

from icpe.metrics.groups import exposure_by_group

VALUES = pl.Series(["tea", "ham", None, "tea", "jam"])
COUNTS = np.array([4, 3, 2, 0, 1])


def test_shares_by_hand():
    found = {one.name: one for one in exposure_by_group(VALUES, COUNTS, [np.array([1, 0, 1, 2, 1])])}
    assert list(found) == ["tea", "ham", "unknown", "jam"]  # by interactions
    assert [one.items for one in found.values()] == [2, 1, 1, 1]
    assert [one.of_catalogue for one in found.values()] == pytest.approx([0.4, 0.2, 0.2, 0.2])
    assert [one.of_log for one in found.values()] == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert [one.of_lists[0] for one in found.values()] == pytest.approx([0.6, 0, 0.2, 0.2])
    assert [one.ratios[0] for one in found.values()] == pytest.approx([1.5, 0, 1, 2])


def test_small_groups_come_together():
    first, rest = exposure_by_group(VALUES, COUNTS, [np.array([1, 0, 1, 2, 1])], largest=1)
    assert (first.name, rest.name, rest.items) == ("tea", "others (3)", 3)
    assert (rest.of_catalogue, rest.of_log, *rest.of_lists) == pytest.approx((0.6, 0.6, 0.4))


def test_items_that_are_not_in_the_log_are_a_group_of_their_own():
    sets = [np.array([1, 0, 0, 0, 1, 2]), np.array([1, 1, 0, 0, 0])]
    *_, new = exposure_by_group(VALUES, COUNTS, sets)
    assert (new.name, new.items, new.of_log) == ("not in the log", 0, 0)
    assert new.of_lists == (0.5, 0)
    assert new.ratios == (None, None)


@pytest.mark.parametrize("values", [VALUES, pl.Series([7, 7, None, 8, 9]), pl.Series([True, None, False, True, True])])
@pytest.mark.parametrize("largest", [1, 2, 12])
def test_shares_add_up(values, largest):
    shown = [np.array([5, 1, 0, 2, 2, 7]), np.array([0, 0, 1, 0, 0])]
    found = exposure_by_group(values, COUNTS, shown, largest)
    assert sum(one.of_catalogue for one in found) == pytest.approx(1)
    assert sum(one.of_log for one in found) == pytest.approx(1)
    for at in range(2):
        assert sum(one.of_lists[at] for one in found) == pytest.approx(1)
    assert sum(one.items for one in found) == 5


def test_names_lead_to_their_shares():
    (one,) = exposure_by_group(pl.Series(["a"]), np.array([3]), [np.array([2]), np.array([1])])
    assert one.as_dict(["old", "new"])["of_lists"] == {"old": 1.0, "new": 1.0}
