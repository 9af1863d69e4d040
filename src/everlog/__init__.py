"""Everlog: a replicated, append-only commit log that speaks the Kafka wire protocol.

The clients are here as `everlog.Producer`, `everlog.Consumer` and `everlog.Admin`, with what they take and
return; `everlog.aio` has them for asyncio. `everlog.Cluster` is a broker for a test or a notebook. The rooms
below and the direction in which they may import each other are in ARCHITECTURE.md. Nothing is imported before
it is used, so that `import everlog` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlog import admin as admin
    from everlog import aio as aio
    from everlog.client import (
        Admin,
        AssignedMember,
        Assignor,
        AuthenticationFailed,
        BatchMetadata,
        BulkDelivery,
        Closed,
        ConfigError,
        Consumer,
        ConsumerRecord,
        CorruptDataError,
        DamagedBatch,
        DeadLetters,
        Delivery,
        DeserializationError,
        ErrorCode,
        EverlogError,
        Fenced,
        GroupMetadata,
        ItemsRefused,
        LogTruncated,
        Misused,
        NewTopic,
        NoOffset,
        OffsetAndMetadata,
        OffsetOutOfRange,
        OffsetsNeeded,
        Producer,
        ProtocolError,
        RebalanceListener,
        RebalanceProtocol,
        RecordMetadata,
        Refused,
        TimedOut,
        TlsFailed,
        TopicPartition,
        TransactionAborted,
        TransactionError,
        TransactionFailed,
        TransactionMisused,
        Unreachable,
        Unsendable,
        UnsendableType,
        Unsupported,
        Woken,
    )
    from everlog.embedded.brokers import BrokerFailed
    from everlog.embedded.cluster import Cluster

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "AssignedMember",
    "Assignor",
    "AuthenticationFailed",
    "BatchMetadata",
    "BrokerFailed",
    "BulkDelivery",
    "Closed",
    "Cluster",
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
    "__version__",
]


_EMBEDDED = {"BrokerFailed": "everlog.embedded.brokers", "Cluster": "everlog.embedded.cluster"}
"""Public names that are not the clients'."""

_MODULES = ("admin", "aio")
"""Public modules, so that `everlog.aio.Producer` needs no import of its own."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"everlog.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(_EMBEDDED.get(name, "everlog.client"))
    found = globals()[name] = getattr(home, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
