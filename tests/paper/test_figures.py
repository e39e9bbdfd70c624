"""Figures of the studies show the numbers they are given; warnings are errors, so that drawing is clean."""

import io

import numpy as np
import polars as pl
import pytest

from icpe.paper.analysis.gradients import Conflicts
from icpe.paper.analysis.influence import Influence
from icpe.paper.figures import (
    bound_figure,
    conflict_figure,
    dial_figure,
    exponent_figure,
    front_figure,
    gradient_figure,
)
from icpe.paper.figures.gradients import binned_median


def written(figure):
    """The figure as SVG with its text."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}), io.StringIO() as file:
        figure.savefig(file, format="svg")
        return file.getvalue()


def front(feasible=(True, True, False)):
    losses = {"head_loss": [0.5, 0.2, 0.3], "niche_loss": [0.1, 0.4, 0.5]}
    levelled = {"head_levelled": [0.5, 0.3, 0.2], "niche_levelled": [0.1, 0.4, 0.5]}
    return pl.DataFrame({**losses, **levelled, "feasible": feasible, "dominated": [False, False, True]})


def test_front_shows_what_is_dominated_in_each_plane():
    points = pl.DataFrame(
        {
            "label": ["Normal", "ICPE with S^g"],
            "head_loss": [0.15, 0.1],
            "niche_loss": [0.3, 0.2],
            "head_levelled": [0.15, 0.3],
            "niche_levelled": [0.3, 0.3],
        }
    )
    figure = front_figure(front((True, True, True)), points, "MF")
    text = written(figure)
    for label in ("Normal", "ICPE with Sᵍ", "Pareto MTL", "dominated", "MF, as trained", "MF, all scores shifted"):
        assert label in text
    left, right = figure.axes
    assert left.collections[1].get_offsets().tolist() == [[0.3, 0.5]]  # hollow
    assert len(right.collections) == 1  # nothing is dominated there
    assert right.lines[0].get_xdata().tolist() == [0.2, 0.3, 0.5]
    assert right.lines[2].get_xydata().tolist() == [[0.3, 0.3]]


def test_front_without_other_methods_marks_what_was_not_reached():
    text = written(front_figure(front()))
    assert "preference not reached" in text
    assert "dominated" not in text


def test_dials_carry_their_ends_and_their_best():
    values = pl.DataFrame(
        {"value": [0.0, 0.37, 1.0], "ndcg@20": [0.1, 0.2, 0.15], "apt@20": [0.2, 0.5, 0.8], "coverage@20": [1.0] * 3}
    )
    figure = dial_figure({"β of ICPE": values}, {"Normal": (0.2, 0.12)})
    assert [note.get_text() for note in figure.axes[0].texts] == ["0", "1", "0.37", "Normal"]
    assert "β of ICPE" in written(figure)


def test_gradients_are_told_by_group():
    frame = pl.DataFrame(
        {"popularity": [100, 50, 3, 1], "head": [True, True, False, False], "gradient_norm": [4.0, 2.0, 0.3, 0.1]}
    )
    text = written(gradient_figure(frame))
    assert "head items, median 3" in text
    assert "niche items, median 0.2" in text


def test_medians_of_bins():
    centres, medians = binned_median(np.array([1.0, 2, 3, 50, 64]), np.array([5.0, 1, 3, 8, 10]), bins=3)
    assert centres.tolist() == pytest.approx([2, 32])  # [1, 4), nothing, [16, 64]
    assert medians.tolist() == [3, 9]


@pytest.mark.parametrize("lowest", [-0.4, 0.0, 0.1])
def test_conflicts_show_the_share_and_the_lengths(lowest):
    niche = pl.DataFrame({"item_id": [1, 2, 3, 4], "popularity": [1, 2, 3, 4], "cosine": [lowest, 0.2, 0.3, 0.5]})
    arrows = pl.DataFrame(
        {
            "name": ["head", "niche, most against", "niche, median", "sum"],
            "item_id": [9, 1, 3, None],
            "length": [7.0, 0.25, 0.5, 7.1],
            "x": [7.0, -0.1, 0.1, 7.0],
            "y": [0.0, 0.2, 0.4, 0.6],
        }
    )
    found = Conflicts(9, niche, arrows, (0.98, 0.013))
    figure = conflict_figure(found)
    text = written(figure)
    assert f"{25 if lowest < 0 else 0}% of 4 point against it" in text
    assert "head: length 7" in text
    assert "niche, most against: length 0.25" in text
    assert "99.3 %" in text
    hatched = [bar for bar in figure.axes[0].patches if bar.get_hatch()]
    assert sum(bar.get_height() for bar in hatched) == (1 if lowest < 0 else 0)


def test_exponents_carry_their_intervals():
    popularity = np.array([1, 5, 50])
    points = [
        pl.DataFrame({"place": [place] * 3, "item_id": [1, 2, 3], "popularity": popularity, "gradient_norm": norms})
        for place, norms in (("rows", popularity**0.5), ("common", popularity * 1.0))
    ]
    fits = pl.DataFrame(
        {
            "place": ["rows", "common"],
            "slope": [0.5, 1.0],
            "intercept": [0.0, 0.0],
            "low": [0.45, 0.9],
            "high": [0.55, 1.1],
        }
    )
    found = Influence(pl.concat(points), fits)
    text = written(exponent_figure({"MF": found, "LightGCN": found}))
    assert "users' rows: 0.50 [0.45, 0.55]" in text
    assert "common to all users: 1.00 [0.90, 1.10]" in text
    assert "LightGCN" in text
    assert len(exponent_figure({"MF": found}).axes) == 1


def test_bound_has_all_terms():
    terms = pl.DataFrame(
        {
            "clusters": [1, 2, 3],
            "bound": [5.0, 4.0, 3.5],
            "risk": [4.0, 3.0, 2.5],
            "rademacher": [0.5, 0.4, 0.3],
            "cover_term": [0.5, 0.6, 0.7],
        }
    )
    left, right = bound_figure(terms).axes
    assert [line.get_ydata().tolist() for line in left.lines] == [terms[name].to_list() for name in terms.columns[1:]]
    assert [line.get_label() for line in right.lines] == ["Rademacher term", "third term"]
