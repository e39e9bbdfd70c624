"""``icpe doctor``: the environment of this installation."""

from importlib import metadata
from typing import Any

import click

from icpe.cli.options import json_option, print_json

_PACKAGES = ("numpy", "polars", "numba", "torch", "click", "rich", "pooch", "pydantic", "scipy")
_EXTRAS = {  # extra → its package, and what it is for
    "plot": ("matplotlib", "figures and report pages"),
    "tune": ("optuna", "hyper-parameter search, `icpe tune`"),
    "faiss": ("faiss-cpu", "`icpe export --to faiss`"),
    "onnx": ("onnxruntime", "`icpe export --to onnx`"),
    "cluster": ("ray", "runs on several machines"),
    "serve": ("fastapi", "the service, `icpe serve`"),
}
_WITHOUT_CUDA = "none found; this torch is built without CUDA"
_HEADINGS = {
    "versions": "Versions of icpe and of the packages it needs",
    "extras": "Optional extras",
    "threads": "Processor cores, and threads that each library uses",
    "devices": "Compute devices",
    "places": "Folders",
}


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Show versions, optional extras, threads, devices, and the folders of data sets.

    Example: icpe doctor
    """
    found = examine()
    if as_json:
        print_json(found)
        return
    for section, entries in found.items():
        click.echo(f"{_HEADINGS[section]}:")
        for name, value in entries.items():
            click.echo(f"  {name:<24} {_extra_text(name, value) if section == 'extras' else _text(name, value)}")


def examine() -> dict[str, dict[str, Any]]:
    """Versions, extras, threads, devices and folders, as plain values. A missing extra has the value None."""
    import os
    import platform
    import sys

    from icpe import __version__
    from icpe.data.datasets import CATALOGUE, cache_dir, locate

    found = {name: locate(entry) for name, entry in CATALOGUE.items() if entry.files}  # the others are generated
    return {
        "versions": {
            "icpe": __version__,
            "python": platform.python_version(),
            "system": platform.platform(),
            **{name: _version(name) for name in _PACKAGES},
        },
        "extras": {name: _version(package) for name, (package, _) in _EXTRAS.items()},
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
            **{f"data set {name}": str(place) if place else None for name, place in found.items()},
        },
    }


def _text(name: str, value: Any) -> str:
    if value is None and name.startswith("data set "):
        return f"not on this machine; `icpe data fetch {name.removeprefix('data set ')}`"
    return "not set" if value is None else str(value)


def _extra_text(name: str, installed: str | None) -> str:
    package, purpose = _EXTRAS[name]
    if installed is None:
        return f"missing: pip install 'icpe[{name}]' for {purpose}"
    return f"{package} {installed}: {purpose}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _library_threads() -> dict[str, Any]:
    import numba
    import polars
    import torch

    from icpe import threads

    return {
        "icpe": threads.count(),
        "torch": torch.get_num_threads(),
        "polars": polars.thread_pool_size(),
        "numba": numba.get_num_threads(),
    }


def _devices() -> dict[str, str]:
    import torch

    found = {"cpu": "always available"}
    for index in range(torch.cuda.device_count()):
        found[f"cuda:{index}"] = torch.cuda.get_device_name(index)
    if torch.backends.mps.is_available():
        found["mps"] = "Apple GPU"
    if len(found) == 1:
        cuda = torch.version.cuda
        found["gpu"] = f"none found by torch, which is built for CUDA {cuda}" if cuda else _WITHOUT_CUDA
    return found
