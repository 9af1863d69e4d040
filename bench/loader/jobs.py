"""What a loader can be asked to do, as values that travel to the child process, and what it answers."""

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ProduceJob:
    """Send the same batches over and over, `depth` requests in flight on each connection.

    Partitions are taken in turn, from `first_partition` on. The job ends after `max_bytes` of batches or
    `max_s`, whichever comes first, and with all acknowledgements in.
    """

    port: int
    topic: str
    partitions: int
    batch_bytes: int
    connections: int
    depth: int
    max_bytes: int
    max_s: float
    first_partition: int = 0


@dataclass(frozen=True, slots=True)
class ConsumeJob:
    """Fetch one partition from `first_offset` on with one request in flight on each connection.

    Each connection reads all of the partition. With `until_offset` a connection that has arrived there
    begins again; without it, it follows the end of the log.
    """

    port: int
    topic: str
    topic_id: str
    first_offset: int
    until_offset: int | None
    connections: int
    max_bytes: int
    max_s: float


@dataclass(frozen=True, slots=True)
class AckLatencyJob:
    """One record a request, one request at a time: how long until it is acknowledged."""

    port: int
    topic: str
    seconds: float


@dataclass(frozen=True, slots=True)
class EndToEndJob:
    """`per_second` records, each in its own request, with a long-poll fetch on a second connection."""

    port: int
    topic: str
    topic_id: str
    per_second: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ClientProduceJob:
    """confluent-kafka, default settings: produce this many 100-byte records and have all acknowledged."""

    port: int
    topic: str
    records: int


@dataclass(frozen=True, slots=True)
class ClientConsumeJob:
    """confluent-kafka, default settings: read this many records of partition 0 from its start."""

    port: int
    topic: str
    records: int


Job = ProduceJob | ConsumeJob | AckLatencyJob | EndToEndJob | ClientProduceJob | ClientConsumeJob
Outcome = dict[str, float]
"""What a job measured, by name. All have `seconds`, and `loader_cpu_s` is added by the child."""

_KINDS: tuple[type[Job], ...] = (
    ProduceJob,
    ConsumeJob,
    AckLatencyJob,
    EndToEndJob,
    ClientProduceJob,
    ClientConsumeJob,
)


def to_line(job: Job) -> str:
    """A job as one line of text."""
    return json.dumps({"kind": type(job).__name__, "fields": asdict(job)})


def from_line(line: str) -> Job:
    """The job that `to_line` wrote."""
    loaded: dict[str, Any] = json.loads(line)
    kinds = {kind.__name__: kind for kind in _KINDS}
    return kinds[loaded["kind"]](**loaded["fields"])
