"""What a study of the paper's claims comes out with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from icpe.compare.tables import Table


@dataclass(frozen=True)
class Claim:
    """Something the paper says, and whether it was seen here.

    Attributes:
        said: by the paper.
        seen: here, with numbers.
        held: None where the measurement cannot tell.
    """

    said: str
    seen: str
    held: bool | None

    @property
    def verdict(self) -> str:
        """In a word or two."""
        return {True: "held", False: "did not hold", None: "cannot be told from this"}[self.held]


@dataclass(frozen=True)
class Finding:
    """One table or figure of the paper, made again.

    Attributes:
        what: its name on the command line.
        title: with the paper's number.
        claims: of the paper, each with what was seen.
        caption: how it was measured: data, split, seeds, settings.
        frames: data by name; the one named as ``what`` is drawn.
        tables: to be read, by name.
        notes: sentences that do not belong to a claim.
        objects: what figures need besides, by name.
    """

    what: str
    title: str
    claims: list[Claim]
    caption: str
    frames: dict[str, pl.DataFrame]
    tables: Mapping[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    objects: Mapping[str, Any] = field(default_factory=dict)

    def as_text(self) -> str:
        """Title, claims and notes as paragraphs of Markdown."""
        claims = [
            f"- The paper says: {claim.said} Seen here: {claim.seen} **{claim.verdict.capitalize()}.**"
            for claim in self.claims
        ]
        notes = [f"{note}\n" for note in self.notes]
        return "\n".join([f"## {self.title}", "", *claims, "", *notes, f"*{self.caption}*", ""])
