"""``icpe doctor``: what this installation runs on."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from icpe.cli.options import json_option, print_json

_PACKAGES = ("numpy", "polars", "numba", "torch", "click", "rich", "pooch", "matplotlib")


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Print versions, threads, devices, and where data and caches lie.

    Example: icpe doctor
    """
    found = examine()
    if as_json:
        print_json(found)
        return
    for section, entries in found.items():
        click.echo(section)
        for name, value in entries.items():
            click.echo(f"  {name:<20} {value if value is not None else '-'}")


def examine() -> dict[str, dict[str, Any]]:
    """Versions, threads, devices and places, as plain values."""
    import os
    import platform
    import sys

    from icpe import __version__
    from icpe.data.datasets.catalogue import CATALOGUE
    from icpe.data.datasets.fetch import cache_dir, locate

    here = {name: locate(entry) for name, entry in CATALOGUE.items()}
    return {
        "versions": {
            "icpe": __version__,
            "python": platform.python_version(),
            "system": platform.platform(),
            **{name: _version(name) for name in _PACKAGES},
        },
        "threads": {
            "cores": os.cpu_count(),
            "usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            **_library_threads(),
        },
        "devices": _devices(),
        "places": {
            "program": sys.prefix,
            "ICPE_DATA": os.environ.get("ICPE_DATA"),
            "cache": str(cache_dir()),
            **{f"data set {name}": str(place) for name, place in here.items() if place},
        },
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _library_threads() -> dict[str, Any]:
    import numba
    import polars
    import torch

    return {
        "torch": torch.get_num_threads(),
        "polars": polars.thread_pool_size(),
        "numba": numba.get_num_threads(),
    }


def _devices() -> dict[str, str]:
    import torch

    found = {"cpu": "always there"}
    for index in range(torch.cuda.device_count()):
        found[f"cuda:{index}"] = torch.cuda.get_device_name(index)
    if torch.backends.mps.is_available():
        found["mps"] = "Apple GPU"
    return found
