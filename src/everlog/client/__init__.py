"""The client library: what talks to a cluster, be it Everlog or Apache Kafka.

`core` decides and does no I/O, `drive` carries it out on asyncio, `aio` and `sync` are its two faces. What is
exported here is public, here and as `everlog.…`; `everlog.aio` has the asyncio face under the same names.
Nothing here knows of the broker's rooms: a client sees the wire and nothing else.
What always holds: no call waits longer than its time-out, and every error names what it was about.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlog.client.core.admin.outcomes import ItemsRefused
    from everlog.client.core.admin.topics import NewTopic
    from everlog.client.core.consumer.errors import (
        DamagedBatch,
        DeserializationError,
        LogTruncated,
        NoOffset,
        OffsetOutOfRange,
        OffsetsNeeded,
        Woken,
    )
    from everlog.client.core.errors import (
        AuthenticationFailed,
        Closed,
        Fenced,
        Misused,
        TimedOut,
        TlsFailed,
        TransactionAborted,
        TransactionError,
        TransactionFailed,
        TransactionMisused,
        Unreachable,
        Unsendable,
        UnsendableType,
        Unsupported,
    )
    from everlog.client.core.group.assignors import AssignedMember, Assignor, RebalanceProtocol
    from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata, RebalanceListener
    from everlog.client.core.producer.delivery import BatchMetadata, BulkDelivery, Delivery, RecordMetadata
    from everlog.client.sync.admin import Admin
    from everlog.client.sync.consumer import Consumer
    from everlog.client.sync.dead_letters import DeadLetters
    from everlog.client.sync.producer import Producer
    from everlog.model.errors import (
        ConfigError,
        CorruptDataError,
        ErrorCode,
        EverlogError,
        ProtocolError,
        Refused,
    )
    from everlog.model.topics import TopicPartition
    from everlog.records.rows import ConsumerRecord

__all__ = [
    "Admin",
    "AssignedMember",
    "Assignor",
    "AuthenticationFailed",
    "BatchMetadata",
    "BulkDelivery",
    "Closed",
    "ConfigError",
    "Consumer",
    "ConsumerRecord",
    "CorruptDataError",
    "DamagedBatch",
    "DeadLetters",
    "Delivery",
    "DeserializationError",
    "ErrorCode",
    "EverlogError",
    "Fenced",
    "GroupMetadata",
    "ItemsRefused",
    "LogTruncated",
    "Misused",
    "NewTopic",
    "NoOffset",
    "OffsetAndMetadata",
    "OffsetOutOfRange",
    "OffsetsNeeded",
    "Producer",
    "ProtocolError",
    "RebalanceListener",
    "RebalanceProtocol",
    "RecordMetadata",
    "Refused",
    "TimedOut",
    "TlsFailed",
    "TopicPartition",
    "TransactionAborted",
    "TransactionError",
    "TransactionFailed",
    "TransactionMisused",
    "Unreachable",
    "Unsendable",
    "UnsendableType",
    "Unsupported",
    "Woken",
]

# Loaded when it is first used: the command line and the broker need a few of these modules, not all.
_HOMES = {
    "Admin": "everlog.client.sync.admin",
    "AssignedMember": "everlog.client.core.group.assignors",
    "Assignor": "everlog.client.core.group.assignors",
    "AuthenticationFailed": "everlog.client.core.errors",
    "BatchMetadata": "everlog.client.core.producer.delivery",
    "BulkDelivery": "everlog.client.core.producer.delivery",
    "Closed": "everlog.client.core.errors",
    "ConfigError": "everlog.model.errors",
    "Consumer": "everlog.client.sync.consumer",
    "ConsumerRecord": "everlog.records.rows",
    "CorruptDataError": "everlog.model.errors",
    "DamagedBatch": "everlog.client.core.consumer.errors",
    "DeadLetters": "everlog.client.sync.dead_letters",
    "Delivery": "everlog.client.core.producer.delivery",
    "DeserializationError": "everlog.client.core.consumer.errors",
    "ErrorCode": "everlog.model.errors",
    "EverlogError": "everlog.model.errors",
    "Fenced": "everlog.client.core.errors",
    "GroupMetadata": "everlog.client.core.group.types",
    "ItemsRefused": "everlog.client.core.admin.outcomes",
    "LogTruncated": "everlog.client.core.consumer.errors",
    "Misused": "everlog.client.core.errors",
    "NewTopic": "everlog.client.core.admin.topics",
    "NoOffset": "everlog.client.core.consumer.errors",
    "OffsetAndMetadata": "everlog.client.core.group.types",
    "OffsetOutOfRange": "everlog.client.core.consumer.errors",
    "OffsetsNeeded": "everlog.client.core.consumer.errors",
    "Producer": "everlog.client.sync.producer",
    "ProtocolError": "everlog.model.errors",
    "RebalanceListener": "everlog.client.core.group.types",
    "RebalanceProtocol": "everlog.client.core.group.assignors",
    "RecordMetadata": "everlog.client.core.producer.delivery",
    "Refused": "everlog.model.errors",
    "TimedOut": "everlog.client.core.errors",
    "TlsFailed": "everlog.client.core.errors",
    "TopicPartition": "everlog.model.topics",
    "TransactionAborted": "everlog.client.core.errors",
    "TransactionError": "everlog.client.core.errors",
    "TransactionFailed": "everlog.client.core.errors",
    "TransactionMisused": "everlog.client.core.errors",
    "Unreachable": "everlog.client.core.errors",
    "Unsendable": "everlog.client.core.errors",
    "UnsendableType": "everlog.client.core.errors",
    "Unsupported": "everlog.client.core.errors",
    "Woken": "everlog.client.core.consumer.errors",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
