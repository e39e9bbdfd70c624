"""Execution of jobs, in this process or in worker processes. No other package starts workers.

:func:`run_jobs` takes jobs from a function, runs them and reports results and failures as they arrive. How jobs are
executed is decided by an :class:`Engine`; another way of executing them, for example on a cluster, is another engine.
"""

from icpe.jobs.engine import WORKER_DIED, Engine, Job, JobResult, run_jobs

__all__ = ["WORKER_DIED", "Engine", "Job", "JobResult", "run_jobs"]
