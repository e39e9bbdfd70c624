"""Names next to points, placed so that none covers another name, a point or an error bar."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from icpe.types import FloatArray

_ANGLES = np.deg2rad([0, 180, 90, 270, 45, 135, 225, 315, 22, 158, 202, 338])
_DISTANCES = (7.0, 13.0, 22.0, 34.0, 48.0)  # points; beyond the second a line leads from the point to its name
_ROUNDS = 6
_MARGIN = 2.0


def place_labels(
    boxes: FloatArray, points: FloatArray, area: FloatArray, obstacles: FloatArray | None = None
) -> FloatArray:
    """Centres of the names, float64 [points, 2].

    Names move one after the other to the position with the least cost. Covering a name or a point costs most, then
    leaving the area, then covering an obstacle, then distance. A few rounds are enough for a dozen points.

    Args:
        boxes: Width and height of each name, float64 [points, 2].
        points: Positions of the points, float64 [points, 2], in the same unit.
        area: Left, bottom, right and top of the area in which names should stay.
        obstacles: Further boxes that names should not cover, float64 [obstacles, 4].

    Example:
        >>> place_labels(np.array([[20.0, 8.0]]), np.array([[50.0, 50.0]]), np.array([0, 0, 100, 100])).tolist()
        [[67.0, 50.0]]
    """
    keep_clear = np.zeros((0, 4)) if obstacles is None else obstacles
    markers = np.hstack([points - 5, points + 5])
    candidates = [_around(point, box) for point, box in zip(points, boxes, strict=True)]
    chosen = np.array([places[0][0] for places in candidates])
    for _ in range(_ROUNDS):
        before = chosen.copy()
        for at, places in enumerate(candidates):
            others = np.delete(np.hstack([chosen - boxes / 2, chosen + boxes / 2]), at, axis=0)
            costs = [
                _cost(centre, boxes[at], others, markers, keep_clear, area) + distance / 10
                for centre, distance in places
            ]
            chosen[at] = places[int(np.argmin(costs))][0]
        if (chosen == before).all():
            break
    return chosen


def label_points(axes: Any, points: FloatArray, names: Sequence[str], obstacles: FloatArray, size: float = 9.5) -> None:
    """Write names next to the points of a figure that is otherwise finished.

    Args:
        axes: Axes of matplotlib.
        points: float64 [points, 2], in data coordinates.
        names: Names of the points.
        obstacles: float64 [obstacles, 4], boxes in data coordinates that names should not cover.
        size: Font size in points.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = axes.figure
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    figure.draw_without_rendering()  # computes the final positions of the axes
    scale = 72 / figure.dpi  # pixels to points
    texts = [axes.text(0, 0, name, fontsize=size) for name in names]
    boxes = np.array([[box.width, box.height] for box in (text.get_window_extent(renderer) for text in texts)]) * scale
    for text in texts:
        text.remove()
    inside = axes.get_window_extent(renderer)
    area = np.array([inside.x0, inside.y0, inside.x1, inside.y1]) * scale
    pixels = axes.transData.transform(points) * scale
    corners = obstacles.reshape(-1, 2)
    taken = (axes.transData.transform(corners) * scale).reshape(-1, 4) if len(corners) else np.zeros((0, 4))
    taken = taken + np.array([-1, -1, 1, 1]) * _MARGIN / 2  # a line has no area
    centres = place_labels(boxes + _MARGIN, pixels, area, taken)
    for name, point, shift, box in zip(names, points, centres - pixels, boxes, strict=True):
        far = not _beside(shift, box)
        axes.annotate(
            name,
            point,
            shift,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=size,
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "alpha": 0.5, "shrinkB": 3} if far else None,
        ).set_in_layout(False)


def _beside(shift: FloatArray, box: FloatArray) -> bool:
    """Whether the edge of the name is near its point."""
    gap = np.maximum(np.abs(shift) - box / 2, 0)
    return bool(np.hypot(*gap) <= _DISTANCES[1])


def _around(point: FloatArray, box: FloatArray) -> list[tuple[FloatArray, float]]:
    """Possible centres of the name around the point, each with the distance of its edge from the point."""
    found = []
    for distance in _DISTANCES:
        for angle in _ANGLES:
            direction = np.array([np.cos(angle), np.sin(angle)]).round(9)
            edge = direction * box / 2 if abs(direction).max() > 0.99 else np.sign(direction) * box / 2
            found.append((point + direction * distance + edge, distance))
    return found


def _cost(
    centre: FloatArray,
    box: FloatArray,
    others: FloatArray,
    markers: FloatArray,
    obstacles: FloatArray,
    area: FloatArray,
) -> float:
    mine = np.concatenate([centre - box / 2, centre + box / 2])
    outside = np.maximum(area[:2] - mine[:2], 0).sum() + np.maximum(mine[2:] - area[2:], 0).sum()
    hidden = _overlap(mine, others) + _overlap(mine, markers)
    return float(100 * (hidden > 0) + hidden + 20 * (outside > 0) + outside + 4 * (_overlap(mine, obstacles) > 0))


def _overlap(box: FloatArray, others: FloatArray) -> float:
    """Area that the box shares with other boxes."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    return float(np.maximum(sides, 0).prod(axis=1).sum())
