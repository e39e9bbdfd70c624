"""Integer codes for values given by their fingerprints."""

from typing import cast

import numba
import numpy as np

from icpe.types import IntArray, UIntArray

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_ONE = np.uint64(1)


def factorize(first_hash: UIntArray, second_hash: UIntArray) -> tuple[IntArray, IntArray]:
    """Codes of the rows in order of first appearance, and the row in which each code appeared first.

    Two rows are the same value if the first hash and the upper half of the second agree. With 96 bits two of a
    billion different ids collide with a probability of about 1e-11, so ids need not be compared.

    Args:
        first_hash: uint64 [rows].
        second_hash: uint64 [rows], from another seed.

    Returns:
        int32 [rows] codes and int64 [distinct] row numbers.
    """
    return cast(tuple[IntArray, IntArray], _factorize(first_hash, second_hash))


@numba.njit(cache=True, nogil=True)
def _insert(table, slot, key, word):  # type: ignore[no-untyped-def]
    mask = np.uint64(table.shape[0] - 1)
    while table[slot, 1] != 0:
        slot = (slot + _ONE) & mask
    table[slot, 0] = key
    table[slot, 1] = word


@numba.njit(cache=True, nogil=True)
def _factorize(first_hash, second_hash):  # type: ignore[no-untyped-def]
    # Open addressing; a slot holds the hash and, in one word, half of the second hash and code + 1 (0 is empty).
    # Both lie in one cache line: a look-up costs one miss.
    rows = first_hash.shape[0]
    size = 1 << 16
    table = np.zeros((size, 2), np.uint64)
    firsts = np.empty(size, np.int64)
    codes = np.empty(rows, np.int32)
    distinct = 0
    for row in range(rows):
        key = first_hash[row]
        check = second_hash[row] & _HIGH
        mask = np.uint64(size - 1)
        slot = key & mask
        while True:
            word = table[slot, 1]
            if word == 0:
                firsts[distinct] = row
                codes[row] = distinct
                distinct += 1
                table[slot, 0] = key
                table[slot, 1] = check | np.uint64(distinct)
                break
            if table[slot, 0] == key and (word & _HIGH) == check:
                codes[row] = np.int32((word & _LOW) - _ONE)
                break
            slot = (slot + _ONE) & mask
        if 2 * distinct > size:
            small, size = table, 4 * size
            table = np.zeros((size, 2), np.uint64)
            for old in range(small.shape[0]):
                if small[old, 1] != 0:
                    _insert(table, small[old, 0] & np.uint64(size - 1), small[old, 0], small[old, 1])
            more = np.empty(size, np.int64)
            more[:distinct] = firsts[:distinct]
            firsts = more
    return codes, firsts[:distinct].copy()
