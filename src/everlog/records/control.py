"""Control batches: the records that the log writes to itself and that no application sees.

A control batch has one record. Its key gives a version and a type; its value belongs to the type. The
values of the Raft types are messages of the wire and pass through here as bytes.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from everlog.model.errors import CorruptDataError
from everlog.records.builder import NewRecord, build_batch

MARKER_BATCH_BYTES = 78

_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    """What a control record is about."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class Producer(NamedTuple):
    """Whose transaction a marker ends."""

    id: int
    epoch: int


def build_marker(
    kind: ControlType,
    producer: Producer,
    *,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """Return the batch of 78 bytes that commits or aborts a producer's transaction in one partition."""
    assert kind in (ControlType.ABORT, ControlType.COMMIT), kind
    value = _MARKER_VALUE.pack(_VERSION, coordinator_epoch)
    return build_batch(
        [NewRecord(_KEY.pack(_VERSION, kind), value, (), timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        transactional=True,
        control=True,
    )


def build_control_batch(
    kind: ControlType, value: bytes, *, timestamp: int, base_offset: int = 0, leader_epoch: int = -1
) -> bytearray:
    """Return a control batch outside any transaction, such as a leader change; `value` bears its version."""
    return build_batch(
        [NewRecord(_KEY.pack(_VERSION, kind), value, (), timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        control=True,
    )


def control_type(key: bytes | None) -> ControlType | None:
    """Return the type that a control record's key gives; None for one that is not known, to be ignored.

    Later versions of the key may be longer; a key too short for any version is a CorruptDataError.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptDataError(f"a control record's key is {key!r}, expected {_KEY.size} bytes or more")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptDataError(f"a control record's key has version {version}")
    try:
        return ControlType(kind)
    except ValueError:
        return None


def marker_coordinator_epoch(value: bytes | None) -> int:
    """Return the epoch of the coordinator that wrote a commit or abort marker, from the marker's value."""
    if value is None or len(value) < _MARKER_VALUE.size:
        raise CorruptDataError(f"a marker's value is {value!r}, expected {_MARKER_VALUE.size} bytes or more")
    version, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    if version < 0:
        raise CorruptDataError(f"a marker's value has version {version}")
    return int(coordinator_epoch)
