"""Dead letters: what becomes of records whose handler fails, decided without doing it (C8).

A record that failed for the last time goes to another topic with headers that say why and where it came
from; `read_dead_letter` reads them back, for whoever looks at such a topic or sends its records back.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from everlog.client.core.errors import TransactionFailed
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.client.core.settings import function, maybe, read_settings, setting, whole, wrong
from everlog.model.errors import ConfigError, ErrorCode, Refused
from everlog.model.topics import TopicPartition, topic_name_problem
from everlog.records.rows import ConsumerRecord

PREFIX = "dead-letter."
TOPIC, PARTITION, OFFSET, TIMESTAMP = (
    f"{PREFIX}{name}" for name in ("topic", "partition", "offset", "timestamp")
)
ERROR, MESSAGE, TRIES, AT, GROUP = (
    f"{PREFIX}{name}" for name in ("error", "message", "tries", "at", "group")
)

MAX_MESSAGE_LENGTH = 4096

LAST_FAILED = "interrupted, and what was handled before could not be settled: %s"
"""What is logged of a step after an interrupt, which is raised instead of its error."""

GROUP_WENT_ON = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""A commit refused so is nobody's fault: the records are handed to whoever has their partitions now."""

Headers = tuple[tuple[str, bytes | None], ...]
Deserializer = Callable[[bytes], Any]
OnDeadLetter = Callable[[ConsumerRecord, BaseException], object]


class DeadLetterOptions(TypedDict, total=False):
    """Keyword arguments of DeadLetters."""

    tries: int
    topic: str
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    fatal: type[BaseException] | tuple[type[BaseException], ...]
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    on_dead_letter: OnDeadLetter | None


@dataclass(frozen=True, slots=True)
class Handled:
    """How many records were handled, and how many were given up."""

    handled: int = 0
    dead: int = 0

    def __add__(self, other: "Handled") -> "Handled":
        return Handled(self.handled + other.handled, self.dead + other.dead)


def _template(name: str, value: Any) -> str:
    if not isinstance(value, str) or topic_name_problem(value.replace("{topic}", "t")) is not None:
        raise wrong(name, value, "the name of a topic, in which {topic} stands for that of the record")
    return value


def _exceptions(name: str, value: Any) -> tuple[type[BaseException], ...]:
    given = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    classes = tuple(entry for entry in given if isinstance(entry, type) and issubclass(entry, BaseException))
    if len(classes) < len(given):
        raise wrong(name, given, "a class of exceptions, or a tuple of them")
    return classes


@dataclass(frozen=True, kw_only=True)
class DeadLetterSettings:
    """How failures are dealt with."""

    tries: int = setting(3, whole(1), "how often a record is handled before it is given up")
    topic: str = setting("{topic}.dlq", _template, "where it goes then")
    retry_backoff_ms: int = setting(100, whole(0), "first wait before a record is tried again; it doubles")
    retry_backoff_max_ms: int = setting(10_000, whole(0), "longest wait before a record is tried again")
    fatal: tuple[type[BaseException], ...] = setting(
        (), _exceptions, "exceptions that another try will not mend"
    )
    key_deserializer: Deserializer | None = setting(
        None, maybe(function), "what makes of a key's bytes what the handler sees"
    )
    value_deserializer: Deserializer | None = setting(
        None, maybe(function), "what makes of a value's bytes what the handler sees"
    )
    on_dead_letter: OnDeadLetter | None = setting(
        None, maybe(function), "called with each record that is given up, and why"
    )

    def letter_topic(self, topic: str) -> str:
        """Where the dead letters of a topic go."""
        return self.topic.replace("{topic}", topic)

    def wait_s(self, tries: int) -> float:
        """Seconds to wait after so many tries."""
        return min(self.retry_backoff_max_ms, self.retry_backoff_ms << min(tries - 1, 20)) / 1000


def dead_letter_settings(options: Mapping[str, Any], consumer: Any, producer: Any) -> DeadLetterSettings:
    """Check the settings, and those of the two clients that a dead letter passes through."""
    if consumer.group_id is None:
        raise ConfigError(
            "setting group_id=None of the consumer: expected a group, whose offsets are committed"
        )
    if consumer.enable_auto_commit:
        raise ConfigError(
            "setting enable_auto_commit=True of the consumer: expected False, "
            "or records would be committed before they are handled"
        )
    for client, names in ((consumer, "deserializer"), (producer, "serializer")):
        for name in (f"key_{names}", f"value_{names}"):
            if getattr(client, name) is not None:
                whose = "consumer" if client is consumer else "producer"
                raise ConfigError(
                    f"setting {name} of the {whose}: expected None, as a dead letter has the bytes of its "
                    "record; DeadLetters has deserializers of its own"
                )
    return read_settings(DeadLetterSettings, options)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that was given up, as its headers tell; None where a header is missing."""

    record: ConsumerRecord
    """As it lies in the dead-letter topic."""
    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None
    error: str
    message: str
    tries: int
    at: int | None
    group: str | None

    @property
    def headers(self) -> Headers:
        """The headers that the record had before it was given up."""
        return tuple(pair for pair in self.record.headers if not pair[0].startswith(PREFIX))

    @property
    def replay_headers(self) -> Headers:
        """The headers with which it is sent back: its own, and how often it was tried so far."""
        return (*self.headers, (TRIES, str(self.tries).encode()))


def tries_before(record: ConsumerRecord) -> int:
    """How often a record was tried before it was sent back to its topic."""
    return _number(dict(record.headers).get(TRIES)) or 0


def letter_headers(record: ConsumerRecord, error: BaseException, tries: int, group: str, now: int) -> Headers:
    """The headers of a record that is given up: its own, and all about the failure; times in ms."""
    shown = error.__cause__ if isinstance(error, Undecodable) and error.__cause__ is not None else error
    kind = type(shown)
    named = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    told = {
        TOPIC: record.topic,
        PARTITION: str(record.partition),
        OFFSET: str(record.offset),
        TIMESTAMP: str(record.timestamp),
        ERROR: named,
        MESSAGE: str(shown)[:MAX_MESSAGE_LENGTH],
        TRIES: str(tries + tries_before(record)),
        AT: str(now),
        GROUP: group,
    }
    own = (pair for pair in record.headers if not pair[0].startswith(PREFIX))
    return (*own, *((name, text.encode("utf-8", "replace")) for name, text in told.items()))


def read_dead_letter(record: ConsumerRecord) -> DeadLetter | None:
    """What the headers of a record tell; None if it is no dead letter."""
    told = dict(record.headers)
    topic = _text(told.get(TOPIC))
    if not topic:
        return None
    return DeadLetter(
        record,
        topic,
        _number(told.get(PARTITION)),
        _number(told.get(OFFSET)),
        _number(told.get(TIMESTAMP)),
        _text(told.get(ERROR)) or "",
        _text(told.get(MESSAGE)) or "",
        _number(told.get(TRIES)) or 0,
        _number(told.get(AT)),
        _text(told.get(GROUP)),
    )


# What the driver is asked to do, and told by what.


@dataclass(frozen=True, slots=True)
class Handle:
    """Call the handler; answered with its exception, with None if it had none, or with `Stop`."""

    record: ConsumerRecord


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait before another try."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Bury:
    """Send a record to its dead-letter topic."""

    record: ConsumerRecord
    error: BaseException
    tries: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a transaction."""


@dataclass(frozen=True, slots=True)
class Abort:
    """Abort the transaction: what the handler has sent in it is gone."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Have all dead letters delivered, then commit the offsets, in the transaction if there is one."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata]


Step = Handle | Wait | Bury | Begin | Abort | Settle


class Stop:
    """Answers `Handle` when nothing more shall be handled."""


Answer = BaseException | Stop | None


class Handling:
    """Carries records through their handler, one after the other; the driver does what it says.

    At no time is an offset settled before its record was handled or buried. In a transaction a failed try
    takes back all that came before it; so from then on each record has a transaction of its own.
    """

    def __init__(
        self, settings: DeadLetterSettings, records: Sequence[ConsumerRecord], *, transactional: bool
    ) -> None:
        self._settings = settings
        self._records = records
        self._transactional = transactional
        self.handled = 0
        self.buried = 0
        self._settled = 0
        """Records whose offsets were settled; `settled <= handled + buried`."""

    @property
    def outcome(self) -> Handled:
        """What became of the records so far."""
        return Handled(self.handled, self.buried)

    @property
    def unsettled(self) -> dict[TopicPartition, int]:
        """Where to read on in each partition if nothing more comes of this."""
        first: dict[TopicPartition, int] = {}
        for record in self._records[self._settled :]:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return first

    def steps(self) -> Generator[Step, Answer, None]:
        """What to do, step by step."""
        return self._in_transactions() if self._transactional else self._at_least_once()

    def _at_least_once(self) -> Generator[Step, Answer, None]:
        done = 0
        for record in self._records:
            ended = yield from self._try(record)
            if not ended:
                break
            done += 1
        yield from self._settle(done)

    def _try(self, record: ConsumerRecord) -> Generator[Step, Answer, bool]:
        """Handle a record until it works or is buried; False if all shall stop."""
        tries = 0
        while True:
            answer = yield Handle(record)
            if isinstance(answer, Stop):
                return False
            if answer is None:
                self.handled += 1
                return True
            tries += 1
            if self._is_over(answer, tries):
                yield Bury(record, answer, tries)
                self.buried += 1
                return True
            yield Wait(self._settings.wait_s(tries))

    def _in_transactions(self) -> Generator[Step, Answer, None]:
        yield Begin()
        for at, record in enumerate(self._records):
            answer = yield Handle(record)
            if answer is not None:
                yield Abort()
                if isinstance(answer, BaseException):
                    yield from self._one_by_one(at, answer)
                return
        self.handled += len(self._records)
        yield from self._settle(len(self._records))

    def _one_by_one(self, failed: int, error: BaseException) -> Generator[Step, Answer, None]:
        """All records anew, each in a transaction of its own; one of them has failed once already."""
        for at, record in enumerate(self._records):
            tries, last = (1, error) if at == failed else (0, None)
            while True:
                if last is not None and self._is_over(last, tries):
                    yield Begin()
                    yield Bury(record, last, tries)
                    self.buried += 1
                    break
                if last is not None:
                    yield Wait(self._settings.wait_s(tries))
                yield Begin()
                answer = yield Handle(record)
                if answer is None:
                    self.handled += 1
                    break
                yield Abort()
                if isinstance(answer, Stop):
                    return
                tries, last = tries + 1, answer
            yield from self._settle(at + 1)

    def _settle(self, end: int) -> Generator[Step, Answer, None]:
        offsets = {
            TopicPartition(record.topic, record.partition): OffsetAndMetadata(
                record.offset + 1, leader_epoch=record.leader_epoch
            )
            for record in self._records[self._settled : end]
        }
        if offsets:
            yield Settle(offsets)
        self._settled = end

    def _is_over(self, error: BaseException, tries: int) -> bool:
        undecodable = isinstance(error, Undecodable)
        return tries >= self._settings.tries or undecodable or isinstance(error, self._settings.fatal)


class Undecodable(Exception):
    """A deserializer failed; it will again. The error it had is the cause."""


def decoded(settings: DeadLetterSettings, record: ConsumerRecord) -> ConsumerRecord:
    """The record as the handler sees it; Undecodable if a deserializer fails."""
    if settings.key_deserializer is None and settings.value_deserializer is None:
        return record
    try:
        key, value = record.key, record.value
        if key is not None and settings.key_deserializer is not None:
            key = settings.key_deserializer(key)
        if value is not None and settings.value_deserializer is not None:
            value = settings.value_deserializer(value)
    except Exception as error:
        raise Undecodable(str(error)) from error
    return record.with_content(key, value)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _number(value: bytes | None) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        return None


def group_went_on(error: BaseException | None) -> bool:
    """Whether a commit failed only because the group has a new generation."""
    if isinstance(error, TransactionFailed):
        error = error.__cause__
    return isinstance(error, Refused) and error.code in GROUP_WENT_ON
