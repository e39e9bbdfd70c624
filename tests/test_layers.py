"""The house: a room imports only from rooms on its left, and loops and side rooms stay apart."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import icpe

SOURCE = Path(icpe.__file__).parent
CELLAR = (
    "arrays",
    "errors",
    "types",
    "columns",
    "files",
    "rng",
    "settings",
    "suggest",
    "registry",
)  # small modules everybody may use
LINE = (
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
    "report",
    "paper",
    "export",
    "serve",
    "cli",
)
SIDE = ("kernels", "pareto", "cluster", "tables")  # no recommender in them: they use the cellar only


def room_of(module: str) -> str:
    return module.split(".")[1] if module.count(".") else "icpe"


def imports(path: Path) -> set[str]:
    """All rooms a file imports from, wherever in the file."""
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
    return {room_of(module) for module in found}


def allowed(room: str) -> set[str]:
    if room in CELLAR:
        return set(CELLAR)
    if room in SIDE:
        return {room, *CELLAR}
    if room in LINE:
        return {room, *CELLAR, *SIDE, *LINE[: LINE.index(room)]}
    if room == "__main__":
        return {"cli"}
    assert room == "testing", f"{room!r} is not a room of the house: add it to the plan in this test"
    return {room, *CELLAR, *SIDE, *LINE} - {"cli"}


FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    relative = path.relative_to(SOURCE)
    room = relative.parts[0].removesuffix(".py")
    # The package's own names load lazily; only the command line uses them, like any user.
    names = {"__version__", "describe", "make_world", "open_log", "Interactions"} if room == "cli" else set()
    assert imports(path) <= allowed(room) | names


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
