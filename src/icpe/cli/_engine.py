"""The options ``--engine`` and ``--address``, with the same meaning in every command: where jobs run."""

from typing import TYPE_CHECKING

import click

from icpe.cli.options import together

if TYPE_CHECKING:
    from icpe.jobs import RayCluster, Workers

engine_options = together(
    click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="Where to run: on this machine, or on the machines of a Ray cluster (pip install 'icpe[cluster]').",
    ),
    click.option(
        "--address",
        metavar="auto|HOST:PORT",
        help="The cluster of --engine ray: auto for the one that this machine belongs to. Default: start Ray on this "
        "machine alone.",
    ),
)
training_engine_options = together(
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        help="Number of training processes. With --engine ray, the largest number of trainings at a time. Default: 1, "
        "or all cores of the cluster.",
    ),
    engine_options,
)


def parse_workers(engine: str, address: str | None, workers: int | None = None) -> "Workers":
    """Return where jobs run, from the values of the options.

    Raises:
        ConfigError: ``--address`` was given without ``--engine ray``.
    """
    return parse_cluster(engine, address, workers) or workers or 1


def parse_cluster(engine: str, address: str | None, at_most: int | None = None) -> "RayCluster | None":
    """Return the cluster that the options name; None for this machine.

    Raises:
        ConfigError: ``--address`` was given without ``--engine ray``.
    """
    from icpe.errors import ConfigError
    from icpe.jobs.cluster import RayCluster

    if engine == "ray":
        return RayCluster(address, at_most)
    if address is not None:
        raise ConfigError(f"--address {address} names a Ray cluster: add --engine ray")
    return None
