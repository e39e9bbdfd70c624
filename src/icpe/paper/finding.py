"""Results of a study: measured data, and the paper's claims with a verdict for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from icpe.compare.tables import ResultTable


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, compared with the measurement.

    Attributes:
        said: what the paper says.
        seen: what was measured, with numbers.
        held: whether the measurement agrees, or None if it cannot decide.
    """

    said: str
    seen: str
    held: bool | None

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return {True: "held", False: "did not hold", None: "undecided"}[self.held]


@dataclass(frozen=True)
class Finding:
    """Result of the study of one table or figure of the paper.

    Attributes:
        what: name of the study on the command line.
        title: title with the number of the table or figure in the paper.
        claims: the paper's claims.
        caption: how the numbers were measured: data, split, seeds and settings.
        frames: measured data by name. The figure shows the frame with the name of the study.
        tables: tables for readers, by name.
        notes: sentences that do not belong to a claim.
        objects: further data for figures, by name.
    """

    what: str
    title: str
    claims: list[Claim]
    caption: str
    frames: dict[str, pl.DataFrame]
    tables: Mapping[str, ResultTable] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    objects: Mapping[str, Any] = field(default_factory=dict)

    def as_text(self) -> str:
        """Title, claims and notes in Markdown."""
        claims = [
            f"- The paper says: {claim.said} Measured: {claim.seen} **{claim.verdict.capitalize()}.**"
            for claim in self.claims
        ]
        notes = [f"{note}\n" for note in self.notes]
        return "\n".join([f"## {self.title}", "", *claims, "", *notes, f"*{self.caption}*", ""])
