"""The files of studies: data, figures, tables, a text, and one page that shows all of them."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from icpe.files import write_atomically, write_text
from icpe.paper import BACKBONES, STUDIES, Finding, Reproduction
from icpe.paper import figures as drawn
from icpe.report.figures import panels, save_figure
from icpe.report.figures.trade_off import trade_off_figure
from icpe.report.rendering import figure_card, write_page
from icpe.runs.provenance import hash_rows, versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, TEXT = "report.html", "findings.md"
_SUFFIXES = (".svg", ".png")
# Titles of figures on the page; figures that are the only one of their study need none.
_TITLES = {
    "tradeoff-recall": "Recall",
    "tradeoff-ndcg": "NDCG",
    "case-sizes": "Clusters",
    "frontier-dials": "Dials that need no training",
    "gradients": "Strength of the gradients",
    "gradients-conflicts": "Conflicts",
    "theory": "Influence of popularity before training",
    "theory-bound": "Terms of the bound",
}
Drawings = dict[str, Callable[[], "Figure"]]


def reproduce(reproduction: Reproduction, names: Sequence[str], command: str | None = None) -> list[Finding]:
    """Run studies one after the other and write the files of each as soon as it ends; returns their findings.

    Args:
        reproduction: Data, seeds, settings and folder.
        names: Names of :data:`icpe.paper.STUDIES`.
        command: The command that repeats this, for the page.

    Raises:
        ConfigError: matplotlib is not installed.
        IcpeError: A study could not train any run.
    """
    panels(1)  # reports a missing library before hours of training
    findings = []
    for name in names:
        finding = STUDIES[name](reproduction)
        save_finding(finding, reproduction.folder)
        findings.append(finding)
        write_report(findings, reproduction, page_of(reproduction, names), command)
    return findings


def page_of(reproduction: Reproduction, names: Sequence[str]) -> Path:
    """The file of the page about these studies: ``report.html``, or a name after the only study."""
    return reproduction.folder / (NAME if len(names) > 1 else f"{names[0]}.html")


def save_finding(finding: Finding, folder: Path) -> None:
    """Write the data, figures, tables and text of a study to files named after it."""
    for name, frame in finding.frames.items():
        if name != "runs":  # the grid writes those
            stem = finding.what if name == finding.what else f"{finding.what}-{name}"
            write_atomically(folder / f"{stem}.parquet", frame.write_parquet)
    for stem, draw in drawings(finding).items():
        figure = draw()
        for suffix in _SUFFIXES:
            save_figure(figure, folder / f"{stem}{suffix}")
    for stem, table in finding.tables.items():
        renderings = {".md": table.as_markdown, ".tex": table.as_latex, ".csv": table.as_csv, ".txt": table.as_text}
        for suffix, render in renderings.items():
            write_text(folder / f"{stem}{suffix}", render())
    write_text(folder / f"{finding.what}-finding.md", finding.as_text())


def drawings(finding: Finding) -> Drawings:
    """Functions that draw the figures of a study, by the names of their files."""
    what, frames = finding.what, finding.frames
    main = frames[what]
    if what in ("accuracy", "debiasing"):
        metrics = ("recall@20", "ndcg@20") if what == "accuracy" else ("coverage@20", "apt@20")
        return {what: lambda: drawn.dots(main, metrics)}
    if what == "tradeoff":
        runs, backbone = frames["runs"], main["backbone"][0]
        return {f"tradeoff-{kind}": partial(trade_off_figure, runs, backbone, kind) for kind in ("recall", "ndcg")}
    if what == "case":
        return {what: lambda: drawn.two_lists(main), "case-sizes": lambda: drawn.cluster_popularity(frames["sizes"])}
    if what == "frontier":
        return _front_drawings(finding)
    if what == "gradients":
        return {
            what: lambda: drawn.gradient_figure(main),
            "gradients-conflicts": lambda: drawn.conflict_figure(finding.objects["conflicts"]),
        }
    if what == "theory":
        return {
            what: lambda: drawn.exponent_figure(finding.objects["influence"]),
            "theory-bound": lambda: drawn.bound_figure(frames["bound"]),
        }
    simple: Drawings = {
        "ablation": lambda: drawn.parts_left_out(main),
        "clusters": lambda: drawn.curves(main, "number of clusters K", 4),
        "alpha": lambda: drawn.curves(main, "share of the propensity α", 2e-3),
        "weights": lambda: drawn.niche_weights(main),
    }
    return {what: simple[what]}


def write_report(
    findings: Sequence[Finding], reproduction: Reproduction, path: Path, command: str | None = None
) -> Path:
    """Write one page about these studies and, next to ``report.html``, their texts as Markdown; returns the page."""
    held = [claim.held for finding in findings for claim in finding.claims]
    title = f"The paper's claims on {reproduction.dataset}"
    lead = (
        f"{held.count(True)} of {len(held)} claims of the paper held on {reproduction.dataset}, "
        f"{held.count(False)} did not" + (f", and {held.count(None)} cannot be decided." if None in held else ".")
    )
    if path.name == NAME:
        write_text(
            reproduction.folder / TEXT, f"# {title}\n\n{lead}\n\n" + "\n".join(one.as_text() for one in findings)
        )
    studies = [
        (finding, [figure_card(_TITLES.get(stem, ""), "", draw) for stem, draw in drawings(finding).items()])
        for finding in findings
    ]
    return write_page(
        path,
        "studies.html",
        "icpe.paper",
        title=title,
        about=_data_line(reproduction),
        headline=[(lead, "")],
        studies=studies,
        command=command,
        hashes=hash_rows([reproduction.parts.manifest]),
        versions=versions(),
    )


def _data_line(reproduction: Reproduction) -> str:
    counts = reproduction.parts.manifest["counts"]["train"]
    sizes = ", ".join(f"{counts[kind]:,} {kind}" for kind in ("users", "items", "interactions"))
    quick = (
        " This is a quick version with few seeds and short training, not for conclusions." if reproduction.quick else ""
    )
    return f"{reproduction.dataset}: {sizes} in training.{quick}"


def _front_drawings(finding: Finding) -> Drawings:
    front, points = finding.frames["frontier"], finding.frames["points"]
    found: Drawings = {
        f"frontier-{backbone}": partial(
            drawn.front_figure,
            front.filter(backbone=backbone),
            points.filter(backbone=backbone),
            BACKBONES[backbone],
        )
        for backbone in front["backbone"].unique(maintain_order=True)
    }
    if "dials" in finding.frames:
        dials = finding.frames["dials"].partition_by("dial", as_dict=True, include_key=False, maintain_order=True)
        found["frontier-dials"] = lambda: drawn.dial_figure({str(key[0]): frame for key, frame in dials.items()})
    return found
