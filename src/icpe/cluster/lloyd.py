"""Lloyd's algorithm on points given as columns [F, n]. Sums have a fixed order, so all runs return the same bits."""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True, error_model="numpy")
def nearest_centre(columns, centres, labels, nearest):  # type: ignore[no-untyped-def]
    """Write the nearest centre of each point and its squared distance, both [n]. Return whether any label has changed.

    Ties are broken by the first centre.
    """
    features, size = columns.shape
    distance = np.empty(size, columns.dtype)
    before = labels.copy()
    for number in range(centres.shape[1]):
        distance[:] = 0
        for feature in range(features):
            column, middle = columns[feature], centres[feature, number]
            for place in range(size):
                apart = column[place] - middle
                distance[place] += apart * apart
        for place in range(size):
            if number == 0 or distance[place] < nearest[place]:
                nearest[place] = distance[place]
                labels[place] = number
    return (labels != before).any()


@numba.njit(cache=True, nogil=True, error_model="numpy")
def settle_centres(columns, centres, labels, nearest, rounds):  # type: ignore[no-untyped-def]
    """Move the centres [F, k] to the means of their points until no label changes, in place.

    A centre that has lost all its points stays where it is.
    """
    features, size = columns.shape
    clusters = centres.shape[1]
    counts, sums = np.empty(clusters, np.int64), np.empty(clusters, columns.dtype)
    nearest_centre(columns, centres, labels, nearest)
    for _ in range(rounds):
        counts[:] = 0
        for place in range(size):
            counts[labels[place]] += 1
        for feature in range(features):
            column = columns[feature]
            sums[:] = 0
            for place in range(size):
                sums[labels[place]] += column[place]
            for number in range(clusters):
                if counts[number] > 0:
                    centres[feature, number] = sums[number] / counts[number]
        if not nearest_centre(columns, centres, labels, nearest):
            break
