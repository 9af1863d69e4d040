"""A record of an internal topic: its key and value as messages, and the bytes that they are kept as.

Key bytes are the record type and the key; value bytes are the value's version and the value. No value is a
tombstone.
"""

from struct import Struct, error
from typing import NamedTuple

from everlog.model.errors import CorruptDataError, ProtocolError
from everlog.wire.codec import decode_value, encode_value
from everlog.wire.message import Message

_TYPE = Struct(">h")
_KEY_VERSION = 0


class CoordinatorRecord(NamedTuple):
    """One change to a coordinator's state; without a value it takes back what the key stands for."""

    type: int
    key: Message
    value: Message | None
    value_version: int = 0


class RecordKind(NamedTuple):
    """The messages of one record type."""

    key: type[Message]
    value: type[Message]
    max_value_version: int
    last_wins: bool = False
    """Whether a value may be passed over in replay where another record of its key follows."""


Kinds = dict[int, RecordKind]
"""Record type to its messages."""


def last_wins(kinds: Kinds) -> frozenset[bytes]:
    """How keys begin of whose records the last one is all that counts."""
    return frozenset(_TYPE.pack(number) for number, kind in kinds.items() if kind.last_wins)


def encode_key(record: CoordinatorRecord) -> bytes:
    """The bytes of the record's key."""
    return _TYPE.pack(record.type) + encode_value(record.key, _KEY_VERSION)


def encode_body(record: CoordinatorRecord) -> bytes | None:
    """The bytes of the record's value; None for a tombstone."""
    if record.value is None:
        return None
    return _TYPE.pack(record.value_version) + encode_value(record.value, record.value_version)


def decode_record(kinds: Kinds, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
    """Read a record back; None if its type is none of ours, CorruptDataError if it is and cannot be read."""
    if key is None:
        raise CorruptDataError("a coordinator's record has no key")
    try:
        number = _TYPE.unpack_from(key)[0]
        kind = kinds.get(number)
        if kind is None:
            return None
        read_key = decode_value(kind.key, _KEY_VERSION, key[_TYPE.size :])
        if value is None:
            return CoordinatorRecord(number, read_key, None)
        version = _TYPE.unpack_from(value)[0]
        if not 0 <= version <= kind.max_value_version:
            raise CorruptDataError(
                f"a record of type {number} has value version {version}, "
                f"expected 0 to {kind.max_value_version}"
            )
        return CoordinatorRecord(
            number, read_key, decode_value(kind.value, version, value[_TYPE.size :]), version
        )
    except (ProtocolError, error) as problem:
        raise CorruptDataError(f"a coordinator's record cannot be read: {problem}") from problem
