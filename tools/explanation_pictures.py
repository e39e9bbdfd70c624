"""Draw the pictures of docs/explanations from the built-in world. It takes a few minutes.

python tools/explanation_pictures.py
"""

from pathlib import Path

import numpy as np

from icpe import ICPE, MF, Model, Normal, World, make_world, split
from icpe.paper.analysis.gradients import item_gradients
from icpe.recommender.front import Front
from icpe.report.figures import save_figure
from icpe.report.figures.canvas import legend_above, panels
from icpe.report.figures.fronts import Curve, curve_of, front_curves
from icpe.report.figures.style import GREY, HEAD, NICHE, method_styles
from icpe.rng import stream
from icpe.split import Parts
from icpe.types import FloatArray

FOLDER = Path(__file__).parents[1] / "docs" / "explanations"
STYLES = dict(zip(("normal", "icpe"), method_styles(["normal", "icpe"]), strict=True))
LENGTH = 20


def main() -> None:
    world = make_world(seed=0)
    parts = split.unbiased(world.log, seed=0)
    models = {
        "normal": Normal(MF()).fit(parts.train, valid=parts.valid, seed=0),
        "icpe": ICPE(MF()).fit(parts.train, valid=parts.valid, seed=0),
    }
    draw_shares(world, parts, models)
    draw_fronts(parts, models)
    draw_gradients(parts)
    draw_causes()


def draw_shares(world: World, parts: Parts, models: dict[str, Model]) -> None:
    """Cumulative shares of interactions, wanted items and places, from the most to the least popular item."""
    order = np.argsort(-parts.train.item_counts, kind="stable")
    figure, (axes,) = panels(1, (6.4, 3.8))
    across = 100 * np.arange(len(order) + 1) / len(order)

    def add(counts: FloatArray, label: str, colour: str, dashes: str) -> None:
        share = np.concatenate([[0], np.cumsum(counts[order]) / counts.sum()])
        axes.plot(across, 100 * share, color=colour, linestyle=dashes, label=label)

    add(parts.train.item_counts, "interactions of the log", GREY, "-")
    wanted = parts.train.item_index.codes(world.wanted(LENGTH)["item_id"])
    add(np.bincount(wanted[wanted >= 0], minlength=len(order)), "true taste", NICHE, ":")
    # At rest, so that the picture shows what training alone does: Normal as it is, ICPE by taste alone.
    for name, label in (("normal", "lists of Normal"), ("icpe", "lists of ICPE by taste alone")):
        lists = models[name].dial(beta=0.0).recommend(parts.train.users, LENGTH)
        codes = parts.train.item_index.codes(lists["item_id"])
        style = STYLES[name]
        add(np.bincount(codes, minlength=len(order)), label, style.colour, style.dashes)
    axes.axvline(20, color=GREY, linewidth=0.6)
    axes.set_xlabel("items, from the most to the least popular (%)")
    axes.set_ylabel("cumulative share (%)")
    legend_above(axes)
    save_figure(figure, FOLDER / "popularity-bias.svg")


def draw_fronts(parts: Parts, models: dict[str, Model]) -> None:
    """The front of ICPE on the test part, and Normal as it is trained."""
    curves: list[Curve] = []
    for name, label in (("normal", "Normal"), ("icpe", "ICPE")):
        front: Front = models[name].front(parts.test)
        chosen = 0.0 if name == "normal" else models[name].beta
        curves.append(curve_of(label, STYLES[name], front, chosen, thin=name == "normal"))
    save_figure(front_curves(curves), FOLDER / "front.svg")


def draw_gradients(parts: Parts) -> None:
    """Length of each item's gradient before training, against its popularity."""
    method = Normal(MF())
    method.build(parts.train, stream(0, "picture"))
    found = item_gradients(method, parts.train)
    figure, (axes,) = panels(1, (6.4, 3.4))
    head = found["head"].to_numpy()
    for mask, colour, label in ((head, HEAD, "head items"), (~head, NICHE, "niche items")):
        axes.loglog(
            found["popularity"].to_numpy()[mask],
            found["gradient_norm"].to_numpy()[mask],
            ".",
            color=colour,
            label=label,
        )
    axes.set_xlabel("training interactions of the item")
    axes.set_ylabel("length of its gradient")
    legend_above(axes)
    save_figure(figure, FOLDER / "gradients.svg")


def draw_causes() -> None:
    """The graph of causes: taste of a user for an item, and the pull of the item, both lead to a click."""
    figure, (axes,) = panels(1, (6.4, 2.6))
    places = {"user": (0.1, 0.75), "item": (0.1, 0.2), "taste": (0.45, 0.6), "pull": (0.45, 0.08), "click": (0.85, 0.4)}
    labels = {
        "user": "user",
        "item": "item",
        "taste": "taste\n(this user, this item)",
        "pull": "pull\n(this item)",
        "click": "click",
    }
    for cause, effect in (
        ("user", "taste"),
        ("item", "taste"),
        ("item", "pull"),
        ("taste", "click"),
        ("pull", "click"),
    ):
        colour = HEAD if "pull" in (cause, effect) else NICHE
        arrow = {
            "arrowstyle": "->",
            "color": colour,
            "shrinkA": 64 if cause == "taste" else 26,
            "shrinkB": 30,
            "linewidth": 1.4,
        }
        axes.annotate("", places[effect], places[cause], arrowprops=arrow)
    for name, place in places.items():
        colour = HEAD if name == "pull" else NICHE if name == "taste" else GREY
        axes.text(*place, labels[name], ha="center", va="center", color=colour)
    axes.set(xlim=(0, 1), ylim=(-0.05, 0.95))
    axes.axis("off")
    save_figure(figure, FOLDER / "idea.svg")


if __name__ == "__main__":
    main()
