"""Parity between head and niche items: whether an item's chance of being listed depends on its group."""

import numpy as np

from icpe.types import FloatArray


def parity_gap(head: FloatArray, niche: FloatArray) -> FloatArray:
    """Standard deviation of two chances over their mean, |a − b| / (a + b): 0 if equal, 1 if one group has none.

    It is NaN if neither group is ever listed, or if a chance is NaN because its group has no candidates.

    PopRSP (ranking-based statistical parity, Zhu et al. 2020) takes the chance that an item which the user has not used
    yet is listed: Σ_u |L ∩ g| / Σ_u |g − P_u| for group g and profile P_u. PopREO (ranking-based equal opportunity)
    takes the chance that a relevant item is listed: Σ_u |L ∩ g ∩ T_u| / Σ_u |g ∩ T_u|.

    Example:
        >>> parity_gap(np.array([0.3, 0.2]), np.array([0.1, 0.2])).round(6).tolist()
        [0.5, 0.0]
    """
    total = head + niche
    return np.asarray(np.divide(np.abs(head - niche), total, out=np.full(np.shape(total), np.nan), where=total > 0))
