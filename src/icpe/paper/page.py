"""Studies of the paper as files: data, figures, tables, a text, and one page that shows them all."""

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from icpe.files import write_atomically
from icpe.paper import BACKBONES, STUDIES, Finding, Setting
from icpe.paper import run_figures as drawn
from icpe.paper import science_figures as science
from icpe.report.blocks import commands, figures, header, pairs, paragraphs, section, write_page
from icpe.report.figures import panels, save_figure
from icpe.report.grid_table import table_html
from icpe.report.making import versions_table
from icpe.report.trade_off import trade_off_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, TEXT = "report.html", "findings.md"
_SUFFIXES = (".svg", ".png")
# What stands above figures on the page.
_SHOWN = {
    "tradeoff-recall": "Recall",
    "tradeoff-ndcg": "NDCG",
    "case-sizes": "Clusters",
    "frontier-dials": "Dials that need no training",
    "gradients": "How hard items pull",
    "gradients-conflicts": "Conflicts",
    "theory": "Influence of popularity before training",
    "theory-bound": "Terms of the bound",
}
Drawings = dict[str, Callable[[], "Figure"]]


def reproduce(setting: Setting, names: Sequence[str], command: str | None = None) -> list[Finding]:
    """Make studies one after the other; files of each are there when it ends.

    Args:
        setting: data, seeds, settings, folder.
        names: of :data:`icpe.paper.STUDIES`.
        command: that makes the same again, for the page.

    Raises:
        ConfigError: matplotlib is not installed.
        IcpeError: a study could train nothing.
    """
    panels(1)  # a missing library is told before hours of training
    findings = []
    for name in names:
        finding = STUDIES[name](setting)
        save_finding(finding, setting.folder)
        findings.append(finding)
        write_report(findings, setting, page_of(setting, names), command)
    return findings


def page_of(setting: Setting, names: Sequence[str]) -> Path:
    """Where the page about some studies is: ``report.html``, or named after the only one."""
    return setting.folder / (NAME if len(names) > 1 else f"{names[0]}.html")


def save_finding(finding: Finding, folder: Path) -> None:
    """Write the data, figures, tables and text of a study, all named after it."""
    for name, frame in finding.frames.items():
        if name != "runs":  # the grid keeps those
            stem = finding.what if name == finding.what else f"{finding.what}-{name}"
            write_atomically(folder / f"{stem}.parquet", frame.write_parquet)
    for stem, draw in drawings(finding).items():
        figure = draw()
        for suffix in _SUFFIXES:
            save_figure(figure, folder / f"{stem}{suffix}")
    for stem, table in finding.tables.items():
        renderings = {".md": table.as_markdown, ".tex": table.as_latex, ".csv": table.as_csv, ".txt": table.as_text}
        for suffix, render in renderings.items():
            _write(folder / f"{stem}{suffix}", render())
    _write(folder / f"{finding.what}-finding.md", finding.as_text())


def drawings(finding: Finding) -> Drawings:
    """The figures of a study, by the name of their files."""
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
            what: lambda: science.gradient_figure(main),
            "gradients-conflicts": lambda: science.conflict_figure(finding.objects["conflicts"]),
        }
    if what == "theory":
        return {
            what: lambda: science.exponent_figure(finding.objects["influence"]),
            "theory-bound": lambda: science.bound_figure(frames["bound"]),
        }
    simple: Drawings = {
        "ablation": lambda: drawn.parts_left_out(main),
        "clusters": lambda: drawn.curves(main, "number of clusters K", 4),
        "alpha": lambda: drawn.curves(main, "share of the propensity α", 2e-3),
        "weights": lambda: drawn.niche_weights(main),
    }
    return {what: simple[what]}


def write_report(findings: Sequence[Finding], setting: Setting, path: Path, command: str | None = None) -> Path:
    """One page about all studies made so far, and, beside ``report.html``, their texts as Markdown."""
    held = [claim.held for finding in findings for claim in finding.claims]
    title = f"The paper's claims on {setting.dataset}"
    lead = (
        f"{held.count(True)} of {len(held)} claims of the paper held on {setting.dataset}, {held.count(False)} did not"
        + (f", and {held.count(None)} cannot be told." if None in held else ".")
    )
    body = [header(title, _about(setting), [(lead, "")])]
    body += [section(finding.title, _shown(finding)) for finding in findings]
    body.append(section("How it was made", _made(setting, command)))
    if path.name == NAME:
        _write(setting.folder / TEXT, f"# {title}\n\n{lead}\n\n" + "\n".join(one.as_text() for one in findings))
    return write_page(title, "\n".join(body), path)


def _shown(finding: Finding) -> str:
    rows = "".join(
        f"<tr><td>{escape(claim.said)}</td><td>{escape(claim.seen)}</td><td><b>{escape(claim.verdict)}</b></td></tr>"
        for claim in finding.claims
    )
    names = "".join(f'<th scope="col">{name}</th>' for name in ("The paper says", "Seen here", "So it"))
    heading = f"<thead><tr>{names}</tr></thead>"
    claims = f'<div class="wide"><table class="said">{heading}{rows}</table></div>' if rows else ""
    tables = "".join(table_html(table) for table in finding.tables.values())
    pictures = figures(*((_SHOWN.get(stem, ""), "", draw) for stem, draw in drawings(finding).items()))
    if tables:  # long and narrow: there is room for the figure beside it
        pictures = f'<div class="beside"><div>{tables}</div><div>{pictures}</div></div>'
    return claims + paragraphs(finding.notes) + pictures + paragraphs([finding.caption], "small")


def _about(setting: Setting) -> str:
    counts = setting.parts.manifest["counts"]["train"]
    sizes = ", ".join(f"{counts[what]:,} {what}" for what in ("users", "items", "interactions"))
    quick = " A quick version: fewer seeds and short training, not for conclusions." if setting.quick else ""
    return f"{setting.dataset}: {sizes} in training.{quick}"


def _made(setting: Setting, command: str | None) -> str:
    again = (
        "<p>This command makes it again, and goes on from what is in the folder:</p>" + commands([command])
        if command
        else ""
    )
    kept = "Every run is a folder below runs, with all its settings. Content hashes of the first seed's split:"
    hashes = pairs({name: value or "unknown" for name, value in setting.parts.manifest["hashes"].items()})
    return again + paragraphs([kept]) + hashes + versions_table()


def _front_drawings(finding: Finding) -> Drawings:
    front, points = finding.frames["frontier"], finding.frames["points"]
    found: Drawings = {
        f"frontier-{backbone}": partial(
            science.front_figure,
            front.filter(backbone=backbone),
            points.filter(backbone=backbone),
            BACKBONES[backbone],
        )
        for backbone in front["backbone"].unique(maintain_order=True)
    }
    if "dials" in finding.frames:
        dials = finding.frames["dials"].partition_by("dial", as_dict=True, include_key=False, maintain_order=True)
        found["frontier-dials"] = lambda: science.dial_figure({str(key[0]): frame for key, frame in dials.items()})
    return found


def _write(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
