"""Tables as LaTeX."""

from icpe.tables.model import Table

_STYLES = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")
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
    "\N{NO-BREAK SPACE}": "~",
}


def as_latex(table: Table) -> str:
    """A ``table`` environment with the best value in bold; it needs the packages booktabs and textcomp."""
    heading = [*(name.capitalize() for name in table.label_names), *(column.title for column in table.columns)]
    out = [r"% \usepackage{booktabs}; too wide for the page: \usepackage{graphicx}, and \resizebox{\textwidth}{!}{...}"]
    out += [r"\begin{table}", r"\centering", rf"\caption{{{_escaped(table.full_caption('Bold', 'underlined'))}}}"]
    out += [rf"\begin{{tabular}}{{{'l' * len(table.label_names)}{'c' * len(table.columns)}}}", r"\toprule"]
    out += [" & ".join(map(_escaped, heading)) + r" \\"]
    for _, rows in table.groups():
        out.append(r"\midrule")
        for row in rows:
            cells = [
                _STYLES[cell.rank].format(_escaped(column.format(cell))) + _MARKS.get(cell.mark, _escaped(cell.mark))
                for column, cell in zip(table.columns, row.cells, strict=True)
            ]
            out.append(" & ".join([*map(_escaped, row.labels), *cells]) + r" \\")
    return "\n".join([*out, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)
