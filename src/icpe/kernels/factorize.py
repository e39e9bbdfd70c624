"""Integer codes for values given by their fingerprints."""

from collections.abc import Iterable

import numba
import numpy as np

from icpe.types import IntArray, UIntArray

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_ONE = np.uint64(1)
_AHEAD = 64


def factorize(hashes: Iterable[tuple[UIntArray, UIntArray]], rows: int) -> tuple[IntArray, IntArray]:
    """Codes of the rows in order of first appearance, and the row in which each code appeared first.

    Two rows are the same value if the first hash and the upper half of the second agree. With 96 bits two of a
    billion different ids collide with a probability of about 1e-11, so ids need not be compared.

    Args:
        hashes: two hashes of each value from different seeds, uint64, piece by piece. Pieces of some 100,000 rows
            keep memory small.
        rows: how many there are in all.

    Returns:
        int32 [rows] codes and int64 [distinct] row numbers.
    """
    # NumPy's own large arrays lie in huge pages, which makes random access several times faster.
    codes, table = np.empty(rows, np.int32), np.zeros((1 << 12, 2), np.uint64)
    firsts = np.empty(len(table) // 2, np.int64)
    start = distinct = 0
    for first, second in hashes:
        if 2 * (distinct + len(first)) > len(table):
            smaller, size = table, 1 << (4 * (distinct + len(first))).bit_length()
            table = np.zeros((size, 2), np.uint64)
            _refill(table, smaller)
            firsts = np.concatenate([firsts[:distinct], np.empty(size // 2 - distinct, np.int64)])
        distinct, _ = _factorize(first, second, table, firsts, codes, start, distinct)
        start += len(first)
    return codes, firsts[:distinct].copy()


@numba.njit(cache=True, nogil=True)
def _refill(table, smaller):  # type: ignore[no-untyped-def]
    mask = np.uint64(table.shape[0] - 1)
    for old in range(smaller.shape[0]):
        if smaller[old, 1] != 0:
            slot = smaller[old, 0] & mask
            while table[slot, 1] != 0:
                slot = (slot + _ONE) & mask
            table[slot] = smaller[old]


@numba.njit(cache=True, nogil=True)
def _factorize(first_hash, second_hash, table, firsts, codes, start, distinct):  # type: ignore[no-untyped-def]
    # Open addressing; a slot holds the hash and, in one word, half of the second hash and code + 1 (0 is empty).
    # Both lie in one cache line: a look-up costs one miss.
    mask = np.uint64(table.shape[0] - 1)
    touched = np.uint64(0)
    for block in range(0, first_hash.shape[0], _AHEAD):
        end = min(block + _AHEAD, first_hash.shape[0])
        # Reading the slots of some rows ahead lets the processor fetch them at the same time, not one by one.
        for row in range(block, end):
            touched ^= table[first_hash[row] & mask, 1]
        for row in range(block, end):
            key = first_hash[row]
            check = second_hash[row] & _HIGH
            slot = key & mask
            while True:
                word = table[slot, 1]
                if word == 0:
                    firsts[distinct] = start + row
                    codes[start + row] = distinct
                    distinct += 1
                    table[slot, 0] = key
                    table[slot, 1] = check | np.uint64(distinct)
                    break
                if table[slot, 0] == key and (word & _HIGH) == check:
                    codes[start + row] = np.int32((word & _LOW) - _ONE)
                    break
                slot = (slot + _ONE) & mask
    return distinct, touched  # `touched` leaves the function so that the reads ahead are not optimised away
