"""What every client writes: the records and the ways of writing them, as data."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MEGABYTE = 1_000_000

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One record as the application has it; `timestamp` is in milliseconds."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class Read:
    """One record as a consumer got it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int


@dataclass(frozen=True, slots=True)
class How:
    """The producer's settings; `acks` is -1 for all."""

    codec: str = "none"
    acks: int = -1
    idempotent: bool = False

    def __str__(self) -> str:
        mode = "idempotent" if self.idempotent else f"acks-{'all' if self.acks == -1 else self.acks}"
        return f"{self.codec}-{mode}"


@dataclass(frozen=True, slots=True)
class Traits:
    """What a client can express; what it cannot is left out of the records it writes, and nothing else is."""

    codecs: tuple[str, ...] = CODECS
    timestamps: bool = True
    null_values: bool = True
    null_headers: bool = True
    binary_headers: bool = True
    empty_keys: bool = True
    offsets_of_writes: bool = True
    end_for_no_time: bool = False
    """Whether its lookup by time turns the broker's "none" into the end of the log."""


# An idempotent producer must wait for all replicas, so it has no other acks.
WAYS = tuple(
    How(codec, acks, idempotent)
    for codec, (acks, idempotent) in product(CODECS, [(0, False), (1, False), (-1, False), (-1, True)])
)
PARTITIONS = 3


def small_records(traits: Traits) -> list[Record]:
    """Tiny records: keyed with headers in partition 0, bare in 1, and the odd ones in 2."""
    return list(_stamped(traits, (*_keyed_with_headers(), *_bare(), *_odd(traits))))


def large_records(traits: Traits) -> list[Record]:
    """A megabyte that compresses well, one that does not, and a tiny record after each."""
    noise = random.Random(7).randbytes(MEGABYTE)
    page = b"all work and no play makes a log a dull log. "
    text = (page * (MEGABYTE // len(page) + 1))[:MEGABYTE]
    return list(
        _stamped(
            traits,
            (
                Record(0, b"noise", noise),
                Record(0, b"small", b"after the noise"),
                Record(0, b"text", text, (("kind", b"text"),)),
                Record(0, b"small", b"after the text"),
            ),
        )
    )


def _keyed_with_headers() -> Iterator[Record]:
    headers = (("trace", b"00-4bf9-01"), ("content-type", b"text/plain"))
    for number in range(20):
        yield Record(0, b"customer-%d" % number, b"order %d of the day" % number, headers)


def _bare() -> Iterator[Record]:
    for number in range(20):
        yield Record(1, None, b"%d" % number)


def _odd(traits: Traits) -> Iterator[Record]:
    yield Record(2, "schlüssel".encode(), "wert ☕".encode(), (("kopf-ü", "☕".encode()),))
    yield Record(2, b"same name twice", b"v", (("a", b"1"), ("a", b"2")))
    yield Record(2, b"key without headers", b"v")
    yield Record(2, None, b"headers without key", (("h", b"v"),))
    yield Record(2, b"one byte", b"x")
    yield Record(2, b"long key " * 100, b"v")
    if traits.empty_keys:
        yield Record(2, b"", b"under an empty key")
        yield Record(2, b"empty value", b"")
    if traits.null_values:
        yield Record(2, b"tombstone", None)
    if traits.null_headers:
        yield Record(2, b"null header", b"v", (("nothing", None), ("empty", b"")))
    if traits.binary_headers:
        yield Record(2, bytes(range(256)), bytes(range(256)), (("binary", bytes(range(256))),))


def _stamped(traits: Traits, records: tuple[Record, ...]) -> Iterator[Record]:
    start = time.time_ns() // 1_000_000 - 60_000
    for number, record in enumerate(records):
        stamp = start + 7 * number if traits.timestamps else 0
        yield Record(record.partition, record.key, record.value, record.headers, stamp)
