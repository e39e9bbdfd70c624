"""The front of a model as a table for the terminal."""

from typing import TYPE_CHECKING

from icpe.report.front_sentences import number, percent

if TYPE_CHECKING:
    from icpe.recommender.front import Front

_BAR = 16  # characters of the longest bar, so that a line has 80


def as_table(front: "Front", chosen: float) -> str:
    """Return the front as a table with a bar for NDCG. An arrow marks the chosen setting."""
    rows = [(beta, front.at(beta)) for beta in sorted({*front["beta"].tolist(), chosen})]
    top = max(row["ndcg"] for _, row in rows) or 1.0
    lines = ["     beta  niche share  coverage  balanced NDCG  Recall    NDCG"]
    for beta, row in rows:
        bar = "█" * round(_BAR * row["ndcg"] / top)
        lines.append(
            f"{'→' if beta == chosen else ' '} {beta:>7.3g}  {percent(row['apt']):>11}  {percent(row['coverage']):>8}  "
            f"{number(row['balanced_ndcg']):>13}  {number(row['recall']):>6}  {number(row['ndcg']):>6}  {bar}"
        )
    return "\n".join(lines)
