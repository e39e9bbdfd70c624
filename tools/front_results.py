"""Write the tables and figures of docs/results/fronts.md from the folders of its comparisons.

    python tools/front_results.py FOLDER...    # folders such as out/lastfm-mf, made by the commands of the page

The page has a place for each comparison, ``<!-- comparison: lastfm-mf -->``, and one for the summary. Comparisons whose
folders are not named keep their tables and their rows in the summary.
"""

import re
import sys
from pathlib import Path

import polars as pl

from icpe.compare.grid import Grid, open_grid
from icpe.compare.tables import table_of
from icpe.metrics.statistics import t_test
from icpe.report.figures import save_figure
from icpe.report.figures.fronts import front_curves, mean_curves

PAGE = Path(__file__).parents[1] / "docs" / "results" / "fronts.md"
AREA, BALANCED, POINT, SHARE = "hypervolume@20", "balanced_hypervolume@20", "ndcg@20", "apt@20"
AT_SHARES = [f"ndcg_at_{share}@20" for share in (0.1, 0.2, 0.4)]
COLUMNS = [AREA, BALANCED, *AT_SHARES, POINT, "recall@20", SHARE, "coverage@20"]
HEAD = [
    "comparison",
    "seeds",
    "hypervolume: ICPE / best rival",
    "",
    "balanced hypervolume",
    "",
    "NDCG, chosen point",
    "",
]
README_FIGURE, SHOWN = "amazon-grocery-mf", ("Normal", "Log-popularity offset", "In-batch softmax", "ICPE")


def compared(grid: Grid, metric: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """ICPE and its best rival in a metric, each as a frame ``seed, value``."""
    rows = grid.results.select("label", "seed", value=metric)
    means = rows.filter(~pl.col("label").str.starts_with("ICPE")).group_by("label").agg(pl.col("value").mean())
    best = means.sort("value", descending=True)["label"][0]
    return tuple(rows.filter(label=label).sort("seed") for label in ("ICPE", best))  # type: ignore[return-value]


def summary_row(name: str, grid: Grid) -> str:
    """One line of the summary: the mean of ICPE, that of the best rival, the difference, and the p of a paired test."""
    cells = [name, str(len(grid.seeds))]
    for metric in (AREA, BALANCED, POINT):
        own, rival = compared(grid, metric)
        both = own.join(rival, on="seed", suffix="_rival")
        difference = both["value"] - both["value_rival"]
        test = t_test(difference.to_numpy())
        gain = 100 * difference.mean() / both["value_rival"].mean()  # type: ignore[operator]
        chance = "–" if test is None else f"{test.p:.3f}".removeprefix("0")
        cells.append(f"{own['value'].mean():.4f} / {rival['value'].mean():.4f} ({rival['label'][0]})")
        cells.append(f"{gain:+.1f} % (p {chance})")
    return f"| {' | '.join(cells)} |"


def save_readme_figure(grid: Grid) -> None:
    """The fronts of ICPE and the strongest simple rivals, and Normal as people have it, with its dial at rest."""
    normal = pl.col("label") == "Normal"
    rows = grid.fronts().filter(pl.col("label").is_in(SHOWN))
    rows = rows.with_columns(chosen=pl.when(normal).then(0.0).otherwise("chosen"))
    rows = rows.with_columns(label=pl.when(normal).then(pl.lit("Normal, as trained")).otherwise("label"))
    save_figure(front_curves(mean_curves(rows, "mf")), PAGE.parent / "front.svg")


def fill(text: str, place: str, content: str) -> str:
    """The page with new content between the marks of a place."""
    begin, end = f"<!-- {place} -->", "<!-- end -->"
    pattern = re.escape(begin) + r".*?" + re.escape(end)
    if not re.search(pattern, text, re.DOTALL):
        raise SystemExit(f"{PAGE} has no place {begin} … {end}")
    return re.sub(pattern, lambda _: f"{begin}\n{content}\n{end}", text, count=1, flags=re.DOTALL)


def summary_rows(text: str) -> dict[str, str]:
    """The rows of the summary as the page has them, by comparison."""
    found = re.search(r"<!-- summary -->\n(.*?)<!-- end -->", text, re.DOTALL)
    lines = found[1].splitlines()[2:] if found else []
    return {line.split("|")[1].strip(): line for line in lines}


def main(folders: list[Path]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = summary_rows(text)
    for folder in folders:
        grid, name = open_grid(folder), folder.name
        (backbone,) = grid.results["backbone"].unique()
        figure = PAGE.parent / "fronts" / f"{name}.svg"
        save_figure(front_curves(mean_curves(grid.fronts(), backbone)), figure)
        table = table_of(grid, COLUMNS, "ICPE").as_markdown()
        text = fill(text, f"comparison: {name}", f"![Fronts of all methods](fronts/{figure.name})\n\n{table}")
        rows[name] = summary_row(name, grid)
        if name == README_FIGURE:
            save_readme_figure(grid)
    head = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    PAGE.write_text(fill(text, "summary", "\n".join([*head, *rows.values()])), encoding="utf-8")


if __name__ == "__main__":
    main([Path(one) for one in sys.argv[1:]])
