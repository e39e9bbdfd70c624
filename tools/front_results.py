"""Write the result files of comparisons of fronts, and the tables and figures that show them.

    python tools/front_results.py FOLDER...  # folders of comparisons, such as out/lastfm-mf
    python tools/front_results.py            # everything again, from the files in docs/results/fronts
    python tools/front_results.py --check    # exit with 1 if a page is not what the files say

A comparison has three files: ``NAME.toml``, its cells; ``NAME.csv``, one row for each run; and ``NAME-curves.csv``, the
mean front of each method. Comparisons older than these files have no ``NAME.csv``, and their curves were read from
their figures. They keep their tables and rows, and the output names them. A comparison ``NAME-newer`` has the methods
of 2023 to 2025 that ``NAME`` lacks.
"""

import contextlib
import re
import sys
from pathlib import Path

import polars as pl

from icpe.compare.grid import Failure, Grid, open_grid
from icpe.compare.study_file import read_cells
from icpe.compare.tables import table_of
from icpe.metrics.statistics import paired_t_test
from icpe.report.figures import save_figure
from icpe.report.figures.fronts import Curve, front_curves, front_panels, mean_curves
from icpe.report.figures.style import method_styles

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
FILES, PAGE = RESULTS / "fronts", RESULTS / "fronts.md"
OVERVIEWS = (ROOT / "README.md", RESULTS / "README.md")
DATA = {
    "Last.FM": "lastfm-mf",
    "Gowalla": "gowalla-mf",
    "Yelp2018": "yelp2018-mf",
    "foursquare-nyc": "foursquare-nyc-mf",
    "yelp2019": "yelp2019-mf",
    "Amazon Grocery": "amazon-grocery-mf",
}  # the comparisons of the overviews, in the order of the figure
BACKBONES = {"MF": "mf", "NeuMF": "neumf", "LightGCN": "lightgcn"}
AREA, BALANCED, POINT, SHARE = "hypervolume@20", "balanced_hypervolume@20", "ndcg@20", "apt@20"
COLUMNS = [
    AREA,
    BALANCED,
    *(f"ndcg_at_{share}@20" for share in (0.1, 0.2, 0.4)),
    POINT,
    "recall@20",
    SHARE,
    "coverage@20",
]
RUN = ["label", "backbone", "method", "seed"]
NEWER = ("PSL", "BSL", "ReSN", "PAAC", "PopDCL", "PopGo")
NEWER_PART = "-newer"
SIMPLE = ("Normal", "Log-popularity offset", "In-batch softmax")
EXAMPLE, AT_REST = "amazon-grocery-mf", "Normal, as trained"  # of the figure with one data set
DIGITS = 6


# Files


def write_files(folder: Path) -> None:
    """Write the runs and the mean fronts of a comparison that is finished or under way."""
    grid, name = open_grid(folder), folder.name
    failed = [
        {"label": one.label, "backbone": one.backbone, "seed": one.seed, "failure": one.reason} for one in grid.failures
    ]
    runs = grid.results.select(*RUN, "users", "users_skipped", *COLUMNS, failure=pl.lit(None, pl.String))
    runs = pl.concat([runs, pl.DataFrame(failed)], how="diagonal_relaxed") if failed else runs
    fronts = grid.fronts()
    at_rest = fronts.filter(method="normal").with_columns(label=pl.lit(AT_REST), chosen=0.0)
    curves = [*curve_rows(fronts), *curve_rows(at_rest)]
    for path, frame in ((FILES / f"{name}.csv", runs), (FILES / f"{name}-curves.csv", pl.DataFrame(curves))):
        frame.with_columns(pl.col(pl.Float64).round_sig_figs(DIGITS)).write_csv(path)


def curve_rows(fronts: pl.DataFrame) -> list[dict[str, object]]:
    """The mean fronts of a frame of fronts: for each method, the chosen point, then the points of the curve."""
    methods = dict(fronts.select("label", "method").unique().iter_rows())
    rows: list[dict[str, object]] = []
    for curve in mean_curves(fronts, fronts["backbone"][0]) if len(fronts) else []:
        first = {"label": curve.label, "method": methods[curve.label], "n": curve.n}
        rows.append({**first, "apt": curve.chosen["apt"], "ndcg": curve.chosen["ndcg"]})
        rows += [{**first, "apt": x, "ndcg": y} for x, y in zip(curve.values["apt"], curve.values["ndcg"], strict=True)]
    return rows


def has_files(name: str) -> bool:
    return (FILES / f"{name}.csv").exists()


def read_comparison(name: str) -> Grid:
    """The comparison as its files have it."""
    cells = read_cells(FILES / f"{name}.toml")[0]
    runs = pl.read_csv(FILES / f"{name}.csv", infer_schema_length=None, schema_overrides={"failure": pl.String})
    failures = [
        Failure(*row) for row in runs.drop_nulls("failure").select("label", "backbone", "seed", "failure").iter_rows()
    ]
    seeds = sorted(set(runs["seed"]))
    return Grid(cells, seeds, FILES, runs.filter(pl.col("failure").is_null()), failures)


def read_newer(name: str) -> Grid | None:
    """The comparison with the newer methods on the data and backbone of another one, if they have been run."""
    for one in (name + NEWER_PART, name):
        grid = read_comparison(one) if has_files(one) else None
        if grid and set(NEWER) & set(grid.results["label"]):
            return grid
    return None


def read_curves(name: str, labels: tuple[str, ...] = ()) -> list[Curve]:
    """The mean fronts of a comparison; all, except that of Normal at rest, or those with the given labels."""
    frame = pl.read_csv(FILES / f"{name}-curves.csv")
    newer = FILES / f"{name}{NEWER_PART}-curves.csv"
    if labels and newer.exists():
        frame = pl.concat([frame, pl.read_csv(newer).filter(pl.col("label").is_in(NEWER))])
    tables = {table["label"][0]: table for table in frame.partition_by("label", maintain_order=True)}
    chosen = [tables[label] for label in labels if label in tables] or [tables[one] for one in tables if one != AT_REST]
    found = []
    for table, style in zip(chosen, method_styles([table["method"][0] for table in chosen]), strict=True):
        values = {measure: table[measure].to_numpy() for measure in ("apt", "ndcg")}
        point = {measure: float(points[0]) for measure, points in values.items()}
        line = {measure: points[1:] for measure, points in values.items()}
        found.append(Curve(table["label"][0], style, line, point, table["n"][0], table["method"][0] == "normal"))
    return found


# Tables


def means(grid: Grid, metric: str) -> dict[str, float]:
    """The mean of each method that is not ICPE, the best first."""
    rows = grid.results.filter(~pl.col("label").str.starts_with("ICPE")).group_by("label").agg(pl.col(metric).mean())
    return dict(rows.sort(metric, "label", descending=[True, False]).iter_rows())


def against(grid: Grid, rival: str, metric: str) -> tuple[float, float, str]:
    """The means of ICPE and of a rival over the seeds of both, and the difference with the p of a paired test."""
    own, other = (grid.results.filter(label=label).select("seed", metric) for label in ("ICPE", rival))
    ours, theirs = own.join(other, on="seed", suffix="_rival").sort("seed")[:, 1:].to_numpy().T
    test = paired_t_test(ours, theirs)
    chance = "–" if test is None else f"{test.p:.3f}".removeprefix("0")
    return ours.mean(), theirs.mean(), f"{100 * (ours.mean() / theirs.mean() - 1):+.1f} % (p {chance})"


def comparison(name: str) -> str:
    """Figure and table of a comparison, and which of its cells have not been run."""
    grid = read_comparison(name)
    ran = {*grid.results["label"], *(one.label for one in grid.failures)}
    missing = [cell.label for cell in grid.cells if cell.label not in ran]
    parts = [f"![Fronts of all methods](fronts/{name}.svg)", table_of(grid, COLUMNS, "ICPE").as_markdown().strip()]
    if missing:
        parts.append(f"Not run yet: {', '.join(missing)}.")
    return "\n\n".join(parts) + "\n"


def summary(names: list[str], kept: dict[str, str]) -> str:
    """ICPE and its best rival in every comparison; those without files have the rows that the page has."""
    gap = "difference"
    head = ["comparison", "seeds", "hypervolume: ICPE / best rival", gap, "balanced hypervolume", gap]
    head += ["NDCG, chosen point", gap]
    lines = []
    for name in names:
        if not has_files(name):
            lines.append(kept[name])
            continue
        grid = read_comparison(name)
        cells = [name, str(len(grid.seeds))]
        for metric in (AREA, BALANCED, POINT):
            rival = next(iter(means(grid, metric)))
            own, theirs, difference = against(grid, rival, metric)
            cells += [f"{own:.4f} / {theirs:.4f} ({rival})", difference]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines])


def all_cells(rows: dict[str, str]) -> str:
    """For every data set and backbone, the hypervolume of ICPE and of the best rival, from the rows of the summary."""
    lines = [f"| data | {' | '.join(BACKBONES)} |", "|---" * (len(BACKBONES) + 1) + "|"]
    for data, name in DATA.items():
        cells = []
        for backbone in BACKBONES.values():
            row = rows.get(f"{name.removesuffix('-mf')}-{backbone}")
            if row is None:
                cells.append("not run")
                continue
            _, _, seeds, areas, difference, *_ = (one.strip() for one in row.split("|"))
            cells.append(f"{areas}: {difference}, {seeds} seed{'s' * (seeds != '1')}")
        lines.append(f"| {data} | {' | '.join(cells)} |")
    return "\n".join(lines)


def newer() -> str:
    """The hypervolume of each newer method, and how far ICPE is ahead of it."""
    lines = [f"| data, MF | {' | '.join(NEWER)} |", "|---" * (len(NEWER) + 1) + "|"]
    for data, name in DATA.items():
        grid = read_newer(name)
        if grid is None:
            continue
        cells = []
        for label in NEWER:
            cells.append("not run")
            if label in set(grid.results["label"]):
                _, theirs, difference = against(grid, label, AREA)
                cells[-1] = f"{theirs:.4f}, {difference}"
        lines.append(f"| {data}, {len(grid.seeds)} seeds | {' | '.join(cells)} |")
    return "\n".join(lines)


def overview(kept: dict[str, str]) -> str:
    """The areas below the fronts of the simple rivals, the best newer method, and ICPE, for the data of the page."""
    head = [
        "data, MF",
        "Normal",
        "log-popularity offset, tuned",
        "in-batch softmax, tuned",
        "best of six newer methods, tuned",
    ]
    lines = [f"| {' | '.join([*head, 'ICPE, default settings'])} |", "|---" * (len(head) + 1) + "|"]
    for first, line in kept.items():
        name, labels = DATA[first.partition(", ")[0]], (*SIMPLE, "ICPE")
        if has_files(name):
            grid = read_comparison(name)
            first = f"{first.partition(', ')[0]}, {len(grid.seeds)} seeds"
            areas = {**means(grid, AREA), "ICPE": grid.results.filter(label="ICPE")[AREA].mean()}
            values = {label: areas[label] for label in labels if label in areas}
        else:
            found = [cell.split()[0].strip("*") for cell in line.strip("|").split("|")[1:]]
            del found[len(SIMPLE)]  # the newer method, which has files of its own
            values = {label: float(one) for label, one in zip(labels, found, strict=True) if one != "–"}
        values |= best_newer(name)
        own = next((label for label in values if label in NEWER), "")
        cells = [first]
        for label in (*SIMPLE, own, "ICPE"):
            shown = f"{values[label]:.4f}" if label in values else "–"
            shown = f"**{shown}**" if values.get(label) == max(values.values()) else shown
            cells.append(f"{shown} ({label})" if label in NEWER else shown)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def best_newer(name: str) -> dict[str, float]:
    """The newer method with the largest hypervolume, and this number; empty if none was run."""
    grid = read_newer(name)
    areas = means(grid, AREA) if grid else {}
    return dict([next((label, area) for label, area in areas.items() if label in NEWER)]) if areas else {}


# Pages


def place_of(text: str, place: str) -> re.Match[str]:
    """The content between the marks of a place."""
    # It stops at the next mark, so that a place without a line cannot take in the places after it.
    inside = r"(?:(?!<!-- ).)*?(?=\n<!-- end -->)"
    found = re.search(rf"(?<=<!-- {re.escape(place)} -->\n){inside}", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"a page has no place <!-- {place} --> … <!-- end -->, with a line in between")
    return found


def fill(text: str, place: str, content: str) -> str:
    """The page with new content in a place."""
    found = place_of(text, place)
    return text[: found.start()] + content + text[found.end() :]


def rows_of(text: str, place: str) -> dict[str, str]:
    """The rows of a table as the page has them, by their first cell."""
    return {line.split("|")[1].strip(): line for line in place_of(text, place)[0].splitlines()[2:]}


def pages() -> dict[Path, str]:
    """All pages with tables from the files."""
    text = PAGE.read_text(encoding="utf-8")
    names = re.findall(r"<!-- comparison: (\S+) -->", text)
    for name in names:
        if has_files(name):
            text = fill(text, f"comparison: {name}", comparison(name))
    whole = [name for name in names if not name.endswith(NEWER_PART)]
    text = fill(text, "summary", summary(whole, rows_of(text, "summary")))
    text = fill(text, "cells", all_cells(rows_of(text, "summary")))
    found = {PAGE: fill(text, "newer", newer())}
    for page in OVERVIEWS:
        text = page.read_text(encoding="utf-8")
        found[page] = fill(text, "results", overview(rows_of(text, "results")))
    return found


def save_figures() -> None:
    """The fronts of each comparison, those of one data set for the overviews, and all data sets side by side."""
    names = [path.name.removesuffix("-curves.csv") for path in sorted(FILES.glob("*-curves.csv"))]
    for name in names:
        save_figure(front_curves(read_curves(name)), FILES / f"{name}.svg")
    if EXAMPLE in names:
        save_figure(front_curves(read_curves(EXAMPLE, (AT_REST, *SIMPLE[1:], "ICPE"))), RESULTS / "front.svg")
    panels = {}
    for data, name in DATA.items():
        if name in names:
            panels[data] = read_curves(name, (*SIMPLE, *best_newer(name), "ICPE"))
    save_figure(front_panels(panels), RESULTS / "fronts.svg")


def main(arguments: list[str]) -> int:
    """The exit code; the cells name their presets from the root of the project."""
    check = arguments == ["--check"]
    folders = [] if check else [Path(one).resolve() for one in arguments]
    with contextlib.chdir(ROOT):
        for folder in folders:
            write_files(folder)
        made = pages()
        kept = [name for name in re.findall(r"<!-- comparison: (\S+) -->", made[PAGE]) if not has_files(name)]
        if kept:
            print(f"no result files, so the tables stay as they are: {', '.join(kept)}")
        differ = [page for page, text in made.items() if text != page.read_text(encoding="utf-8")]
        if check:
            for page in differ:
                print(f"{page} is not what the result files say; run python tools/front_results.py")
            return 1 if differ else 0
        for page in differ:
            page.write_text(made[page], encoding="utf-8")
        save_figures()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
