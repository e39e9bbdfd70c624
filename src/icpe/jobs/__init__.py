"""Execution of jobs: in this process, in worker processes, or on a cluster. No other package starts workers.

:func:`run_jobs` takes jobs from a function, runs them and reports results and failures as they arrive. How jobs are
executed is decided by an :class:`Engine`: ``engine.py`` holds the one without workers, ``processes.py`` the one with
worker processes, and ``ray.py`` the one with other machines.
"""

from icpe.jobs.cluster import RayCluster
from icpe.jobs.engine import (
    WORKER_DIED,
    Engine,
    Input,
    Job,
    JobResult,
    Workers,
    check_workers,
    run_in_order,
    run_jobs,
)

__all__ = [
    "WORKER_DIED",
    "Engine",
    "Input",
    "Job",
    "JobResult",
    "RayCluster",
    "Workers",
    "check_workers",
    "run_in_order",
    "run_jobs",
]
