"""Write the expected numbers of the pages of methods from the tables in docs/results.

A page marks its numbers with two comments, ``<!-- expected: dice -->`` and ``<!-- end of expected -->``.

    python tools/expected_numbers.py          # rewrite the numbers
    python tools/expected_numbers.py --check  # exit with 1 if a page is out of date
"""

import re
import sys
from collections.abc import Iterator

from icpe.methods import METHODS
from pages import DOCS, rewrite

MARKED = re.compile(r"(<!-- expected: (\w+) -->\n).*?(<!-- end of expected -->)", re.DOTALL)
LABELS = {"penalty": "penalty", "logit_adjustment": "log-popularity offset"}
"""Names that the results use instead of the label of the method."""
BACKBONES = ("MF", "LightGCN", "NeuMF")
REFERENCE = "normal"
NOT_MEASURED = "Not yet measured on public data.\n"


def label_of(method: str) -> str:
    """Return what the tables of results call a method, in small letters."""
    return LABELS.get(method, METHODS.find(method).label).lower()


def rows_of(text: str) -> Iterator[dict[str, str]]:
    """Yield each row of every Markdown table in a text, by column name; the columns without a name are '' and '1'."""
    columns: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            columns = []
            continue
        cells = [
            cell.strip().strip("*").removeprefix("<u>").removesuffix("</u>") for cell in line.strip("|").split("|")
        ]
        if not columns:
            columns = cells
        elif set(line) - set("|-: "):
            yield dict(zip(columns, cells, strict=True))


def tuned(method: str) -> list[str]:
    """Return the rows of docs/results/methods.md for a method and Normal, as lines of a table."""
    text = (DOCS / "results" / "methods.md").read_text(encoding="utf-8")
    found: dict[tuple[str, str], str] = {}
    for title, part in re.findall(r"^## ([^\n]*, tuned)$(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE):
        for row in rows_of(part):
            if "seeds" not in row:
                continue
            first, _, rest = row[""].partition(" ")
            backbone, name = (first, rest) if first in BACKBONES and rest else (title.partition(",")[0], row[""])
            values = [value for column, value in row.items() if column != ""]
            found[backbone, name.lower()] = f"| {backbone} | {name} | " + " | ".join(values) + " |"
    names = dict.fromkeys((label_of(REFERENCE), label_of(method)))
    return [
        found[backbone, name]
        for backbone in BACKBONES
        if (backbone, label_of(method)) in found
        for name in names
        if (backbone, name) in found
    ]


def fronts(method: str) -> list[str]:
    """Return the rows of docs/results/fronts.md for a method and Normal, as lines of a table."""
    text = (DOCS / "results" / "fronts.md").read_text(encoding="utf-8")
    lines = []
    for title, part in re.findall(
        r"^### ([^\n]*)$.*?<!-- comparison: [\w-]+ -->\n(.*?)<!-- end -->", text, re.DOTALL | re.M
    ):
        by_name = {row["method"].lower(): row for row in rows_of(part)}
        row, normal = by_name.get(label_of(method)), by_name.get(label_of(REFERENCE))
        if row is None:
            continue
        area = "Hypervolume@20 ↑"
        cells = [title, row[area]] if method == REFERENCE else [title, normal[area] if normal else "not run", row[area]]
        cells += [row["NDCG@20 ↑"], row["APT@20 ↑"], row["Coverage@20 ↑"]]
        lines.append("| " + " | ".join(cell.rstrip("°*\\") for cell in cells) + " |")
    return lines


def numbers(method: str) -> str:
    """Return the part of the page of a method between the two comments."""
    parts = []
    # The page of all methods has ICPE with the settings of an earlier version.
    points, curves = [] if method == "icpe" else tuned(method), fronts(method)
    if points:
        parts += [
            "Last.FM, unbiased split, test part, means ± standard deviations over seeds. The settings are tuned, and",
            "the dial is at rest ([all methods and how they were tuned](../results/methods.md)).",
            "",
            "| backbone | method | seeds | Recall@20 | NDCG@20 | Recall, head | Recall, niche | Coverage@20 | APT@20 |",
            "|---|---|---|---|---|---|---|---|---|",
            *points,
            "",
        ]
    if curves:
        reference = [] if method == REFERENCE else ["area of Normal"]
        head = ["data, backbone", *reference, "area below the front", "NDCG@20", "APT@20", "Coverage@20"]
        parts += [
            "Whole fronts on test parts, and the metrics at the setting of the dial that validation chose",
            "([which settings each method had](../results/fronts.md)):",
            "",
            "| " + " | ".join(head) + " |",
            "|---" * len(head) + "|",
            *curves,
            "",
        ]
    return "\n".join(parts) if parts else NOT_MEASURED


def updated(text: str) -> str:
    """Return the text of a page with its numbers written again."""
    return MARKED.sub(lambda mark: mark[1] + "\n" + numbers(mark[2]).rstrip() + "\n\n" + mark[3], text)


if __name__ == "__main__":
    sys.exit(rewrite((DOCS / "methods").glob("*.md"), updated))
