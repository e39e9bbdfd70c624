"""Numbers of a front against cases computed by hand, a grid, and each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icpe import ConfigError
from icpe.metrics.fronts import accuracy_at, hypervolume

FRONTS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=8)


def axes(points):
    return np.array(points, float).reshape(-1, 2).T


@pytest.mark.parametrize(
    ("points", "area"),
    [
        ([], 0),
        ([(3, 2)], 6),
        ([(3, 2), (3, 2)], 6),
        ([(3, 2), (1, 1)], 6),  # dominated
        ([(1, 3), (2, 1)], 4),
        ([(2, 1), (1, 3)], 4),
        ([(1, 3), (2, 2), (3, 1)], 6),
        ([(0, 5), (5, 0)], 0),  # points on the axes dominate no area
        ([(2, 4), (2, 1), (5, 1)], 8 + 3),
    ],
)
def test_hypervolume_by_hand(points, area):
    assert hypervolume(*axes(points)) == area


@given(FRONTS)
def test_hypervolume_counts_the_cells_of_a_grid(points):
    """With whole coordinates, the area is the number of unit cells below some point."""
    cells = {(a, b) for x, y in points for a in range(x) for b in range(y)}
    assert hypervolume(*axes(points)) == len(cells)


@given(FRONTS, st.tuples(st.floats(0, 20), st.floats(0, 20)))
def test_a_further_point_never_lowers_the_hypervolume(points, further):
    before, after = hypervolume(*axes(points)), hypervolume(*axes([*points, further]))
    assert after >= before * (1 - 1e-12)
    assert after >= further[0] * further[1] * (1 - 1e-12)


# A curve that bends back: the niche share rises to .6 and falls again, while accuracy falls and then rises.
ACCURACY, APT = np.array([0.10, 0.08, 0.05, 0.07]), np.array([0.1, 0.3, 0.6, 0.4])


@pytest.mark.parametrize(
    ("share", "value"),
    [
        (0.0, 0.10),
        (0.1, 0.10),  # exactly at a point
        (0.2, 0.09),  # half way from the first to the second point
        (0.3, 0.08),
        (0.35, 0.08 - 0.03 / 6),  # on the way down; the last point has .07
        (0.4, 0.07),  # either way
        (0.5, 0.06),  # on the way back; on the way there it is .06 too
        (0.55, 0.055),
        (0.6, 0.05),
        (0.61, None),
    ],
)
def test_accuracy_at_by_hand(share, value):
    assert accuracy_at(share, ACCURACY, APT) == (None if value is None else pytest.approx(value))
    assert accuracy_at(share, ACCURACY[::-1], APT[::-1]) == (None if value is None else pytest.approx(value))


def test_accuracy_at_takes_the_better_branch():
    assert accuracy_at(0.5, np.array([0.2, 0.1, 0.3]), np.array([0.4, 0.6, 0.4])) == pytest.approx(0.2)
    assert accuracy_at(0.5, np.array([0.2]), np.array([0.4])) is None
    assert accuracy_at(0.4, np.array([0.2]), np.array([0.4])) == 0.2
    assert accuracy_at(0.4, np.array([]), np.array([])) is None


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6),
    st.floats(0, 1),
)
def test_accuracy_at_equals_a_walk_along_the_curve(points, share):
    """A walk in small steps finds no better value, and nearly the same one."""
    accuracy, apt = axes(points)
    places = np.linspace(0, len(points) - 1, 400 * len(points) + 1)
    walked = [np.interp(places, np.arange(len(points)), values) for values in (accuracy, apt)]
    found = accuracy_at(share, accuracy, apt)
    if found is None:
        assert apt.max() < share
        return
    assert found >= np.max(walked[0][walked[1] >= share], initial=0) - 1e-9
    assert found <= np.max(walked[0][walked[1] >= share - 0.01], initial=0) + 0.01


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6), st.floats(0, 1), st.floats(0, 1))
def test_more_niche_is_never_more_accurate(points, one, other):
    accuracy, apt = axes(points)
    low, high = (accuracy_at(share, accuracy, apt) for share in sorted((one, other)))
    assert high is None or low >= high - 1e-12


@pytest.mark.parametrize("function", [hypervolume, lambda x, y: accuracy_at(0.1, x, y)])
def test_wrong_points_are_named(function):
    with pytest.raises(ConfigError, match="shapes .* expected one number per point"):
        function(np.ones(2), np.ones(3))
    with pytest.raises(ConfigError, match=r"is \[-1\.0\]; expected finite numbers of at least 0"):
        function(np.array([-1.0]), np.ones(1))
    with pytest.raises(ConfigError, match="is .*nan"):
        function(np.ones(1), np.array([np.nan]))
