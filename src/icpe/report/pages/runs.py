"""``report.html``: one page that shows what a run does, or how several runs differ."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from icpe import columns as col
from icpe.data.item_info import item_column
from icpe.metrics.groups import exposure_by_group
from icpe.recommender import Model
from icpe.recommender.ids import parse_known_users
from icpe.report import sentences
from icpe.report.dial_lists import further_settings, representative_users
from icpe.report.figures import exposure, fronts, icpe, training
from icpe.report.figures.exposure import Exposure
from icpe.report.front_sentences import describe_choice
from icpe.report.group_section import GroupSection, group_section
from icpe.report.rendering import FigureCard, check_page_name, figure_card, write_page
from icpe.report.results import ResultColumn, result_table, run_columns
from icpe.report.user_cards import LENGTH, UserCard, typical_users, user_card
from icpe.runs.provenance import setting_rows, split_rows, train_command, versions
from icpe.runs.record import RunRecord, read_runs

NAME = "report.html"


def runs_report(
    runs: Sequence[Path | str],
    path: Path | str,
    users: Sequence[str] = (),
    verify: bool = True,
    by: Sequence[str] = (),
) -> Path:
    """Write a page about finished runs of the same split; returns its path.

    Args:
        runs: Folders of the runs. All others are compared with the first.
        path: File of the page, ending in .html.
        users: Ids of the users whose lists are shown, as text; three typical users by default.
        verify: Whether to compare the files of the runs with their checksums.
        by: Columns of the items, such as a category, by which exposure is shown.

    Raises:
        DataError: A folder contains no finished run or a damaged one, the runs have different data, or a user is
            unknown.
        ConfigError: matplotlib is not installed, the name does not end in .html, or the items have no such column.
    """
    check_page_name(Path(path))
    return write_runs_page(read_runs([Path(run) for run in runs], verify), path, users, by=by)


def write_runs_page(
    runs: Sequence[RunRecord],
    path: Path | str,
    users: Sequence[str] = (),
    further: Sequence[ResultColumn] = (),
    notes: Sequence[str] = (),
    by: Sequence[str] = (),
) -> Path:
    """Write a page about runs that were read; returns its path. The same runs give the same bytes on one machine.

    Args:
        runs: Runs of the same split. All others are compared with the first.
        path: File of the page, ending in .html.
        users: Ids of the users whose lists are shown, as text; three typical users by default.
        further: Columns to add to the table, with a value for each run.
        notes: Sentences that explain these columns.
        by: Columns of the items by which exposure is shown.

    Raises:
        DataError: A user is unknown.
        ConfigError: matplotlib is not installed, the name does not end in .html, or the items have no such column.
    """
    columns = [*run_columns(runs[0].n, [run.values for run in runs]), *further]
    labels = [run.label for run in runs]
    return write_page(
        Path(path),
        "runs.html",
        title=sentences.title(runs),
        about=data_line(runs[0]),
        headline=sentences.headline(runs, columns),
        fronts=front_cards(runs),
        costs=front_sentences(runs),
        table=result_table(labels, columns, _caption(runs[0])),
        notes=notes,
        shown=exposure_cards(runs),
        groups=[_group_section(runs, column) for column in by],
        training=_training_cards(runs),
        training_notes=sentences.best_step_notes(runs),
        inside=inside_cards(runs),
        users=user_cards(runs, users, turned=True),
        about_users=_about_users(runs, users),
        commands=[train_command(run.folder) for run in runs],
        labels=labels,
        settings=setting_rows(run.config for run in runs),
        split=split_rows(runs[0].manifest),
        versions=versions(),
    )


def front_cards(runs: Sequence[RunRecord]) -> list[FigureCard]:
    """Figures of the fronts of the runs on the test part; none if no run has a front."""
    curves = [
        fronts.curve_of(run.label, style, run.front, run.model.beta, thin=run.method == "normal" and len(runs) > 1)
        for run, style in zip(runs, training.run_styles(runs), strict=True)
        if run.front is not None
    ]
    if not curves:
        return []
    places, balanced = fronts.CAPTIONS
    return [
        figure_card("Accuracy and places for niche items", places, partial(fronts.front_curves, curves)),
        figure_card("All items counted alike", balanced, partial(fronts.front_curves, curves, "balanced")),
    ]


def front_sentences(runs: Sequence[RunRecord]) -> list[tuple[str, str]]:
    """Label and cost of the chosen setting for every run that has a front on the test part."""
    return [(run.label, describe_choice(run.front, run.model.beta, "test")) for run in runs if run.front is not None]


def user_cards(runs: Sequence[RunRecord], users: Sequence[str] = (), turned: bool = False) -> list[UserCard]:
    """Cards of users with what each run recommends to them.

    Args:
        runs: Runs of one log.
        users: Ids of the users as text; by default three users with few, some and many training interactions.
        turned: Whether to add the lists of the last ICPE run at two further settings of its dial. The three users are
            then such whose lists have a usual number of niche items.

    Raises:
        DataError: A user is not in the training data.
    """
    log, further = runs[0].model.log, _turned(runs) if turned else []
    models = [*((run.label, run.model) for run in runs), *further]
    chosen = parse_known_users(users, log)
    if not chosen:
        chosen = representative_users([model for _, model in models], LENGTH) if further else typical_users(log)
    lists = {user: [(label, model.recommend([user], LENGTH)[col.ITEM]) for label, model in models] for user in chosen}
    return [user_card(log, user, found, "in training") for user, found in lists.items()]


def _turned(runs: Sequence[RunRecord]) -> list[tuple[str, Model]]:
    """The last ICPE run at two further settings of its dial, with labels."""
    last = next((run for run in reversed(runs) if run.method == "icpe"), None)
    return [(f"{last.label}, {name}", model) for name, model in further_settings(last.model)] if last else []


def _about_users(runs: Sequence[RunRecord], users: Sequence[str]) -> list[str]:
    """Sentences about the users and the lists on the cards."""
    if not (further := _turned(runs)):
        return []
    label = further[0][0].rpartition(", ")[0]
    chosen = (
        "One user with few, one with some and one with many interactions; each has a typical number of niche items "
        "among similar users. "
    )
    names = " and ".join(f"“{name}”" for name, _ in further)
    return [
        f"{'' if users else chosen}{names} come from the same trained model as “{label}”; only the dial is elsewhere. "
        "Nothing was trained again."
    ]


def data_line(run: RunRecord) -> str:
    """A line about the data and the split."""
    counts, data = run.manifest["counts"]["train"], run.config.data
    source = Path(str(data.get("source") or data.get("train"))).name
    sizes = ", ".join(f"{counts[kind]:,} {kind}" for kind in ("users", "items", "interactions"))
    return f"{source}: {sizes} in training. Split: {_split_name(run)}."


def exposure_cards(runs: Sequence[RunRecord]) -> list[FigureCard]:
    """Figures of which items fill the lists of each run."""
    least, most = min(len(run.listed) for run in runs), max(len(run.listed) for run in runs)
    users = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    tenths = (
        f"Positions in the top-{runs[0].n} lists of {users} users, without their training items, by popularity of "
        "the item. Grey: share of the training interactions."
    )
    counts, styles = runs[0].model.log.item_counts, training.run_styles(runs)
    lists = [Exposure(run.label, style, run.shown) for run, style in zip(runs, styles, strict=True)]
    return [
        figure_card("Who fills the lists", tenths, partial(exposure.by_tenth, counts, lists, "training log")),
        figure_card("The long tail", exposure.CUMULATED, partial(exposure.cumulated, counts, lists, "training log")),
    ]


def _group_section(runs: Sequence[RunRecord], column: str) -> GroupSection:
    log, labels = runs[0].model.log, [run.label for run in runs]
    groups = exposure_by_group(item_column(log.item_info, column), log.item_counts, [run.shown for run in runs])
    return group_section(column, groups, labels, training.run_styles(runs), "training log")


def inside_cards(runs: Sequence[RunRecord]) -> list[tuple[str, list[FigureCard]]]:
    """Labels of the runs that have diagnostics of ICPE, with figures of their clusters, gradients and weights."""
    return [(run.label, _icpe_cards(run)) for run in runs if run.diagnostics]


def _icpe_cards(run: RunRecord) -> list[FigureCard]:
    all_of_them = run.diagnostics
    kept = next((one for one in all_of_them if one["step"] == run.best_step), all_of_them[-1])
    at = f"At step {kept['step']:,}"
    niche_weight = partial(icpe.over_training, all_of_them, "niche_weight", "mean weight of niche items", 1.0)
    spearman = partial(icpe.over_training, all_of_them, "spearman", "rank correlation", 0.0)
    return [
        figure_card("Clusters", f"{at}. Numbers: mean training interactions of an item.", partial(icpe.sizes, kept)),
        figure_card("Strength of the gradients", f"{at}, for each cluster.", partial(icpe.gradient_norms, kept)),
        figure_card(
            "Conflicts",
            f"{at}: cosines between the gradients of the clusters. Red means conflict.",
            partial(icpe.cosines, kept),
        ),
        figure_card("Weights of clusters", "1 is the weight without ICPE.", partial(icpe.weights, all_of_them)),
        figure_card("Weight of niche items", "Above 1, niche items count more than without ICPE.", niche_weight),
        figure_card(
            "Propensity follows popularity",
            "Spearman correlation between the learned propensity and the training count of items; 1 is perfect.",
            spearman,
        ),
    ]


def _training_cards(runs: Sequence[RunRecord]) -> list[FigureCard]:
    if not any("valid" in record for run in runs for record in run.curve):
        return []
    trade = "On the validation part, at each validation. The large point was kept. Up and right is better."
    return [
        figure_card("Head against niche", trade, partial(training.head_against_niche, runs)),
        figure_card(
            "Validation",
            "The state with the best value was kept; it is the large point.",
            partial(training.validation_curve, runs),
        ),
    ]


def _split_name(run: RunRecord) -> str:
    mode = run.manifest.get("mode")
    return str(run.manifest["split"]) + (f" ({mode})" if mode else "")


def _caption(run: RunRecord) -> str:
    counted, users = run.values.get("users") or 0, run.manifest["counts"]["train"]["users"]
    return (
        f"Measured on the {run.part} part of the split {_split_name(run)}: means over {counted:,} users; "
        f"{users - counted:,} users have no items there and are skipped. Head items are the fifth of the items with "
        "the most training interactions, niche items are the rest. APT is the share of niche items in the lists, "
        "Coverage the share of all items that are in some list. ↑ means that more is better; the best value is bold. "
        "Each run has one seed, so small differences may be due to chance."
    )
