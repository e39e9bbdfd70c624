"""The columns of numbers per list from which the bias metrics follow as sums, means and ratios of sums."""

from collections.abc import Mapping

import numpy as np

from icpe.data.interactions import Interactions
from icpe.metrics.bias.attention import attention
from icpe.metrics.bias.calibration import BANDS, band_shares, jensen_shannon, popularity_bands
from icpe.metrics.bias.user_groups import Profiles, UserGroups, sums_by_user
from icpe.metrics.hits import Hits
from icpe.ranking import Lists
from icpe.types import BoolArray, FloatArray, IntArray

Columns = dict[str, FloatArray]  # float64 [lists] by name


def mean_columns(lists: Lists, log: Interactions, head: BoolArray) -> Columns:
    """Metrics of each list that are averaged; NaN where a list has no value.

    ``aclt`` is the number of niche items and ``weighted_apt`` their share of the attention. ``popularity_jsd`` compares
    the list with the profile of its user and is NaN for users without a profile and for empty lists.
    """
    niche = (lists.items >= 0) & ~np.append(head, True)[lists.items]
    return {
        "aclt": niche.sum(axis=1).astype(np.float64),
        "weighted_apt": (attention(lists.items) * niche).sum(axis=1),
        "popularity_jsd": _divergence(lists, log),
    }


def lift_columns(lists: Lists, log: Interactions, profiles: Profiles) -> Columns:
    """Mean popularity of each profile and of each list; both NaN where either is empty."""
    counts = np.append(log.item_counts, 0).astype(np.float64)
    filled = (lists.items >= 0).sum(axis=1)
    shown = counts[lists.items].sum(axis=1) / np.maximum(filled, 1)
    before = profiles.popularity[lists.users]
    both = (filled > 0) & ~np.isnan(before)
    return {"profile_popularity": np.where(both, before, np.nan), "list_popularity": np.where(both, shown, np.nan)}


def parity_columns(lists: Lists, head: BoolArray, profiles: Profiles) -> Columns:
    """Listed head and niche items of each list, and how many of each its user has not used yet."""
    known = np.append(head, False)[lists.items]
    filled, used, size = (lists.items >= 0).sum(axis=1), profiles.sizes[lists.users], len(head)
    shown, used_head = known.sum(axis=1), profiles.head[lists.users]
    found = {
        "head_shown": shown,
        "niche_shown": filled - shown,
        "head_open": head.sum() - used_head,
        "niche_open": size - head.sum() - (used - used_head),
    }
    return {name: column.astype(np.float64) for name, column in found.items()}


def opportunity_columns(lists: Lists, head: BoolArray, test: Interactions) -> Columns:
    """Relevant head and niche items of each user, and how many of each the list contains."""
    hits = Hits.find(lists.users, lists.items, test)
    on_head = np.bincount(hits.row[head[hits.item]], minlength=len(lists))
    wanted_head = np.bincount(test.user[head[test.item]], minlength=len(test.users))[lists.users]
    found = {
        "head_hits": on_head,
        "niche_hits": np.bincount(hits.row, minlength=len(lists)) - on_head,
        "head_wanted": wanted_head,
        "niche_wanted": hits.relevant - wanted_head,
    }
    return {name: column.astype(np.float64) for name, column in found.items()}


def log_columns(lists: Lists, log: Interactions) -> Columns:
    """Sum of the log popularity of the items of each list, and their number, without items that nobody has used."""
    counts = np.append(log.item_counts, 0)
    logs = np.log(np.maximum(counts, 1))
    return {
        "log_popularity": logs[lists.items].sum(axis=1),
        "popular_places": (counts[lists.items] > 0).sum(axis=1).astype(np.float64),
    }


def by_group(columns: Mapping[str, FloatArray], groups: UserGroups, users: IntArray) -> Columns:
    """The same columns for each group of users, NaN for all others, named ``recall_niche_users`` and so on."""
    members = groups.members(users)
    return {
        f"{name}_{group}": np.where(chosen, column, np.nan)
        for name, column in columns.items()
        for group, chosen in members.items()
    }


def _divergence(lists: Lists, log: Interactions) -> FloatArray:
    """Jensen–Shannon divergence between the popularity bands of profile and list, float64 [lists]."""
    bands = popularity_bands(log.item_counts)
    profile = np.stack([sums_by_user(log, bands == band)[lists.users] for band in range(len(BANDS))], axis=1)
    size = profile.sum(axis=1)
    shown = band_shares(np.append(bands, -1)[lists.items])
    known = (size > 0) & (lists.items[:, 0] >= 0)
    return np.where(known, jensen_shannon(profile / np.maximum(size, 1)[:, None], shown), np.nan)
