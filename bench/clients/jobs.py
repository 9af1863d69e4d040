"""What is measured: a kind of work, the programs that do it, and how much better ours should be."""

from dataclasses import asdict, dataclass
from typing import Any

OURS, CONFLUENT, KAFKA_PYTHON, AIOKAFKA = "everlog", "confluent-kafka", "kafka-python", "aiokafka"
NONE = "none"
"""The client of programs that have none."""


@dataclass(frozen=True, slots=True)
class Program:
    """One way to do some work: a client, and how it is called."""

    name: str
    client: str
    share: float = 1.0
    """What part of the records of a sample it moves: slow ones would take minutes for all, and quick ones no
    time to speak of."""


@dataclass(frozen=True, slots=True)
class Goal:
    """How many times as fast as a program of another client ours should be, and what we would like."""

    program: str
    against: str
    floor: float
    want: float


@dataclass(frozen=True, slots=True)
class Work:
    """Something that every client can do, at one size of records."""

    name: str
    kind: str
    """"send" or "read"."""
    programs: tuple[Program, ...]
    goals: tuple[Goal, ...]
    bound: str
    """The program that does nothing with the bytes: about what the broker and the loopback carry."""


_SENDERS = (
    Program("everlog send", OURS),
    Program("everlog send, callback", OURS),
    Program("everlog send_arrow", OURS, share=4.0),
    Program("confluent produce, callback", CONFLUENT, share=0.5),
    Program("kafka-python send", KAFKA_PYTHON, share=0.05),
    Program("aiokafka send", AIOKAFKA, share=0.1),
    Program("bare socket, send", NONE, share=2.0),
)
_READERS = (
    Program("everlog iterate", OURS),
    Program("everlog poll", OURS),
    Program("everlog poll_arrow", OURS, share=3.0),
    Program("everlog poll_arrow, views", OURS, share=3.0),
    Program("confluent poll", CONFLUENT),
    Program("confluent consume(500)", CONFLUENT),
    Program("kafka-python iterate", KAFKA_PYTHON, share=0.1),
    Program("aiokafka iterate", AIOKAFKA, share=0.2),
    Program("bare socket, fetch", NONE, share=3.0),
)

WORKS = (
    Work(
        "send",
        "send",
        _SENDERS,
        (
            Goal("everlog send", "confluent produce, callback", 1.0, 1.5),
            Goal("everlog send, callback", "confluent produce, callback", 1.0, 1.5),
            Goal("everlog send", "kafka-python send", 5.0, 5.0),
            Goal("everlog send_arrow", "confluent produce, callback", 5.0, 10.0),
        ),
        "bare socket, send",
    ),
    Work(
        "read",
        "read",
        _READERS,
        (
            Goal("everlog iterate", "confluent poll", 1.0, 1.5),
            Goal("everlog poll", "confluent consume(500)", 1.0, 1.5),
            Goal("everlog iterate", "kafka-python iterate", 5.0, 5.0),
            Goal("everlog poll_arrow", "confluent consume(500)", 5.0, 10.0),
            Goal("everlog poll_arrow, views", "confluent consume(500)", 5.0, 10.0),
        ),
        "bare socket, fetch",
    ),
)


@dataclass(frozen=True, slots=True)
class Job:
    """What one process is to do."""

    program: str
    bootstrap: str
    topic: str
    partitions: int
    count: int
    """Records to send, or to read from the beginning."""
    size: int
    """Bytes of each value."""

    def as_dict(self) -> dict[str, Any]:
        """The job for a command line."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one process found; `seconds` are those from the first record to the last acknowledgement."""

    records: int
    seconds: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    @property
    def cpu_s_per_million(self) -> float:
        """CPU seconds of the client's process for a million records."""
        return self.cpu_s / self.records * 1e6
