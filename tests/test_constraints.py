"""``constraints.txt`` names every package that ``make demo`` and ``make test`` install, so that nothing unpinned gets in."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

BUILD = {"editables", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers"}
"""What hatchling 1.33 needs to install a project in place. It is installed in a place of its own, so nothing here says so."""

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pinned() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    assert all(re.fullmatch(r"==[^*,]+", str(one.specifier)) for one in pins)
    return {canonicalize_name(one.name): Version(str(one.specifier)[2:]) for one in pins}


def of_project(extra: str) -> list[Requirement]:
    """What ``pip install '.[extra]'`` asks for by name, and what builds the project."""
    declared, extras = PROJECT["project"]["dependencies"], PROJECT["project"]["optional-dependencies"]
    return [Requirement(line) for line in (*PROJECT["build-system"]["requires"], *declared, *extras[extra])]


def required(asked: list[Requirement]) -> dict[str, Requirement]:
    """All packages behind some requirements, from the metadata of those that are installed, on this platform."""
    found: dict[str, Requirement] = {}
    seen: set[tuple[str, str]] = set()
    while asked:
        one = asked.pop()
        name = canonicalize_name(one.name)
        if name == "icpe":  # an extra of our own, such as icpe[plot]
            asked += [more for extra in one.extras for more in of_project(extra)]
            continue
        found[name] = one
        for extra in ("", *one.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                lines = metadata.requires(name) or []
            except metadata.PackageNotFoundError:  # what builds the project is installed in a place of its own
                continue
            needed = [Requirement(line) for line in lines]
            asked += [more for more in needed if more.marker is None or more.marker.evaluate({"extra": extra})]
    return found


def test_every_package_of_the_two_commands_is_pinned():
    missing = sorted({*required(of_project("dev")), *BUILD} - set(pinned()))
    assert not missing, f"constraints.txt lacks {', '.join(missing)}"


def test_pins_are_allowed_by_the_project():
    pins = pinned()
    for name, one in required(of_project("dev")).items():
        assert one.specifier.contains(pins[name], prereleases=True), f"{pins[name]} is not {one}"


def test_the_walk_is_complete():
    """It goes through extras and through what they need in turn."""
    found = required(of_project("dev"))
    assert {"hatchling", "torch", "sympy", "mpmath", "optuna", "mako", "faiss-cpu", "onnxruntime", "pytest"} <= set(
        found
    )
