"""What goes wrong between a client and a cluster. Each exception says with `.retriable` if a retry may help.

EverlogError
├── Refused         the broker answered with an error code; its `.code` (model.errors)
│   ├── ItemsRefused   so it did for some of the things asked for, which it names (core.admin.outcomes)
│   └── Unsendable      no record can be made of what a producer was given, or it has no such place
│       └── UnsendableType   as it is of another type than bytes, times and so on
├── ProtocolError   what came is not Kafka's protocol (model.errors)
├── CorruptDataError  bytes are not what was written (model.errors)
│   └── DamagedBatch      a batch that a consumer read; `seek` leaves it out (core.consumer.errors)
├── ConfigError     a setting is unknown, wrong, or contradicts another (model.errors)
├── Unreachable     no connection, or it broke: another broker or another try may do
├── TimedOut        no answer in time; whether the request was carried out is not known
├── Unsupported     the broker does not speak the version or the API that is needed
├── Closed          the client that was called is closed
├── AuthenticationFailed  the broker does not accept who we say we are, or cannot prove who it is
│   └── TlsFailed            no TLS with this broker: certificate, host name, or no TLS at all
├── TransactionError      a transaction cannot go on as it is
│   ├── TransactionFailed    something of it failed: it can only be aborted, and then done again
│   ├── TransactionAborted   a record was not sent, because its transaction was aborted
│   ├── TransactionMisused   a call that does not fit, such as a commit of what was not begun
│   └── Fenced               another producer has the transactional id: this one can do nothing more
├── OffsetsNeeded         partitions cannot be read before `seek` says where (core.consumer.errors)
│   ├── NoOffset             nothing is committed, and no rule says where to begin
│   ├── OffsetOutOfRange     the log does not have the offset, and no rule says where to go on
│   └── LogTruncated         what was read is not in the log any more
├── DeserializationError  a deserializer failed with a record (core.consumer.errors)
├── Misused               a call that does not fit what a client is doing, or the thread it comes from
├── Woken                 `wakeup` was called while a poll waited (core.consumer.errors)
└── BrokerFailed          a broker of `everlog.Cluster` did not start, or cannot do this (embedded.brokers)
"""

from everlog.model.errors import ErrorCode, EverlogError, Refused


class Unreachable(EverlogError):
    """A broker could not be reached, or the connection to it broke."""

    retriable = True


class TimedOut(EverlogError):
    """An answer did not come in time."""

    retriable = True


class Unsupported(EverlogError):
    """The broker does not serve an API, or no version of it that we speak."""

    peer_at_fault = True


class Unsendable(Refused, ValueError):
    """A record, or a row or column of a table, that cannot be sent as it is; also a ValueError."""


class UnsendableType(Unsendable, TypeError):
    """A field or a column is of a type that records do not have; also a TypeError."""


class Closed(EverlogError):
    """A client was used after it was closed, or was closed meanwhile, or is another process's."""


class Misused(EverlogError):
    """A call that does not fit what a client is doing, or that may not come from the thread it came from."""


class AuthenticationFailed(EverlogError):
    """Credentials were not accepted, by the broker or by us; the same ones will not be later either."""

    peer_at_fault = True

    def __init__(self, message: str, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(message)
        self.code = code
        """What the broker answered, where it did."""


class TlsFailed(AuthenticationFailed):
    """No TLS connection to a broker can be had with these settings."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.NONE)


class TransactionError(EverlogError):
    """A transaction cannot go on as it is."""


class TransactionFailed(TransactionError):
    """Something of the transaction failed, which is the cause; abort it, then do it again."""


class TransactionAborted(TransactionError):
    """A record will not be delivered: its transaction was aborted first."""


class TransactionMisused(TransactionError):
    """A transactional call that does not fit what is under way."""


class Fenced(TransactionError):
    """Another producer has the transactional id, or the transaction took too long; make a new producer."""


def error_code(number: int) -> ErrorCode:
    """The code for a number from the wire; one that we do not know counts as an unknown server error."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def unsendable(error: Exception, what: str, code: ErrorCode = ErrorCode.INVALID_RECORD) -> Unsendable:
    """The exception for what `records` would not encode: its own know nothing of topics, and of no tree."""
    kind = UnsendableType if isinstance(error, TypeError) else Unsendable
    return kind(code, f"{what}: {error}")


def refusal(number: int, message: str | None, what: str) -> Refused:
    """Make the exception for an error in an answer: what it is about, the code's name, the broker's words."""
    code = error_code(number)
    said = f": {message}" if message else ""
    return Refused(code, f"{what}: {code.name}{said}")
