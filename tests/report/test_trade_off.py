"""Methods as points: means and bars over seeds, one look per method, and names that cover nothing."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icpe import DataError
from icpe.methods import METHODS, Normal
from icpe.report.figures.labels import place_labels
from icpe.report.figures.style import GREY, HEAD, NICHE, PALETTE, method_styles
from icpe.report.figures.svg import inline_svg
from icpe.report.figures.trade_off import scatter_figure, trade_off_figure

AREA = np.array([0.0, 0.0, 350.0, 260.0])


def boxes_of(centres, sizes):
    return np.hstack([centres - sizes / 2, centres + sizes / 2])


def shared(one, other):
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    return bool((sides > 1e-9).all())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(40, 310), st.floats(30, 230)), min_size=1, max_size=9, unique=True))
def test_names_hide_neither_names_nor_points(points):
    places = np.array(points)
    sizes = np.array([[48.0, 12.0]] * len(places))
    found = boxes_of(place_labels(sizes, places, AREA), sizes)
    for at, box in enumerate(found):
        assert not any(shared(box, other) for other in np.delete(found, at, axis=0))
        assert not any((box[:2] < point).all() and (point < box[2:]).all() for point in places)


def test_names_of_a_crowd_do_not_overlap():
    """Nine methods that are nearly the same, with long names."""
    angle = np.linspace(0, 2 * np.pi, 9, endpoint=False)
    points = np.array([175.0, 130.0]) + 6 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    sizes = np.array([[90.0, 12.0]] * 9)
    found = boxes_of(place_labels(sizes, points, AREA), sizes)
    assert not any(shared(one, other) for at, one in enumerate(found) for other in found[:at])
    assert (found[:, :2] >= AREA[:2]).all()
    assert (found[:, 2:] <= AREA[2:]).all()


def results():
    rows = [
        {"label": label, "backbone": "mf", "method": method, "seed": seed}
        | {"recall_head@20": head + 0.01 * seed, "recall_niche@20": niche, "ndcg@20": head, "apt@20": niche}
        for label, method, head, niche in (
            ("Normal", "normal", 0.3, 0.1), ("ICPE $x$ <b>", "icpe", 0.2, 0.2), ("Popularity", "popularity", 0.9, 0.0),
        )
        for seed in (0, 1, 2)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_points_are_means_and_bars_standard_deviations():
    axes = trade_off_figure(results(), "mf").axes[0]
    points = [container.lines[0].get_xydata()[0] for container in axes.containers]
    assert np.allclose(points, [[0.31, 0.1], [0.21, 0.2]])  # popularity is a baseline and not drawn
    bars = axes.containers[0].lines[2][0].get_segments()[0]
    assert np.allclose(bars, [[0.30, 0.1], [0.32, 0.1]])
    assert [text.get_text() for text in axes.texts] == ["Normal", "ICPE $x$ <b>"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Recall@20 head ↑", "Recall@20 niche ↑")
    markers = [container.lines[0].get_marker() for container in axes.containers]
    assert len(set(markers)) == 2


def test_names_stay_off_error_bars():
    figure = trade_off_figure(results(), "mf")
    axes = figure.axes[0]
    figure.draw_without_rendering()
    bars = [segment for one in axes.containers for part in one.lines[2] for segment in part.get_segments()]
    assert len(bars) == 4
    for text in axes.texts:
        box = text.get_window_extent()
        for bar in bars:
            left, bottom, right, top = axes.transData.transform(bar).ravel()
            assert not shared(
                np.array([box.x0, box.y0, box.x1, box.y1]), np.array([left, bottom - 0.1, right, top + 0.1])
            )


def test_one_seed_has_no_bars_and_other_metrics_can_be_drawn():
    one = results().filter(seed=0)
    assert "ICPE $x$ &lt;b&gt;" in inline_svg(lambda: scatter_figure(one, "mf", "ndcg@20", "apt@20"), "trade-off")
    axes = scatter_figure(one, "mf", "ndcg@20", "apt@20").axes[0]
    assert not any(container.has_xerr for container in axes.containers)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("neumf",), "no run on 'neumf' to draw.* 'mf'"),
        (("mf", "ndcg"), "no 'ndcg_head' at any length"),
    ],
)
def test_nothing_to_draw_is_an_error(arguments, message):
    with pytest.raises(DataError, match=message):
        trade_off_figure(results(), *arguments)


def test_every_method_has_its_own_colour_in_every_figure():
    names = [name for name, one in METHODS.items() if one.__module__.startswith("icpe.")]
    styles = dict(zip(names, method_styles(names), strict=True))
    colours = [style.colour for style in styles.values()]
    assert len(set(colours)) == len(names) == 23
    assert not {HEAD, NICHE, GREY} & set(colours)
    assert len(set(map(str.lower, PALETTE))) == len(PALETTE)
    some = ["icpe", "dice", "normal"]
    assert method_styles(some) == [styles[name] for name in some]


@pytest.mark.parametrize(
    "others",
    [("popdcl", "psl", "bsl", "resn", "paac", "popgo"), ("dice", "macr", "cpr", "causpref", "bc_loss", "invpref")],
)
def test_methods_that_are_compared_with_each_other_have_markers_of_their_own(others):
    found = method_styles(["normal", "icpe", "in_batch", "logit_adjustment", *others, "icpe"])
    assert len({style.marker for style in found}) == len(found)


def test_repeated_and_own_methods_get_free_styles():
    found = method_styles(["icpe", "icpe", "mine", "normal", "mine"])
    assert len({style.colour for style in found}) == 5
    assert [found[0], found[3]] == method_styles(["icpe", "normal"])


def test_methods_of_plugins_do_not_use_up_the_colours():
    """Registered in another test or by a user: the styles of built-in methods stay, and none is given twice."""
    before = method_styles(["icpe", "normal"])
    for number in range(6):
        METHODS.add(type(f"Plugin{number}", (Normal,), {"name": f"plugin{number}", "__module__": "plugins"}))
    found = method_styles(["icpe", "icpe", "plugin5", "normal", "plugin0"])
    assert [found[0], found[3]] == before
    assert len({style.colour for style in found}) == 5


def test_points_have_the_colours_of_their_methods():
    axes = trade_off_figure(results(), "mf").axes[0]
    drawn = [container.lines[0].get_color() for container in axes.containers]
    assert drawn == [style.colour for style in method_styles(["normal", "icpe"])]
