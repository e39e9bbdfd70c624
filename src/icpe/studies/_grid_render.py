"""Tables as text, Markdown and LaTeX, from the same cells."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LATEX = {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "±": r"$\pm$", "†": r"\textsuperscript{\textdagger}", "–": "--"}
_MARKS = {"*": r"\textsuperscript{*}", "°": r"\textsuperscript{$\circ$}"}
_GREEK = {
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "κ": r"$\kappa$",
    "−": "$-$",
    "×": r"$\times$",
    "<": "$<$",
}


@dataclass(frozen=True)
class Shown:
    """What stands in a place of a table.

    Attributes:
        text: as it is read.
        place: 1 for the best, 2 for the second, else 0.
        mark: behind it.
    """

    text: str
    place: int = 0
    mark: str = ""


Group = tuple[str, list[tuple[str, list[Shown]]]]  # a heading, and rows with their names


def as_text(heading: Sequence[str], groups: Sequence[Group], caption: str) -> str:
    """With ¹ and ² for the best and the second, as plain text has neither bold nor underlined."""
    lines: list[list[str]] = []
    for name, rows in groups:
        for label, cells in rows:
            lines.append([name, label, *(f"{one.text}{' ¹²'[one.place].strip()}{one.mark}" for one in cells)])
    table = [["backbone", "method", *heading], *lines]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    out: list[str] = []
    for place, line in enumerate(table):
        if place > 1 and line[0] != table[place - 1][0]:
            out.append("")
        shown = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        out.append("  ".join(shown).rstrip())
        if place == 0:
            out.append("  ".join("-" * width for width in widths))
    plain = caption.replace("Bold: best; underlined: second", "¹ best; ² second")
    return "\n".join([*out, "", *_wrapped(plain)]) + "\n"


def as_markdown(heading: Sequence[str], groups: Sequence[Group], caption: str) -> str:
    """For pages."""
    styles = ("{}", "**{}**", "<u>{}</u>")
    out = [_row(["backbone", "method", *heading]), _row(["---"] * (len(heading) + 2))]
    for name, rows in groups:
        for label, cells in rows:
            shown = [styles[one.place].format(one.text) + one.mark.replace("*", "\\*") for one in cells]
            out.append(_row([name, label.replace("|", "\\|"), *shown]))
    return "\n".join([*out, "", caption.replace("*", "\\*")]) + "\n"


def as_latex(heading: Sequence[str], groups: Sequence[Group], caption: str) -> str:
    """For papers; needs the packages booktabs and textcomp."""
    styles = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")
    out = [r"\begin{table}", r"\centering", rf"\caption{{{_escaped(caption)}}}"]
    out += [rf"\begin{{tabular}}{{ll{'c' * len(heading)}}}", r"\toprule"]
    out += [" & ".join(["Backbone", "Method", *map(_escaped, heading)]) + r" \\"]
    for name, rows in groups:
        out.append(r"\midrule")
        for label, cells in rows:
            shown = [styles[one.place].format(_escaped(one.text)) + _MARKS.get(one.mark, "") for one in cells]
            out.append(" & ".join([_escaped(name), _escaped(label), *shown]) + r" \\")
    return "\n".join([*out, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    text = re.sub(r"([&%$#_{}])", r"\\\1", text.replace("\\", r"\textbackslash "))
    for sign, written in {**_LATEX, **_GREEK, "°": r"$\circ$"}.items():
        text = text.replace(sign, written)
    return text


def _wrapped(text: str, width: int = 120) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
