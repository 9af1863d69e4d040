"""How fast a log is compacted, beside Apache Kafka (L6): `python -m bench.compaction [megabytes]`.

Both brokers are sent the same batches of sixteen records of 1 KB, whose keys are drawn from as many as there
are records: 1,000 MB have a million. The topic is not compacted while it is filled; then its policy is
changed, and the time is what each broker's own log says of its rounds. Meanwhile another connection asks the
broker something every few milliseconds: the slowest answers show whether compaction holds up others.
"""

import random
import re
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import apache_kafka, brokers
from tests.conformance import raw
from tests.conformance.clients import confluent

from bench.machine import status_mb
from everlog.records.builder import NewRecord, build_batch

TOPIC = "compacted"
RECORDS_A_BATCH = 16
RECORD_BYTES = 1_000
SEGMENT_BYTES = 100 << 20
PIPELINED = 32
PROBE_EVERY_S = 0.005
LIMIT_S = 600.0
SETTINGS = {"log.cleaner.backoff.ms": "1000"}
_OURS = re.compile(
    r"compacted-0 is compacted up to offset (\d+): (\d+) bytes of segments became (\d+) in (\d+) ms"
)
_KAFKAS = re.compile(
    r"cleaned log compacted-0 \(dirty section = \[\d+, (\d+)\]\)\s+"
    r"[\d.,]+ MB of log processed in ([\d.,]+) seconds"
    r".*?Start size: ([\d.,]+) MB.*?End size: ([\d.,]+) MB",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a broker's log says it has compacted."""

    end_offset: int
    seconds: float
    mb_before: float
    mb_after: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was measured of one broker."""

    name: str
    rounds: Rounds
    peak_mb: float
    """The most memory it had, and how much more that is than before."""
    grown_mb: float
    slowest_ms: float
    p99_ms: float

    @property
    def mb_per_s(self) -> float:
        """Megabytes of log that were compacted in a second."""
        return self.rounds.mb_before / self.rounds.seconds


@dataclass(frozen=True, slots=True)
class Server:
    """A broker that runs."""

    bootstrap: str
    pid: int
    said: Callable[[], str]


@contextmanager
def everlog(home: Path) -> Generator[Server]:
    """Everlog, by its own command line."""
    overrides = [part for key, value in SETTINGS.items() for part in ("--override", f"{key}={value}")]
    broker = brokers.start_up(home / "everlog", home / "everlog.err", *overrides)
    try:
        yield Server(broker.bootstrap, broker.process.pid, lambda: broker.errors)
    finally:
        broker.stop()


@contextmanager
def kafka(home: Path) -> Generator[Server]:
    """Apache Kafka, as it is shipped."""
    port, directory = brokers.free_port(), home / "kafka"
    process = apache_kafka.start_broker(port, directory, SETTINGS)
    output = home / "kafka.out"
    try:
        apache_kafka.wait_ready(process, directory)
        yield Server(f"127.0.0.1:{port}", process.pid, lambda: output.read_text(errors="replace"))
    finally:
        process.terminate()
        process.wait()


def batches(megabytes: int) -> Iterator[bytes]:
    """The same batches every time."""
    chance = random.Random(11)
    pool = chance.randbytes(1 << 20)
    count = megabytes * 1_000_000 // RECORD_BYTES
    now = int(time.time() * 1000)
    for _ in range(count // RECORDS_A_BATCH):
        starts = [chance.randrange(len(pool) - RECORD_BYTES) for _ in range(RECORDS_A_BATCH)]
        records = [
            NewRecord(b"key-%010d" % chance.randrange(count), pool[at : at + RECORD_BYTES - 24], (), now)
            for at in starts
        ]
        yield bytes(build_batch(records))


def fill(bootstrap: str, megabytes: int) -> None:
    """Send all batches, several requests ahead of the answers."""
    waiting = 0
    with raw.connected(bootstrap) as connection:

        def take_answer() -> None:
            (size,) = struct.unpack(">i", raw.exactly(connection, 4))
            answer = raw.exactly(connection, size)
            (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(TOPIC) + 4 + 4)
            assert error == 0, error

        for batch in batches(megabytes):
            body = raw.produce_body(TOPIC, batch, acks=1)
            header = struct.pack(">hhih5s", 0, 7, 1, 5, b"bench")
            connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
            waiting += 1
            if waiting == PIPELINED:
                take_answer()
                waiting -= 1
        for _ in range(waiting):
            take_answer()


class Probe:
    """Asks for metadata over and over, and notes how long each answer took."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.times_ms: list[float] = []

    def __enter__(self) -> "Probe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        with raw.connected(self._bootstrap) as connection:
            while not self._over.wait(PROBE_EVERY_S):
                began = time.perf_counter()
                raw.metadata(connection)
                self.times_ms.append((time.perf_counter() - began) * 1e3)


def our_rounds(said: str) -> Rounds:
    """Sum up what Everlog says."""
    found = _OURS.findall(said)
    return Rounds(
        max((int(end) for end, _, _, _ in found), default=0),
        sum(int(ms) for _, _, _, ms in found) / 1e3,
        sum(int(before) for _, before, _, _ in found) / 1e6,
        sum(int(after) for _, _, after, _ in found) / 1e6,
    )


def kafkas_rounds(said: str) -> Rounds:
    """Sum up what Kafka says, whose megabytes are of 2^20 bytes."""
    found = [[float(part.replace(",", "")) for part in each] for each in _KAFKAS.findall(said)]
    return Rounds(
        int(max((each[0] for each in found), default=0)),
        sum(each[1] for each in found),
        sum(each[2] for each in found) * 1.048576,
        sum(each[3] for each in found) * 1.048576,
    )


def measure(name: str, server: Server, megabytes: int, rounds: Callable[[str], Rounds]) -> Outcome:
    """Fill a topic, let it be compacted, and take what the broker says of it."""
    client = confluent.connect(server.bootstrap)
    configs = {"segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01"}
    client.create_topic(TOPIC, 1, {**configs, "cleanup.policy": "delete"})
    fill(server.bootstrap, megabytes)
    before_mb = status_mb(server.pid, "VmRSS")
    with Probe(server.bootstrap) as probe:
        client.alter_config(TOPIC, "cleanup.policy", "compact")
        deadline = time.monotonic() + LIMIT_S
        found = rounds(server.said())
        settled = 0
        # More than one round may be needed; nothing is said when there is nothing left to do.
        while settled < 8 and time.monotonic() < deadline:
            time.sleep(0.5)
            latest = rounds(server.said())
            settled = settled + 1 if latest == found and latest.seconds else 0
            found = latest
    client.close()
    times = sorted(probe.times_ms)
    peak_mb = status_mb(server.pid, "VmHWM")
    return Outcome(
        name, found, peak_mb, max(0.0, peak_mb - before_mb), times[-1], times[len(times) * 99 // 100]
    )


def report(outcomes: list[Outcome]) -> None:
    """Print a line for each broker, and how they compare."""
    for outcome in outcomes:
        rounds = outcome.rounds
        print(
            f"{outcome.name:14} {outcome.mb_per_s:7.0f} MB/s  {rounds.mb_before:7.0f} MB to "
            f"{rounds.mb_after:5.0f} MB in {rounds.seconds:5.1f} s   "
            f"peak {outcome.peak_mb:5.0f} MB (+{outcome.grown_mb:.0f})   "
            f"others wait p99 {outcome.p99_ms:.1f} ms, max {outcome.slowest_ms:.1f} ms"
        )
    if len(outcomes) == 2:
        print(f"ratio to Apache Kafka: {outcomes[0].mb_per_s / outcomes[1].mb_per_s:.2f}")


def main() -> None:
    """Measure both brokers, one after the other."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as home:
        with everlog(Path(home)) as server:
            outcomes.append(measure("Everlog", server, megabytes, our_rounds))
        if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
            print(f"Apache Kafka is left out: {jars.reason}")
        else:
            with kafka(Path(home)) as server:
                outcomes.append(measure(f"Kafka {apache_kafka.VERSION}", server, megabytes, kafkas_rounds))
    report(outcomes)


if __name__ == "__main__":
    main()
