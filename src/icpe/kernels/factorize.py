"""Integer codes for values given by their fingerprints."""

import numba
import numpy as np

from icpe.types import IntArray, UIntArray

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_ONE = np.uint64(1)
_AHEAD = 64


class Factorizer:
    """Codes 0, 1, 2, … for values given by their hashes, piece by piece, in order of first appearance.

    Two values are the same if the first hash and the upper half of the second agree. With 96 bits two of a billion
    different ids collide with a probability of about 1e-11, so ids need not be compared.
    """

    def __init__(self) -> None:
        self.distinct = 0
        # NumPy's own large arrays lie in huge pages, which makes random access several times faster.
        self._table = np.zeros((1 << 12, 2), np.uint64)

    def add(self, first_hash: UIntArray, second_hash: UIntArray, codes: IntArray) -> IntArray:
        """Code the next rows.

        Args:
            first_hash: uint64 [rows].
            second_hash: uint64 [rows], from another seed.
            codes: int32 [rows], filled here.

        Returns:
            The rows [new] of this piece whose value was not there before.
        """
        most = self.distinct + len(first_hash)
        if 2 * most > len(self._table):
            smaller = self._table
            self._table = np.zeros((1 << (4 * most).bit_length(), 2), np.uint64)
            _refill(self._table, smaller)
        new = np.empty(len(first_hash), np.int64)
        before = self.distinct
        self.distinct, _ = _factorize(first_hash, second_hash, self._table, codes, new, before)
        return new[: self.distinct - before]


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
def _factorize(first_hash, second_hash, table, codes, new, distinct):  # type: ignore[no-untyped-def]
    # Open addressing; a slot holds the hash and, in one word, half of the second hash and code + 1 (0 is empty).
    # Both lie in one cache line: a look-up costs one miss.
    mask = np.uint64(table.shape[0] - 1)
    before = distinct
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
                    new[distinct - before] = row
                    codes[row] = distinct
                    distinct += 1
                    table[slot, 0] = key
                    table[slot, 1] = check | np.uint64(distinct)
                    break
                if table[slot, 0] == key and (word & _HIGH) == check:
                    codes[row] = np.int32((word & _LOW) - _ONE)
                    break
                slot = (slot + _ONE) & mask
    return distinct, touched  # `touched` leaves the function so that the reads ahead are not optimised away
