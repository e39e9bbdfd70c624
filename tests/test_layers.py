"""Layers: a package imports only from packages on its left, and independent packages import shared modules only."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import icpe

SOURCE = Path(icpe.__file__).parent
SHARED = (
    "arrays",
    "errors",
    "extras",
    "toml",
    "types",
    "columns",
    "files",
    "rng",
    "settings",
    "shown",
    "spreadsheet",
    "suggest",
    "threads",
    "registry",
)  # small modules that all packages may import
LAYERS = (
    "data",
    "split",
    "ranking",
    "metrics",
    "backbones",
    "train",
    "recommender",
    "methods",
    "runs",
    "jobs",
    "compare",
    "tune",
    "audit",
    "simulate",
    "report",
    "paper",
    "export",
    "serve",
    "cli",
)
INDEPENDENT = (
    "kernels",
    "pareto",
    "cluster",
    "shards",
    "tables",
)  # they know nothing of recommenders and import shared modules only


def package_of(module: str) -> str:
    return module.split(".")[1] if module.count(".") else "icpe"


def imports(path: Path) -> set[str]:
    """All packages that a file imports from, anywhere in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("icpe")}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            if node.module == "icpe":
                found |= {f"icpe.{alias.name}" for alias in node.names}
            elif node.module and node.module.startswith("icpe."):
                found.add(node.module)
    return {package_of(module) for module in found}


def allowed(package: str) -> set[str]:
    if package in SHARED:
        return set(SHARED)
    if package in INDEPENDENT:
        return {package, *SHARED}
    if package in LAYERS:
        return {package, *SHARED, *INDEPENDENT, *LAYERS[: LAYERS.index(package)]}
    if package == "__main__":
        return {"cli"}
    assert package == "testing", (
        f"{package!r} is not a known package: add it to LAYERS, SHARED or INDEPENDENT in this test"
    )
    return {package, *SHARED, *INDEPENDENT, *LAYERS} - {"cli"}


FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    relative = path.relative_to(SOURCE)
    package = relative.parts[0].removesuffix(".py")
    # The names of icpe itself load lazily. Only the command line uses them, like any user.
    names = {"__version__", "describe", "make_world", "open_log", "Interactions"} if package == "cli" else set()
    assert imports(path) <= allowed(package) | names


def test_lazy_names_exist():
    for name in icpe.__all__:
        assert getattr(icpe, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = icpe.nonsense
    assert "Interactions" in dir(icpe)


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, icpe, icpe.cli; print(sorted({'torch', 'polars', 'numpy', 'numba', 'rich', 'pooch', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
