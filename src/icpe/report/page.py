"""``report.html``: one file that shows what a run does, or what several do differently."""

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from icpe.errors import ConfigError
from icpe.files import write_atomically
from icpe.report import icpe_figures, run_figures
from icpe.report.making import making
from icpe.report.people import people
from icpe.report.record import RunRecord, read_runs
from icpe.report.svg import inline_svg
from icpe.report.table import Block, as_html, blocks_of
from icpe.report.words import headline, title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "report.html"


def run_report(folder: Path | str, users: Sequence[str] = ()) -> Path:
    """Write ``report.html`` into the folder of a finished run; returns its path.

    Args:
        folder: of the run.
        users: whose lists to show, as typed; by default three typical users.

    Raises:
        DataError: the folder holds no finished run, or a user is unknown.
        ConfigError: matplotlib is not installed.
    """
    return compare_report([folder], Path(folder) / NAME, users)


def compare_report(
    runs: Sequence[Path | str],
    path: Path | str,
    users: Sequence[str] = (),
    further: Sequence[Block] = (),
    notes: Sequence[str] = (),
) -> Path:
    """Write a page about runs of the same split; returns its path.

    Args:
        runs: folders; the others are compared with the first.
        path: of the page, ending in .html.
        users: whose lists to show, as typed; by default three typical users.
        further: columns to add to the table, with a value for each run.
        notes: sentences that explain them.

    Raises:
        DataError: a folder holds no finished run, the runs are of different data, or a user is unknown.
        ConfigError: matplotlib is not installed, or the name does not end in .html.
    """
    path = Path(path)
    if path.suffix != ".html":
        raise ConfigError(f"{path} should end in .html")
    records = read_runs([Path(run) for run in runs])
    text = page(records, users, further, notes)
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
    return path


def page(
    runs: Sequence[RunRecord], users: Sequence[str] = (), further: Sequence[Block] = (), notes: Sequence[str] = ()
) -> str:
    """The page as text; the same runs give the same text on one machine."""
    blocks = [*blocks_of(runs), *further]
    said = headline(runs, blocks)
    lead = "".join(f'<p class="lead">{escape(shown)}</p><p>{escape(fits)}</p>' for shown, fits in said)
    told = "".join(f"<p>{escape(note)}</p>" for note in notes)
    sections = [
        f"<header><h1>{escape(title(runs))}</h1>{_about(runs[0])}{lead}</header>",
        _section("Head and niche", as_html([run.label for run in runs], blocks, _caption(runs[0])) + told),
        _section("What people are shown", _shown(runs)),
        _section("Training", _training(runs)),
        *(_section(f"Inside {run.label}", _inside(run)) for run in runs if run.diagnostics),
        _section("Lists of a few people", people(runs, users)),
        _section("How it was made", making(runs)),
    ]
    template = Template(files("icpe.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title(runs)), body="\n".join(sections))


def _about(run: RunRecord) -> str:
    counts, data = run.manifest["counts"]["train"], run.config.data
    source = Path(str(data.get("source") or data.get("train"))).name
    sizes = ", ".join(f"{counts[what]:,} {what}" for what in ("users", "items", "interactions"))
    return f'<p class="about">{escape(source)}: {sizes} in training. Split: {escape(_split(run))}.</p>'


def _split(run: RunRecord) -> str:
    mode = run.manifest.get("mode")
    return str(run.manifest["split"]) + (f" ({mode})" if mode else "")


def _caption(run: RunRecord) -> str:
    counted, users = run.values.get("users") or 0, run.manifest["counts"]["train"]["users"]
    return (
        f"On the {run.part} part of split {_split(run)}: means over {counted:,} users; {users - counted:,} have nothing"
        " there and are skipped. Head is the fifth of the items with most training interactions, niche the rest. "
        "APT is the share of niche items in the lists, Coverage the share of all items that are in some list. "
        "More is better (↑); the best is bold. One seed each, so small differences may be chance."
    )


def _shown(runs: Sequence[RunRecord]) -> str:
    least, most = min(len(run.listed) for run in runs), max(len(run.listed) for run in runs)
    users = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    whose = f"top-{runs[0].n} lists of {users} users, without what they used in training"
    tenths = f"Places in the {whose}, by popularity of the item. Grey: the share of training interactions."
    together = "Share of the places that the most popular items take together; the higher, the fewer items get it all."
    return _figures(
        ("Who gets the places", tenths, partial(run_figures.by_tenth, runs)),
        ("The long tail", together, partial(run_figures.cumulated, runs)),
    )


def _training(runs: Sequence[RunRecord]) -> str:
    if not any("valid" in record for run in runs for record in run.curve):
        return "<p>Nothing was validated during training.</p>"
    trade = (
        "On the validation part at each validation; the large point is the state that was kept. Up and right is better."
    )
    curve = "The state with the best value, the large point, is kept."
    return _figures(
        ("Head against niche", trade, partial(run_figures.trade_off, runs)),
        ("Validation", curve, partial(run_figures.progress, runs)),
    )


def _inside(run: RunRecord) -> str:
    noted = run.diagnostics
    kept = next((one for one in noted if one["step"] == run.kept), noted[-1])
    at = f"At step {kept['step']:,}"
    over = icpe_figures.over_training
    niche_weight = partial(over, noted, "niche_weight", "mean weight of niche items", 1.0)
    spearman = partial(over, noted, "spearman", "rank correlation", 0.0)
    return _figures(
        ("Clusters", f"{at}. Numbers: mean training interactions of an item.", partial(icpe_figures.sizes, kept)),
        ("How hard clusters pull", f"{at}, per item of the cluster.", partial(icpe_figures.gradient_norms, kept)),
        (
            "Conflicts",
            f"{at}: cosines of the clusters' gradients. Red is conflict.",
            partial(icpe_figures.cosines, kept),
        ),
        ("Weights of clusters", "1: as without ICPE.", partial(icpe_figures.weights, noted)),
        ("Weight of niche items", "Above 1 niche items count more than without ICPE.", niche_weight),
        (
            "Propensity follows popularity",
            "Spearman's correlation of S^g and the training count; 1 is perfect.",
            spearman,
        ),
    )


def _figures(*entries: tuple[str, str, Callable[[], "Figure"]]) -> str:
    drawn = (
        f"<figure><figcaption><b>{escape(name)}</b>{escape(said)}</figcaption>{inline_svg(draw, name)}</figure>"
        for name, said, draw in entries
    )
    return f'<div class="figures">{"".join(drawn)}</div>'


def _section(heading: str, content: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>{content}</section>"
