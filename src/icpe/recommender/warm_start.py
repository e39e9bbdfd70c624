"""Starting a training from an earlier model: known users and items keep their rows, new ones get fresh rows."""

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from icpe.data.interactions import Interactions
from icpe.data.lookup import positions
from icpe.errors import ConfigError, DataError
from icpe.recommender.model import Model
from icpe.tables import percent
from icpe.train import Trainer
from icpe.train.abilities import RankingChoice
from icpe.train.method import TrainingMethod
from icpe.types import IntArray

PART_NAMES = {"valid": "validation", "test": "test"}
_LEAK = 0.01  # share of held-out pairs that the earlier model may know; a few return in every log


@dataclass(frozen=True, eq=False)
class Match:
    """The users, or the items, that an earlier model and a new log have in common.

    Attributes:
        here: int64 [known], their codes in the new log.
        there: int64 [known], their codes in the earlier model.
        new: number of ids of the new log that the earlier model does not know.
        dropped: number of ids of the earlier model that the new log does not have.
    """

    here: IntArray
    there: IntArray
    new: int
    dropped: int

    @classmethod
    def of(cls, ids: pl.Series, earlier: pl.Series, what: str, name: str) -> "Match":
        """Return the match of two lists of ids.

        Raises:
            DataError: one list has text and the other integers.
        """
        if ids.dtype != earlier.dtype:
            raise DataError(
                f"{what} ids are {_kind(earlier)} in {name}, such as {earlier[0]!r}, but {_kind(ids)} in this log, "
                f"such as {ids[0]!r}; pass ids='text' when reading both logs (command line: --ids text)"
            )
        codes = positions(ids, earlier).astype(np.int64)
        here = np.flatnonzero(codes >= 0)
        return cls(here, codes[here], len(ids) - len(here), len(earlier) - len(here))

    def counts(self) -> dict[str, int]:
        """Return how many were kept, are new and were dropped."""
        return {"kept": len(self.here), "new": self.new, "dropped": self.dropped}


@dataclass(frozen=True)
class Carried:
    """What a training has taken over from an earlier model.

    Attributes:
        users: how many users were ``kept``, are ``new`` and were ``dropped``.
        items: the same for items.
        known: share of the pairs of each held-out part on which the earlier model was trained.
    """

    users: dict[str, int]
    items: dict[str, int]
    known: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, as ``result.json`` has them."""
        return asdict(self)


def start_from(
    trainer: Trainer,
    train: Interactions,
    model: Model,
    valid: Interactions | None = None,
    test: Interactions | None = None,
    name: str = "the earlier model",
) -> Carried:
    """Give the method of a new trainer the parameters of an earlier model, and return what was taken over.

    The optimiser starts without a memory. The first validation comes before the first step, so that a start that is
    already the best is kept.

    Args:
        trainer: trainer that has taken no step.
        train: its training part.
        model: the earlier model, of the same method and backbone.
        valid: the validation part, if there is one. A warning says if the earlier model was trained on its pairs.
        test: the same for the test part.
        name: what messages call the earlier model.

    Raises:
        ConfigError: the earlier model has another method, another backbone, or parameters of other sizes.
        DataError: the ids have another type, or no user and no item is known.
    """
    users = Match.of(train.users, model.log.users, "user", name)
    items = Match.of(train.items, model.log.items, "item", name)
    if not (len(users.here) or len(items.here)):
        raise DataError(f"the log has no user and no item of {name}, so there is nothing to start from")
    check_same("method", trainer.method.name, model.method.name, name)
    check_same("backbone", trainer.method.backbone.name, model.method.backbone.name, name)
    _copy(trainer.method, model.method, users, items, name)
    trainer.validate_first = True
    held = {part: log for part, log in (("valid", valid), ("test", test)) if log is not None and len(log)}
    known = {part: _known_share(log, model.log) for part, log in held.items()}
    _warn_of_leaks(known, name)
    return Carried(users.counts(), items.counts(), known)


def keep_choices(method: TrainingMethod, earlier: TrainingMethod) -> None:
    """Let a method rank by what validation has chosen for an earlier one: its kind of ranking, and the dial."""
    if isinstance(method, RankingChoice) and isinstance(earlier, RankingChoice) and method.ranking_options():
        method.choose_ranking(**earlier.ranking_choice())
    if method.settings.beta is None:
        method.settings = method.settings.replace(beta=earlier.settings.beta, boost=earlier.settings.boost)


@torch.no_grad()
def _copy(method: TrainingMethod, earlier: TrainingMethod, users: Match, items: Match, name: str) -> None:
    matches = {id(one): users for one in method.user_parameters()} | {
        id(one): items for one in method.item_parameters()
    }
    state = earlier.state_dict()
    learned = set(method.learned_buffers())
    buffers = [(label, one) for label, one in method.named_buffers() if label in learned]
    for label, tensor in (*method.named_parameters(), *buffers):
        match, before = matches.get(id(tensor)), state.get(label)
        if before is None or _width(tensor, match) != _width(before, match):
            raise _other_size(method, earlier, label, tensor, before, name)
        if match is None:
            tensor.copy_(before)
        else:
            here, there = torch.from_numpy(match.here), torch.from_numpy(match.there)
            tensor[here.to(tensor.device)] = before[there].to(tensor.device)


def _width(tensor: Tensor | nn.Parameter, match: Match | None) -> tuple[int, ...]:
    """Return the shape, without the number of rows if rows belong to users or items."""
    return tuple(tensor.shape if match is None else tensor.shape[1:])


def check_same(what: str, here: str, there: str, name: str) -> None:
    """Check that a method or a backbone has the same name here and in an earlier model.

    Raises:
        ConfigError: the names differ.
    """
    if here != there:
        raise ConfigError(
            f"{what} is {here!r} here and {there!r} in {name}; a training can start from a model of the same {what} "
            f"only. Pass the same one (command line: --{what} {there}), or train from scratch"
        )


def _other_size(
    method: TrainingMethod, earlier: TrainingMethod, label: str, tensor: Tensor, before: Tensor | None, name: str
) -> ConfigError:
    """Return the error about a parameter of another size, which names the settings that differ."""
    differing = [
        f"{kind}.{setting} is {value!r} here and {there.get(setting)!r} in {name}"
        for kind, here, there in (
            ("backbone", method.backbone.settings.as_dict(), earlier.backbone.settings.as_dict()),
            ("method", method.settings.as_dict(), earlier.settings.as_dict()),
        )
        for setting, value in here.items()
        if value != there.get(setting) and setting not in ("beta", "reg", "init_std")
    ]
    sizes = f"the parameter {label} has the shape {list(tensor.shape)} here and "
    sizes += f"{list(before.shape)} in {name}" if before is not None else f"does not exist in {name}"
    remedy = (
        "use the same settings, or train from scratch"
        if differing
        else "if its rows belong to users or items, declare it in user_parameters() or item_parameters()"
    )
    return ConfigError(f"{'; '.join([*differing, sizes])}: {remedy}")


def _known_share(part: Interactions, earlier: Interactions) -> float:
    """Return the share of the pairs of a part that the earlier training part has."""
    user, item = positions(part.users, earlier.users)[part.user], positions(part.items, earlier.items)[part.item]
    size = len(earlier.items)
    pairs = np.where((user >= 0) & (item >= 0), user.astype(np.int64) * size + item, -1)
    return float(np.isin(pairs, earlier.user.astype(np.int64) * size + earlier.item).mean())


def _warn_of_leaks(known: dict[str, float], name: str) -> None:
    found = [f"{percent(share)} of the {PART_NAMES[part]} pairs" for part, share in known.items() if share > _LEAK]
    if found:
        warnings.warn(
            f"{name} was trained on {' and '.join(found)}, so metrics there are too high and early stopping is misled. "
            "Split by time (command line: --split chronological), so that what is held out is newer than the earlier "
            "training part",
            stacklevel=3,
        )


def _kind(ids: pl.Series) -> str:
    return "text" if ids.dtype == pl.String else "integers"
