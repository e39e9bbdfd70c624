"""``icpe demo``: training with and without debiasing on the built-in data."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli.dotted import DottedCommand
from icpe.cli.options import command_line, json_option, print_json, seed_option
from icpe.cli.torchrun import program
from icpe.files import read_json

if TYPE_CHECKING:
    from icpe.data import World
    from icpe.runs.record import RunRecord
    from icpe.split import Parts

_METHODS = ("normal", "icpe", "logit_adjustment")
_REPORT = "report.html"
_SIZES = {False: (2000, 1500, 60_000), True: (400, 300, 8000)}  # users, items, interactions; by --quick
_WISH = 0.4  # share of the places for niche items


@click.command(cls=DottedCommand, sections=("train",))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="demo",
    show_default=True,
    help="Folder for the results.",
)
@click.option("--force", is_flag=True, help="Replace existing results.")
@click.option("--quick", is_flag=True, help="Take a smaller world and train for at most 40 epochs.")
@click.option("--users", type=int, help="Number of users in the world. Default: 2000, with --quick 400.")
@click.option("--items", type=int, help="Number of items in the world. Default: 1500, with --quick 300.")
@click.option("--interactions", type=int, help="Number of interactions in the log. Default: 60000, with --quick 8000.")
@seed_option
@json_option
@click.pass_obj
def demo(
    dotted: dict[str, dict[str, Any]],
    /,
    output: Path,
    force: bool,
    quick: bool,
    users: int | None,
    items: int | None,
    interactions: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Train with and without debiasing on a generated world, and show the difference.

    The command splits the log of the world with the default split (unbiased, item_quota) and trains MF three times with
    default settings: as Normal, as ICPE, and with the log-popularity offset, a simple rival. It shows what every
    setting of ICPE's dial costs, and sets the dials of ICPE and of the rival to a wish: 40 % of the places for niche
    items. The table compares the models on the test part, and with what the users of that world truly prefer. This
    takes about a minute. The page report.html in the folder shows more. If you interrupt the demo, the same command
    continues it.

    Example: icpe demo -o demo
    """
    from icpe import describe, make_world
    from icpe import split as splits
    from icpe.cli._declared import check_flags
    from icpe.errors import ConfigError
    from icpe.runs.config import RunConfig

    check_flags(dotted, RunConfig())
    if (output / _REPORT).exists() and not force:
        raise ConfigError(
            f"{output} holds results already; choose another folder with -o, or replace them with --force"
        )
    given = zip((users, items, interactions), _SIZES[quick], strict=True)
    size = [default if one is None else one for one, default in given]
    world = make_world(size[0], size[1], size[2], seed)
    figures, parts = describe(world.log), splits.unbiased(world.log, seed)
    begun = not force and _is_begun(output, parts)
    settings = {"seed": seed, **({"epochs": 40} if quick else {}), **dotted.get("train", {})}
    try:
        _save(output, world, parts)
        if not as_json:
            click.echo(f"{figures.as_text()}\n\n{parts.as_text()}\n")
        runs = {name: _train(output, name, settings, resume=begun) for name in _METHODS}
    except KeyboardInterrupt:
        raise click.Abort(f"the state is saved in {output}. Continue with: {_same_command()}") from None
    text, truth = _compare(output, world, parts)
    if as_json:
        measured = {name: {**runs[name], "truth": truth[name]} for name in _METHODS}
        content = {"folder": str(output), "report": str(output / _REPORT)}
        print_json({**content, "log": figures.as_dict(), "split": parts.manifest, "runs": measured})
        return
    click.echo(text)
    click.echo(f"""
  {output / _REPORT}  shows what debiasing costs, what changed, for whom, and why
  {output / "long-tail.png"}  shows how popularity is distributed
  {output / "split.png"}  shows how the split removes popularity from the test part
  {output / "world"} holds the log, the names and the true tastes; {output / "split"} holds the parts

Try: {program()} dial {output / "icpe"} --niche-share 0.6
     {program()} recommend {output / "icpe"} --user {world.log.users[0]} -n 5
     {program()} serve {output / "icpe"} normal={output / "normal"}  # a page to turn the dial on, at http://127.0.0.1:8000""")


def _is_begun(output: Path, parts: "Parts") -> bool:
    """Whether the folder holds an interrupted demo of the same data.

    Raises:
        ConfigError: it holds a demo of other data.
    """
    from icpe.errors import ConfigError

    try:
        found = read_json(output / "split" / "split.json")["hashes"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if found != parts.manifest["hashes"]:
        raise ConfigError(
            f"{output} holds an interrupted demo with another --seed or size; continue it with its own flags, choose "
            "another folder with -o, or replace it with --force"
        )
    return True


def _same_command() -> str:
    return " ".join(word for word in command_line().split(" ") if word != "--force")


def _save(output: Path, world: "World", parts: "Parts") -> None:
    """Write the world, the parts and their figures. They are the same when an interrupted demo continues."""
    from icpe.report.figures import long_tail, save_figure, split_balance

    (output / _REPORT).unlink(missing_ok=True)  # the page exists only when everything is done
    world.save(output / "world")
    parts.save(output / "split", force=True)
    for suffix in (".png", ".svg"):
        save_figure(long_tail(world.log), output / f"long-tail{suffix}")
        save_figure(split_balance(parts), output / f"split{suffix}")


def _train(output: Path, method: str, settings: dict[str, Any], resume: bool) -> dict[str, Any]:
    """Train on the saved log, which the default split cuts into the parts saved here."""
    from icpe.cli.progress import TrainingProgress, progress_bar
    from icpe.runs.config import RunConfig
    from icpe.runs.run import Run

    data = {"source": str(output / "world" / "log.parquet"), "item_info": str(output / "split" / "items.parquet")}
    # The world is small: the best state comes after about a thousand steps and is missed by rare validations. Normal
    # is what people have today, so its dial stays at rest; the others are set to the wish.
    wish: dict[str, Any] = {"goal": "none"} if method == "normal" else {"niche_share": _WISH}
    if settings.keys() & {"goal", "niche_share"}:  # the flags have a wish of their own
        wish = {}
    train = {"evaluate_every": 100, "patience": 12, **wish, **settings}
    config = RunConfig(data=data, method={"name": method}, train=train)
    with progress_bar(f"training {method}") as report:
        progress = TrainingProgress(report)
        run = Run(config, output / method, progress.on_step, progress.on_evaluation)
        return run.train(resume=resume, force=not resume)


def _compare(output: Path, world: "World", parts: "Parts") -> tuple[str, dict[str, dict[str, float | None]]]:
    """Write the page. Return the table with its headline, and the recall of true preferences of each method."""
    from icpe.metrics.true_preference import true_recall
    from icpe.report.pages.runs import NAME, write_runs_page
    from icpe.report.results import group_columns, result_table, run_columns
    from icpe.report.sentences import TRUE_RECALL, headline
    from icpe.runs.record import read_runs
    from icpe.tables import as_turned_text

    runs = read_runs([output / name for name in _METHODS])
    n = runs[0].n
    truth = [true_recall(run.model.scores, world, parts.train, n) for run in runs]
    further, meaning = group_columns(f"True Recall@{n}", "recall", n, truth), TRUE_RECALL.format(n=n)
    write_runs_page(runs, output / NAME, further=further, notes=[meaning])
    columns = [*run_columns(n, [run.values for run in runs]), *further]
    paragraphs = [*(" ".join(both) for both in headline(runs, columns)), meaning]
    wrapped = "\n\n".join(click.wrap_text(one, 80, "  ", "  ") for one in paragraphs)
    table = as_turned_text(result_table([run.label for run in runs], columns))
    front = _front_text(runs[_METHODS.index("icpe")])
    return f"{front}{table}\n\n{wrapped}", dict(zip(_METHODS, truth, strict=True))


def _front_text(run: "RunRecord") -> str:
    """Return what every setting of the dial gives on the test part, and what the chosen one costs."""
    from icpe.cli.front_text import as_table
    from icpe.report.front_sentences import describe_choice

    if run.front is None:
        return ""
    cost = click.wrap_text(describe_choice(run.front, run.model.beta, "test"), 80, "  ", "  ")
    about = f"{run.label} at every setting of its dial, on the test part. The arrow marks the chosen setting."
    return f"{about}\n\n{as_table(run.front, run.model.beta)}\n\n{cost}\n\n"
