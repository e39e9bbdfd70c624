"""A limit on what compressed files unpack to, checked before a reader unpacks them.

A few megabytes can unpack to terabytes. The size is found without keeping anything in memory: gzip is unpacked in small
pieces that are counted and dropped. For zstd the headers of its blocks are read; they state the size of a block, or
only that it is at most the largest size of the format. So the size of a zstd file is an upper bound, which is close
unless its writer made very small blocks.
"""

import zlib
from pathlib import Path
from typing import BinaryIO

from icpe.errors import DataError

ALWAYS_ALLOWED = 256 << 20
"""Unpacked bytes that are harmless, whatever the ratio."""

LARGEST_RATIO = 200
"""Unpacked bytes per packed byte beyond which a larger file is refused. Logs have ratios from 3 to about 50."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_GZIP_RATIO = 1032  # the format cannot pack more tightly
_ZSTD_BLOCK = 128 << 10  # largest unpacked block of the format
_PIECE = 1 << 20


def refuse_bomb(path: Path) -> None:
    """Check that a file, if it is compressed, does not unpack to much more than a log would.

    Damaged files pass: the reader explains what is wrong with them.

    Raises:
        DataError: the unpacked file would be large, and much larger than the packed one.
    """
    packed = path.stat().st_size
    limit = largest_size(packed)
    with path.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        if magic == _ZSTD:
            beyond = _zstd_bound(file, limit) > limit
        else:
            beyond = magic[:2] == _GZIP and packed * _GZIP_RATIO > limit and _gzip_size(file, limit) > limit
    if beyond:
        raise too_large(str(path), packed, limit, "unpack it first and read the unpacked file")


def largest_size(packed: int) -> int:
    """The number of unpacked bytes up to which a source of ``packed`` bytes is read."""
    return max(ALWAYS_ALLOWED, LARGEST_RATIO * packed)


def too_large(source: str, packed: int, unpacked: int, remedy: str) -> DataError:
    """The error for a source that would unpack to more bytes than a log of its size has."""
    return DataError(
        f"{source} has {packed:,} bytes and unpacks to more than {unpacked:,}, which is {unpacked // packed} times as "
        f"many. That is rarely a log; if you know that it is one, {remedy}"
    )


def _gzip_size(file: BinaryIO, limit: int) -> int:
    """Number of unpacked bytes; counting stops beyond the limit or where the file is damaged."""
    size, pending = 0, b""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        while size <= limit and (pending := pending or file.read(_PIECE)):
            size += len(unpacker.decompress(pending, _PIECE))
            pending = unpacker.unconsumed_tail
            if unpacker.eof:  # a file can consist of several parts
                pending = unpacker.unused_data
                unpacker = zlib.decompressobj(wbits=31)
    except zlib.error:
        pass
    return size


def _zstd_bound(file: BinaryIO, limit: int) -> int:
    """An upper bound of the number of unpacked bytes; the sum stops beyond the limit or where the file is damaged."""
    bound = 0
    while bound <= limit and (magic := file.read(4)):
        if magic[1:] == b"\x2a\x4d\x18" and 0x50 <= magic[0] <= 0x5F:  # a frame of other data, which is skipped
            file.seek(int.from_bytes(file.read(4), "little"), 1)
        elif magic == _ZSTD:
            largest, has_checksum = _zstd_frame(file)
            bound += _zstd_blocks(file, largest, limit)
            file.seek(4 if has_checksum else 0, 1)
        else:
            break
    return bound


def _zstd_frame(file: BinaryIO) -> tuple[int, bool]:
    """The size of the largest block of a frame, and whether a checksum follows its blocks; reads the frame's header."""
    descriptor = file.read(1)
    if not descriptor:
        return 0, False
    flags = descriptor[0]
    single = bool(flags & 0x20)
    window_byte = 0 if single else int.from_bytes(file.read(1), "little")
    file.seek((0, 1, 2, 4)[flags & 3], 1)  # the number of the dictionary
    content = int.from_bytes(file.read((1 if single else 0, 2, 4, 8)[flags >> 6]), "little")
    base = 1 << (10 + (window_byte >> 3))
    window = content + (256 if flags >> 6 == 1 else 0) if single else base + (base >> 3) * (window_byte & 7)
    return min(window, _ZSTD_BLOCK), bool(flags & 4)


def _zstd_blocks(file: BinaryIO, largest: int, limit: int) -> int:
    """An upper bound of the number of unpacked bytes of the blocks of one frame."""
    bound, last = 0, False
    while not last and bound <= limit and len(header := file.read(3)) == 3:
        value = int.from_bytes(header, "little")
        last, kind, size = bool(value & 1), value >> 1 & 3, value >> 3
        bound += largest if kind == 2 else min(size, largest)
        file.seek(1 if kind == 1 else size, 1)  # kind 1 repeats a single byte
    return bound
