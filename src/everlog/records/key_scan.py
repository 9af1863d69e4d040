"""The last offset of every key, and the records of a batch that compaction keeps.

A key is known by 128 bits of a hash of it, not by itself: a million keys take 24 MB whatever their size.
The hash is keyed with a seed that is drawn anew for every map, so that nobody who writes keys can make two
of them meet; by chance, two of ten billion keys meet once in 10^18 maps. Kafka does the same with MD5.

The passes over records are compiled where a compiler was at hand at installation, and plain Python
otherwise; both give the same answers (`everlog.records.skim` says how they are picked).
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import NamedTuple, Protocol

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer
from everlog.records.varint import LARGEST_INT64, SMALLEST_INT64, append_varint, read_varint, read_varlong

_AddKeys = Callable[[bytearray, bytes, Buffer, int, int, int, int], tuple[int, int, bool]]
_SiftRecords = Callable[
    [bytearray, bytes, Buffer, int, int, int, int, bool, int], tuple[int, int, int, bytes | None, int]
]
_add_keys: _AddKeys | None
_sift_records: _SiftRecords | None
try:
    from everlog.records._kernel import add_keys as _add_keys
    from everlog.records._kernel import sift_records as _sift_records
except ImportError:
    _add_keys = _sift_records = None

SLOT_BYTES = 24
"""What one key takes: the hash and the offset."""
SEED_BYTES = 16


class Section(NamedTuple):
    """The records of a batch, uncompressed, and where they lie in the log."""

    records: Buffer
    total: int
    """How many records there are."""
    base_offset: int
    last_delta: int
    """The largest offset delta that a record may have."""


class KeepRule(NamedTuple):
    """What is kept besides each key's last record."""

    latest: int
    """The map knows all records up to this offset; those behind it are kept."""
    drop_tombstones: bool
    shift: int = 0
    """What to add to every timestamp delta, where the batch gets another base timestamp."""


class Sifted(NamedTuple):
    """What is left of a batch's records."""

    kept: int
    tombstones: int
    """How many of those kept have no value."""
    max_timestamp_delta: int
    """The largest of those kept, before the shift; 0 if none is."""
    records: bytes | None
    """Their bytes; None if all are kept as they are."""


class KeyMap(Protocol):
    """The last offset of each key, for as many keys as there is room for."""

    @property
    def size(self) -> int:
        """How many keys are in."""
        ...

    def add(self, section: Section) -> int:
        """Take in the keys of a batch, and return of how many records; fewer than all if it is full.

        CorruptDataError names the record that is damaged. Batches may come in any order.
        """
        ...

    def sift(self, section: Section, rule: KeepRule) -> Sifted:
        """Find the records that are the last of their keys; CorruptDataError as `add`."""
        ...


def key_map(capacity: int, seed: bytes) -> KeyMap:
    """Return an empty map with room for so many keys; `seed` has 16 bytes that are not guessed."""
    if _add_keys is None:
        return PlainKeyMap(capacity, seed)
    return CompiledKeyMap(capacity, seed)


def capacity_of(buffer_bytes: int, load_factor: float) -> int:
    """How many keys a map of so many bytes has room for, at least one."""
    return max(1, int(buffer_bytes // SLOT_BYTES * load_factor))


class CompiledKeyMap:
    """The map in one piece of memory, by the compiled kernel, which must be there."""

    def __init__(self, capacity: int, seed: bytes, load_factor: float = 0.9) -> None:
        assert _add_keys is not None, "the kernel is not built"
        self._capacity = capacity
        self._seed = seed
        self._table = bytearray((int(capacity / load_factor) + 2) * SLOT_BYTES)
        self.size = 0

    def add(self, section: Section) -> int:
        """As `KeyMap.add`."""
        assert _add_keys is not None
        _check_count(section)
        taken, added, good = _add_keys(self._table, self._seed, *section, self._capacity - self.size)
        self.size += added
        if not good:
            for _ in _walk(section):
                pass
            raise AssertionError(f"the kernel refused record {taken} and the reference did not")
        return taken

    def sift(self, section: Section, rule: KeepRule) -> Sifted:
        """As `KeyMap.sift`."""
        assert _sift_records is not None
        _check_count(section)
        kept, tombstones, max_delta, records, bad = _sift_records(self._table, self._seed, *section, *rule)
        if bad >= 0:
            for record in _walk(section):
                _shifted(record, rule.shift)
            raise AssertionError(f"the kernel refused record {bad} and the reference did not")
        return Sifted(kept, tombstones, max_delta, records)


class PlainKeyMap:
    """The map as a dictionary: the reference that the kernel is held to."""

    def __init__(self, capacity: int, seed: bytes) -> None:
        self._capacity = capacity
        self._seed = seed
        self._offsets: dict[bytes, int] = {}

    @property
    def size(self) -> int:
        """As `KeyMap.size`."""
        return len(self._offsets)

    def add(self, section: Section) -> int:
        """As `KeyMap.add`."""
        for index, record in enumerate(_walk(section)):
            if record.key is None:
                continue  # From before the topic was compacted; it has no last value to keep.
            name = self._hash(record.key)
            known = self._offsets.get(name)
            if known is None and len(self._offsets) >= self._capacity:
                return index
            offset = section.base_offset + record.offset_delta
            if known is None or offset > known:
                self._offsets[name] = offset
        return section.total

    def sift(self, section: Section, rule: KeepRule) -> Sifted:
        """As `KeyMap.sift`."""
        kept = [record for record in _walk(section) if self._keeps(section, record, rule)]
        tombstones = sum(record.tombstone for record in kept)
        newest = max((record.timestamp_delta for record in kept), default=0)
        if rule.shift:
            changed = b"".join(_shifted(record, rule.shift) for record in kept)
            return Sifted(len(kept), tombstones, newest, changed)
        unchanged = len(kept) == section.total
        records = None if unchanged else b"".join(record.raw for record in kept)
        return Sifted(len(kept), tombstones, newest, records)

    def _keeps(self, section: Section, record: "_Walked", rule: KeepRule) -> bool:
        offset = section.base_offset + record.offset_delta
        if offset > rule.latest:
            return True
        if record.key is None or (record.tombstone and rule.drop_tombstones):
            return False
        return offset >= self._offsets.get(self._hash(record.key), -1)

    def _hash(self, key: bytes) -> bytes:
        return blake2b(key, digest_size=16, key=self._seed).digest()


class _Walked(NamedTuple):
    """One record, as far as compaction cares."""

    raw: bytes
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    tombstone: bool
    behind_timestamp: bytes


def _check_count(section: Section) -> None:
    if not 0 <= section.total <= len(section.records):
        raise CorruptDataError(
            f"a batch of {len(section.records)} bytes gives its number of records as {section.total}"
        )


def _walk(section: Section) -> Iterator[_Walked]:
    """Yield the records, each once it is known to be whole."""
    _check_count(section)
    data = bytes(section.records)
    position, last = 0, -1
    for index in range(section.total):
        try:
            record, position = _record_at(data, position)
            if not last < record.offset_delta <= section.last_delta:
                raise CorruptDataError(
                    f"its offset delta is {record.offset_delta}, expected {last + 1} to {section.last_delta}"
                )
        except CorruptDataError as error:
            raise CorruptDataError(f"record {index} of {section.total} is damaged: {error}") from None
        last = record.offset_delta
        yield record
    if position != len(data):
        raise CorruptDataError(f"{len(data) - position} bytes are left over after {section.total} records")


def _record_at(data: bytes, start: int) -> tuple[_Walked, int]:
    size, position = read_varint(data, start)
    end = position + size
    if size < 1 or end > len(data):
        raise CorruptDataError(f"its size is {size} where {len(data) - position} bytes are left")
    # Nothing inside may reach beyond the record's own end.
    body = data[start:end]
    timestamp_delta, position = read_varlong(body, position - start + 1)
    behind_timestamp = position
    offset_delta, position = read_varint(body, position)
    key_bytes, position = _field_at(body, position)
    key = None if key_bytes < 0 else body[position : position + key_bytes]
    value_bytes, position = _field_at(body, position + max(key_bytes, 0))
    return _Walked(body, timestamp_delta, offset_delta, key, value_bytes < 0, body[behind_timestamp:]), end


def _field_at(body: bytes, position: int) -> tuple[int, int]:
    length, position = read_varint(body, position)
    if not -1 <= length <= len(body) - position:
        raise CorruptDataError(f"the length of a field is {length} where {len(body) - position} are left")
    return length, position


def _shifted(record: _Walked, shift: int) -> bytes:
    timestamp_delta = record.timestamp_delta + shift
    if not SMALLEST_INT64 <= timestamp_delta <= LARGEST_INT64:
        raise CorruptDataError(f"a timestamp delta would be {timestamp_delta}, which has no 64 bits")
    body = bytearray(1)
    append_varint(body, timestamp_delta)
    body += record.behind_timestamp
    out = bytearray()
    append_varint(out, len(body))
    return bytes(out + body)
