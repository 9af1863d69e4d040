"""Metadata records as they lie in `__cluster_metadata-0`.

A record's value is an unsigned varint frame version (1), an unsigned varint record type, an unsigned
varint version of that type, and the body. Its key is null.
"""

from everlog.model.errors import CorruptDataError, ProtocolError
from everlog.wire.codec import decode_value, encode_value
from everlog.wire.message import Message
from everlog.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from everlog.wire.messages.config_record import ConfigRecord
from everlog.wire.messages.feature_level_record import FeatureLevelRecord
from everlog.wire.messages.fence_broker_record import FenceBrokerRecord
from everlog.wire.messages.no_op_record import NoOpRecord
from everlog.wire.messages.partition_change_record import PartitionChangeRecord
from everlog.wire.messages.partition_record import PartitionRecord
from everlog.wire.messages.producer_ids_record import ProducerIdsRecord
from everlog.wire.messages.register_broker_record import RegisterBrokerRecord
from everlog.wire.messages.register_controller_record import RegisterControllerRecord
from everlog.wire.messages.remove_topic_record import RemoveTopicRecord
from everlog.wire.messages.topic_record import TopicRecord
from everlog.wire.messages.unfence_broker_record import UnfenceBrokerRecord
from everlog.wire.messages.unregister_broker_record import UnregisterBrokerRecord

FRAME_VERSION = 1

METADATA_VERSION = "metadata.version"
METADATA_LEVEL = 30
"""The level of `metadata.version` that our records belong to: that of Kafka 4.3."""

_WRITTEN: dict[type[Message], int] = {
    RegisterBrokerRecord: 3,
    UnregisterBrokerRecord: 0,
    TopicRecord: 0,
    PartitionRecord: 2,
    ConfigRecord: 0,
    PartitionChangeRecord: 2,
    FenceBrokerRecord: 0,
    UnfenceBrokerRecord: 0,
    RemoveTopicRecord: 0,
    FeatureLevelRecord: 0,
    ProducerIdsRecord: 0,
    BrokerRegistrationChangeRecord: 2,
    NoOpRecord: 0,
    RegisterControllerRecord: 0,
}
"""The version in which each type is written at our level."""

_TYPES: dict[int, type[Message]] = {kind.KEY: kind for kind in _WRITTEN if kind.KEY is not None}
_PREFIXES = {
    # Each of the three is below 128, so its varint is the byte itself.
    kind: bytes((FRAME_VERSION, kind.KEY, version))
    for kind, version in _WRITTEN.items()
    if kind.KEY is not None
}


def encode_record(message: Message) -> bytes:
    """Return a record's value: frame, type, version, body."""
    kind = type(message)
    return _PREFIXES[kind] + encode_value(message, _WRITTEN[kind])


def decode_record(value: bytes | None) -> Message:
    """Read a record's value back; CorruptDataError if it is none, or of a type that is not known."""
    if value is None:
        raise CorruptDataError("a metadata record has no value")
    frame, position = _unsigned_varint(value, 0)
    key, position = _unsigned_varint(value, position)
    version, position = _unsigned_varint(value, position)
    if frame != FRAME_VERSION:
        raise CorruptDataError(f"a metadata record has frame version {frame}, expected {FRAME_VERSION}")
    kind = _TYPES.get(key)
    if kind is None:
        raise CorruptDataError(f"a metadata record has type {key}, which this version does not know")
    try:
        return decode_value(kind, version, value[position:])
    except ProtocolError as error:
        raise CorruptDataError(f"{kind.__name__} version {version} cannot be read: {error}") from error


def _unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            raise CorruptDataError(f"a metadata record of {len(data)} bytes ends within its frame")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise CorruptDataError("a metadata record's frame has a varint of more than five bytes")
