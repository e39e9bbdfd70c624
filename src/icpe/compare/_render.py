"""Tables as text, Markdown and LaTeX, from the same cells."""

from collections.abc import Sequence
from dataclasses import dataclass

_MARKS = {"*": r"\textsuperscript{*}", "°": r"\textsuperscript{$\circ$}"}
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma",
    "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta",
    "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
_LATEX = {
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    **{letter: rf"$\{name}$" for letter, name in _GREEK.items()},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "°": r"$\circ$",
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "†": r"\textsuperscript{\textdagger}",
    "–": "--",
    "…": r"\dots{}",
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
    out = [r"% \usepackage{booktabs}; too wide for the page: \usepackage{graphicx}, and \resizebox{\textwidth}{!}{...}"]
    out += [r"\begin{table}", r"\centering", rf"\caption{{{_escaped(caption)}}}"]
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
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _wrapped(text: str, width: int = 120) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
