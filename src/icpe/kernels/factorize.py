"""Integer codes for values that are given by their hashes."""

import numba
import numpy as np

from icpe.types import IntArray, UIntArray

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_ONE = np.uint64(1)
_AHEAD = 64


class Factorizer:
    """Assigns the codes 0, 1, 2, … to values in order of first appearance. Values arrive in pieces, as hashes.

    Two values are equal if their first hashes and the upper halves of their second hashes agree. With these 96 bits,
    the probability that any two of a billion different ids collide is about 1e-11, so the ids need not be compared.
    """

    def __init__(self) -> None:
        self.distinct = 0
        # NumPy allocates large arrays in huge pages, which makes random access several times faster.
        self._table = np.zeros((1 << 12, 2), np.uint64)

    def add(self, first_hash: UIntArray, second_hash: UIntArray, codes: IntArray) -> IntArray:
        """Assign codes to the next rows and return the rows with new values.

        Args:
            first_hash: uint64 [rows].
            second_hash: uint64 [rows], computed with another seed.
            codes: int32 [rows], written.

        Returns:
            Rows [new] of this piece whose value did not occur before.
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
    # Open addressing. A slot holds the hash and, in one word, half of the second hash and code + 1 (0 is empty).
    # Both are in one cache line, so a look-up costs one cache miss.
    mask = np.uint64(table.shape[0] - 1)
    before = distinct
    touched = np.uint64(0)
    for block in range(0, first_hash.shape[0], _AHEAD):
        end = min(block + _AHEAD, first_hash.shape[0])
        # Reading the slots of several rows in advance lets the processor fetch them in parallel.
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
    return distinct, touched  # `touched` is returned so that the compiler cannot remove the reads in advance
