"""``report.html``: one file that shows what a run does, or what several do differently."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from icpe import columns as col
from icpe.recommender.lists import typed_ids
from icpe.report import exposure_figures, icpe_figures, run_figures
from icpe.report.blocks import check_page_name, figures, header, paragraphs, section, write_page
from icpe.report.exposure_figures import Exposure
from icpe.report.making import making
from icpe.report.people import LENGTH, card, typical
from icpe.report.record import RunRecord, read_runs
from icpe.report.table import Block, as_html, blocks_of
from icpe.report.words import headline, title

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
    path = check_page_name(Path(path))
    records = read_runs([Path(run) for run in runs])
    return write_page(title(records), _body(records, users, further, notes), path)


def _body(runs: Sequence[RunRecord], users: Sequence[str], further: Sequence[Block], notes: Sequence[str]) -> str:
    """The page; the same runs give the same text on one machine."""
    blocks = [*blocks_of(runs), *further]
    table = as_html([run.label for run in runs], blocks, _caption(runs[0]))
    sections = [
        header(title(runs), about(runs[0]), headline(runs, blocks)),
        section("Head and niche", table + paragraphs(notes)),
        section("What people are shown", what_is_shown(runs)),
        section("Training", _training(runs)),
        *(section(f"Inside {run.label}", inside(run)) for run in runs if run.diagnostics),
        section("Lists of a few people", people(runs, users)),
        section("How it was made", making(runs)),
    ]
    return "\n".join(sections)


def people(runs: Sequence[RunRecord], users: Sequence[str] = ()) -> str:
    """Cards with what somebody has used and what each run recommends.

    Args:
        runs: all of one log.
        users: whose, as typed; by default three people with few, some and many training interactions.

    Raises:
        DataError: a user is not in the training data.
    """
    log = runs[0].model.log
    chosen = typed_ids(users, log.users, "user") or typical(log)
    lists = {user: [(run.label, run.model.recommend([user], LENGTH)[col.ITEM]) for run in runs] for user in chosen}
    return "".join(card(log, user, found, "in training") for user, found in lists.items())


def about(run: RunRecord) -> str:
    """A line about the data and the split."""
    counts, data = run.manifest["counts"]["train"], run.config.data
    source = Path(str(data.get("source") or data.get("train"))).name
    sizes = ", ".join(f"{counts[what]:,} {what}" for what in ("users", "items", "interactions"))
    return f"{source}: {sizes} in training. Split: {split_name(run)}."


def split_name(run: RunRecord) -> str:
    """Kind of the split, with its mode."""
    mode = run.manifest.get("mode")
    return str(run.manifest["split"]) + (f" ({mode})" if mode else "")


def _caption(run: RunRecord) -> str:
    counted, users = run.values.get("users") or 0, run.manifest["counts"]["train"]["users"]
    return (
        f"On the {run.part} part of split {split_name(run)}: means over {counted:,} users; {users - counted:,} have "
        "nothing there and are skipped. Head is the fifth of the items with most training interactions, niche the "
        "rest. APT is the share of niche items in the lists, Coverage the share of all items that are in some list. "
        "More is better (↑); the best is bold. One seed each, so small differences may be chance."
    )


def what_is_shown(runs: Sequence[RunRecord]) -> str:
    """Who gets the places in the lists of each run."""
    least, most = min(len(run.listed) for run in runs), max(len(run.listed) for run in runs)
    users = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    whose = f"top-{runs[0].n} lists of {users} users, without what they used in training"
    tenths = f"Places in the {whose}, by popularity of the item. Grey: the share of training interactions."
    together = "Share of the places that the most popular items take together; the higher, the fewer items get it all."
    counts, lists = runs[0].model.log.item_counts, [Exposure(run.label, run.shown) for run in runs]
    return figures(
        ("Who gets the places", tenths, partial(exposure_figures.by_tenth, counts, lists, "training log")),
        ("The long tail", together, partial(exposure_figures.cumulated, counts, lists, "training log")),
    )


def _training(runs: Sequence[RunRecord]) -> str:
    if not any("valid" in record for run in runs for record in run.curve):
        return "<p>Nothing was validated during training.</p>"
    trade = (
        "On the validation part at each validation; the large point is the state that was kept. Up and right is better."
    )
    curve = "The state with the best value, the large point, is kept."
    return figures(
        ("Head against niche", trade, partial(run_figures.trade_off, runs)),
        ("Validation", curve, partial(run_figures.progress, runs)),
    )


def inside(run: RunRecord) -> str:
    """Clusters, gradients and weights of ICPE."""
    noted = run.diagnostics
    kept = next((one for one in noted if one["step"] == run.kept), noted[-1])
    at = f"At step {kept['step']:,}"
    over = icpe_figures.over_training
    niche_weight = partial(over, noted, "niche_weight", "mean weight of niche items", 1.0)
    spearman = partial(over, noted, "spearman", "rank correlation", 0.0)
    return figures(
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
