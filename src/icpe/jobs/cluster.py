"""A Ray cluster: how to reach it, and the connection to it."""

import logging
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Any

from icpe.errors import ConfigError
from icpe.extras import require

LOCAL = "local"
_PATIENCE = 10.0  # seconds to wait for an answer from an address
# Ray reads these when it starts. Nothing that we start reports to its makers or warns about its future defaults.
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


@dataclass(frozen=True)
class RayCluster:
    """A cluster of Ray on which jobs run, one core each.

    Attributes:
        address: ``auto`` for the cluster that this machine belongs to, ``HOST:PORT`` for one of several, or None to
            start Ray on this machine alone, until this process ends.
        at_most: largest number of jobs at a time; None for as many as the cluster has cores.
    """

    address: str | None = None
    at_most: int | None = None

    def connect(self) -> Any:
        """Return the module ``ray``, connected to the cluster. A connection that exists is used, whatever its address.

        The connection lasts until this process ends or calls ``ray.shutdown()``, because starting Ray takes seconds
        and one command may run several groups of jobs.

        Raises:
            ConfigError: Ray is not installed, or no cluster answers at the address.
        """
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        ray = require("ray", "cluster", "running jobs on several machines")
        if not ray.is_initialized():
            address = self.address or LOCAL
            if address == "auto":  # as Ray does, but with a check that somebody answers there
                address = os.environ.get("RAY_ADDRESS") or address
            if address == LOCAL and "RAY_AUTH_MODE" not in os.environ:
                # With a token, nobody else can use this Ray. Ray would write one into the home folder.
                os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
            _init(ray, address)
        if not ray.cluster_resources().get("CPU"):
            raise ConfigError(
                f"the cluster at --address {self.address} has no processor cores for jobs; add a machine with "
                "`ray start --address HOST:PORT`, or start the head with --num-cpus"
            )
        return ray


def _init(ray: Any, address: str) -> None:
    if address not in (LOCAL, "auto"):
        _check_answers(address)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        ray.init(address, **quiet, **({"include_dashboard": False} if address == LOCAL else {}))
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        if address == LOCAL:
            raise ConfigError(f"Ray cannot be started on this machine: {reason}") from error
        raise _no_cluster(address, reason) from error


def _check_answers(address: str) -> None:
    """Refuse an address at which nothing listens. Ray would try for more than ten minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise ConfigError(
            f"--address is {address!r}; expected auto or HOST:PORT, such as 10.0.0.5:6379, on a machine of the cluster"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, str(error)) from error


def _no_cluster(address: str, reason: str) -> ConfigError:
    return ConfigError(
        f"no Ray cluster answers at --address {address} ({reason.rstrip('.')}). Start one with `ray start --head`, "
        "join one with `ray start --address HOST:PORT`, or leave --address out to start Ray on this machine alone"
    )
