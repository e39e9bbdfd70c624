"""Damaged files. The same seed gives the same damage on every machine."""

import gzip
import random
import re
from collections.abc import Callable

import pyarrow as pa

HOSTILE = [
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b'""', b"'", b"\r", b"\n\n", b"\r\n", b"\t", b",", b";", b"|", b"::", b" ", b"=", b".", b"#",
    b"-1", b"0", b"-0", b"+5", b"1e400", b"1e-400", b"nan", b"inf", b"-inf", b"null", b"true", b"0x1F", b"007", b"1_000",
    b"9" * 20, b"9" * 400, b"9223372036854775807", b"-9223372036854775808", b"2147483648", b"1.5", b"1,5",
    b"0000-00-00", b"9999-12-31T23:59:60Z", b"+262000-01-01T00:00:00", b"1969-12-31", b"2019-02-30", b"24:00:00",
    b"=cmd()", b"@SUM(A1)", "\u202e".encode(), "\u200b".encode(), "\u00e4".encode("latin-1"), "\U0001f600".encode(), b"\x1b[2J",
    b"x" * 5000, b"," * 3000, b"[" * 3000, b"{" * 3000, b"a." * 3000, b"[[", b"]]", b'"""', b"../../", b"/dev/null", b"user_id", b"item_id", b"timestamp", b"weight", b"rank",
]  # fmt: skip
_WORDS = re.compile(rb"[\w.:-]+")


def flip_bits(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut_off(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def remove_some(content: bytes, rng: random.Random) -> bytes:
    start, stop = _slice(content, rng)
    return content[:start] + content[stop:]


def repeat_some(content: bytes, rng: random.Random) -> bytes:
    start, stop = _slice(content, rng)
    return content[:stop] + content[start:stop] * rng.randint(1, 50) + content[stop:]


def move_some(content: bytes, rng: random.Random) -> bytes:
    start, stop = _slice(content, rng)
    rest = content[:start] + content[stop:]
    place = rng.randrange(len(rest) + 1)
    return rest[:place] + content[start:stop] + rest[place:]


def insert_hostile(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(HOSTILE) + content[place:]


def replace_words(content: bytes, rng: random.Random) -> bytes:
    """Whole words become hostile ones, which reaches deeper than damage to bytes: the file stays well-formed."""
    words = [found.span() for found in _WORDS.finditer(content)]
    for start, stop in sorted(rng.sample(words, min(len(words), rng.randint(1, 3))), reverse=True):
        content = content[:start] + rng.choice(HOSTILE) + content[stop:]
    return content


def exchange_words(content: bytes, rng: random.Random) -> bytes:
    words = [found.span() for found in _WORDS.finditer(content)]
    if len(words) < 2:
        return content
    (start, stop), other = rng.choice(words), rng.choice(words)
    return content[:start] + content[slice(*other)] + content[stop:]


def overwrite(content: bytes, rng: random.Random) -> bytes:
    start, stop = _slice(content, rng)
    return content[:start] + rng.randbytes(stop - start) + content[stop:]


_MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [
    flip_bits, cut_off, remove_some, repeat_some, move_some, insert_hostile, replace_words, replace_words, exchange_words, overwrite,
]  # fmt: skip


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The content after one to three mutations. Compressed content is damaged as it is, or inside."""
    packing = next((one for one in _PACKINGS if content.startswith(one[0])), None)
    if packing is not None and rng.random() < 0.6:
        _, unpack, pack = packing
        return pack(mutated(unpack(content), rng))
    for _ in range(rng.randint(1, 3)):
        content = rng.choice(_MUTATIONS)(content, rng) if content else rng.choice(HOSTILE)
    return content


def _slice(content: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(content))
    return start, min(len(content), start + rng.randint(1, 200))


def _unpack_zstd(content: bytes) -> bytes:
    return pa.CompressedInputStream(pa.BufferReader(content), "zstd").read()


_PACKINGS: list[tuple[bytes, Callable[[bytes], bytes], Callable[[bytes], bytes]]] = [
    (b"\x1f\x8b", gzip.decompress, gzip.compress),
    (b"\x28\xb5\x2f\xfd", _unpack_zstd, lambda content: pa.compress(content, codec="zstd", asbytes=True)),
]
