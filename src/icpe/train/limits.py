"""Limits that are checked before training starts: memory, and the lengths of lists.

The estimate of memory counts only what a run is certain to hold at once, so it never refuses a run that fits. A run
needs more than that: the data, the workspace of a step, and Python with its libraries.
"""

from collections.abc import Sequence

import psutil

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.shards import current
from icpe.train.method import TrainingMethod
from icpe.train.sampling import STEPS_PER_BLOCK
from icpe.train.settings import TrainSettings

DEFAULT_LENGTH = 20
"""Lists of this length are evaluated by default. With fewer items they have empty places."""

_SAMPLED = 20  # bytes of a sampled negative: its random state, and its code as int32 and as int64
_NUMBER = 4  # bytes of a float32
_MOMENTS = {"adam": 2, "rmsprop": 1}  # numbers that the optimiser keeps for each parameter


def memory_needs(
    method: TrainingMethod, train: Interactions, settings: TrainSettings, validates: bool = True
) -> dict[str, int]:
    """Bytes that training needs at least, by the setting that they grow with, such as ``backbone.dim``.

    Args:
        method: a method that has not been built yet.
        train: the training part.
        settings: settings of the loop.
        validates: whether the run validates, and so keeps a copy of the best parameters.
    """
    optimizer = settings.optimizer or method.backbone.default_optimizer
    # On other devices than the CPU, only the initial values are certain to be in main memory.
    copies = 1 + _MOMENTS[optimizer] + validates if settings.device == "cpu" else 1
    group = current()
    share = 1.0 if group is None else group.on_machine / group.size
    needs = {
        f"backbone.{name}": round(size * share)
        for name, size in method.backbone.memory_needs(len(train.users), len(train.items), copies).items()
    }
    negatives, positives = method.negatives, min(settings.batch_size, len(train))
    drawn = STEPS_PER_BLOCK if negatives.shared else min(STEPS_PER_BLOCK * settings.batch_size, len(train))
    scored = positives * _NUMBER if negatives.shared else 0
    needs["method.negatives"] = negatives.count * (drawn * _SAMPLED + scored)
    clusters = getattr(method.settings, "clusters", None)
    if clusters is not None:
        needs["method.clusters"] = _NUMBER * clusters**2  # inner products of the gradients of all clusters
    return needs


def check_memory(method: TrainingMethod, train: Interactions, settings: TrainSettings, validates: bool) -> None:
    """Refuse settings that need more memory than this machine has free.

    Raises:
        ConfigError: the memory is not enough. The message names the setting that needs most of it.
    """
    needs = memory_needs(method, train, settings, validates)
    available = psutil.virtual_memory().available + psutil.swap_memory().free
    total = sum(needs.values())
    if total <= available:
        return
    name, size = max(needs.items(), key=lambda one: one[1])
    section, _, key = name.partition(".")
    value = getattr((method.backbone if section == "backbone" else method).settings, key)
    raise ConfigError(
        f"{name} is {value}, which needs at least {in_bytes(size)} of memory for {len(train.users):,} users and "
        f"{len(train.items):,} items; all settings together need {in_bytes(total)}, and {in_bytes(available)} are "
        f"available. Pass a smaller {key} (command line: a smaller --{name})"
    )


def check_lengths(lengths: Sequence[int], items: int) -> None:
    """Refuse lists that are longer than the catalogue. The default length is always allowed.

    Raises:
        ConfigError: a length is larger than the number of items.
    """
    if max(lengths) > max(items, DEFAULT_LENGTH):
        raise ConfigError(
            f"n is {max(lengths)}, but the training part has {items:,} items, so no list can be that long. "
            f"Pass n up to {items} (command line: -n {items})"
        )


def in_bytes(size: int) -> str:
    """A size in the largest unit in which it is at least 1.

    Example:
        >>> in_bytes(512), in_bytes(1_500_000), in_bytes(2 * 10**12)
        ('512 B', '1.5 MB', '2.0 TB')
    """
    value, units = float(size), iter(("kB", "MB", "GB", "TB", "PB", "EB"))
    unit = "B"
    while value >= 1000 and (larger := next(units, None)):
        value, unit = value / 1000, larger
    return f"{size} B" if unit == "B" else f"{value:,.1f} {unit}"
