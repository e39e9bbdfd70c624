"""The database of a tuning: Optuna's storage, with heartbeats and retries."""

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

from icpe.errors import ConfigError, IcpeError

JOB = "job"  # attribute of a trial that names the job which runs it, set when its settings are complete
_HEARTBEAT = 60  # seconds between signs of life of a running trial
_SILENCE = 300  # seconds without a sign of life after which a trial is given to another process
_FILTERS = threading.RLock()


@lru_cache(maxsize=8)  # a process opens each database once; opening takes longer than a short trial
def open_storage(url: str) -> RDBStorage:
    """Return the storage at a database URL, with its tables created if necessary.

    Raises:
        ConfigError: the database cannot be opened.
    """
    file = url.removeprefix("sqlite:///")
    name = file if file != url else "the database of --storage"  # other URLs may hold a password
    try:
        return _open(url)
    except Exception as error:  # of SQLAlchemy, its drivers, Optuna and the file system
        missing = error.__cause__ or error.__context__
        if isinstance(error, ImportError) and isinstance(missing, ModuleNotFoundError):
            raise ConfigError(
                f"{name} cannot be opened: its driver {missing.name} is not installed. Install it "
                f"(pip install {missing.name}), or name another driver in the URL, such as postgresql+psycopg2://"
            ) from error
        cause = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise ConfigError(f"{name} cannot be opened as a study: {cause}") from error


def _open(url: str) -> RDBStorage:
    """Open a database. Of two processes that create the tables of a new one at once, the later one tries again."""
    for pause in (0.2, 1.0, 3.0):
        try:
            return _connect(url)
        except (IntegrityError, ProgrammingError, OperationalError) as error:
            if not any(word in str(error) for word in ("already exists", "duplicate", "UNIQUE")):
                raise
            time.sleep(pause)
    return _connect(url)


def _connect(url: str) -> RDBStorage:
    sqlite = url.startswith("sqlite")
    with experimental_features():
        storage = RDBStorage(
            url,
            engine_kwargs={"connect_args": {"timeout": 60}} if sqlite else {},
            heartbeat_interval=_HEARTBEAT,
            grace_period=_SILENCE,
            heartbeat_stale_trial_callback=queue_again,
        )
    if sqlite:
        # SQLite has no row locks. Without a lock from the beginning, two processes can take the same queued trial.
        event.listen(storage.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return storage


def queue_again(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queue a trial again whose process is gone. One without complete settings is left; others will be proposed."""
    if JOB in trial.user_attrs:
        with experimental_features():
            RetryHeartbeatStaleTrialCallback()(study, trial)


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turn errors of a database that stops answering into one of ours, with a message of one line."""
    try:
        yield
    except IcpeError:
        raise
    except Exception as error:
        failure = _database_error(error)
        if failure is None:
            raise
        cause = str(getattr(failure.__cause__ or failure, "orig", None) or failure).splitlines()[0]
        message = f"the study cannot be read or written: {cause}; all trials recorded so far are kept"
        raise IcpeError(message) from error


def _database_error(error: BaseException | None) -> BaseException | None:
    """Return the error of the database behind an error. Optuna may raise others while it handles one."""
    while error is not None and not isinstance(error, StorageInternalError | SQLAlchemyError):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def experimental_features() -> Iterator[None]:
    """Silence Optuna's warning that a feature is experimental."""
    # The filters of warnings belong to the whole process, so one thread at a time changes them.
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's own messages."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
