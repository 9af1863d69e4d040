"""Everlog: a replicated, append-only commit log that speaks the Kafka wire protocol.

The clients are here as `everlog.Producer`, `everlog.Consumer` and `everlog.Admin`, with what they take and
return; `everlog.aio` has them for asyncio. The rooms below and the direction in which they may import each
other are in ARCHITECTURE.md. Nothing is imported before it is used, so that `import everlog` costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlog.client import (
        Admin,
        AuthenticationFailed,
        BatchMetadata,
        BulkDelivery,
        Closed,
        ConfigError,
        Consumer,
        ConsumerRecord,
        Delivery,
        DeserializationError,
        ErrorCode,
        EverlogError,
        Fenced,
        GroupMetadata,
        LogTruncated,
        Misused,
        NoOffset,
        OffsetAndMetadata,
        OffsetOutOfRange,
        OffsetsNeeded,
        Producer,
        RebalanceListener,
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
        Unsupported,
        Woken,
    )

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "AuthenticationFailed",
    "BatchMetadata",
    "BulkDelivery",
    "Closed",
    "ConfigError",
    "Consumer",
    "ConsumerRecord",
    "Delivery",
    "DeserializationError",
    "ErrorCode",
    "EverlogError",
    "Fenced",
    "GroupMetadata",
    "LogTruncated",
    "Misused",
    "NoOffset",
    "OffsetAndMetadata",
    "OffsetOutOfRange",
    "OffsetsNeeded",
    "Producer",
    "RebalanceListener",
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
    "Unsupported",
    "Woken",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from everlog import client

    found = globals()[name] = getattr(client, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
