"""`everlog perf produce`."""

import random
import time
from array import array

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.connect import open_admin
from everlog.cli.measure import Latencies, Throughput, latencies
from everlog.cli.options import acks_option, bootstrap_option, codec_option
from everlog.cli.output import Fields, Report
from everlog.cli.progress import Progress
from everlog.cli.shapes import counted
from everlog.client.core.writer_batches import PendingBatch
from everlog.client.core.writer_plan import Delivered, Failed
from everlog.client.sync.batch_writer import BatchWriter, WriterSettings
from everlog.client.sync.cluster import Cluster
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.records.compression import Codec

EXAMPLES = """
$ everlog perf produce perf-test
$ everlog perf produce perf-test --records 1000000 --size 1000 --batch-bytes 65536 --acks 1 --codec lz4
$ everlog perf produce perf-test --rate 10000 --json
"""

_VARIANTS = 512
"""Different payloads in turn, so that a codec has work to do and their making costs nothing."""


class Meter:
    """Counts delivered batches and how long each took, from its first record to its acknowledgement."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._opened: dict[PendingBatch, float] = {}
        self.seconds = array("d")
        self.records = 0
        self.size_bytes = 0
        self.failed = 0
        self.error: EverlogError | None = None

    def opened(self, batch: PendingBatch, at: float) -> None:
        """Note when a batch got its first record; later records of it change nothing."""
        self._opened.setdefault(batch, at)

    def note(self, outcome: Delivered | Failed) -> None:
        """Count a batch that is done with."""
        began = self._opened.pop(outcome.batch, None)
        count = len(outcome.batch.records)
        if isinstance(outcome, Failed):
            self.failed += count
            self.error = outcome.error
            return
        size = sum(len(record.value or b"") for record in outcome.batch.records)
        if began is not None:  # Else it was sent, lost and sent again within one call of `send`.
            self.seconds.append(time.perf_counter() - began)
        self.records += count
        self.size_bytes += size
        self._progress.step(count, size)


@command("produce", examples=EXAMPLES)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-n",
    "--records",
    type=click.IntRange(min=1),
    metavar="N",
    default=100_000,
    show_default=True,
    help="How many.",
)
@click.option(
    "-s",
    "--size",
    type=click.IntRange(min=0),
    metavar="N",
    default=100,
    show_default=True,
    help="Bytes of each value.",
)
@click.option("--rate", type=click.IntRange(min=1), metavar="N", help="At most so many records a second.")
@click.option(
    "--batch-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    default=65536,
    show_default=True,
    help="Size of a batch.",
)
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="If it must be created.",
)
@click.option("--idempotent", is_flag=True, help="No duplicates from retries; needs acks=all.")
@codec_option
@acks_option
@bootstrap_option
def produce(
    *,
    topic: str,
    records: int,
    size: int,
    rate: int | None,
    batch_bytes: int,
    partitions: int,
    idempotent: bool,
    codec: Codec,
    acks: int,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Measure how fast records are written, by this client in one process.

    A latency is that of a batch, from its first record to its acknowledgement. The topic is created if it
    is missing, and its records stay.
    """
    if idempotent and acks != -1:
        raise click.UsageError("--idempotent needs --acks all: else a retry cannot be told from a loss")
    settings = WriterSettings(acks=acks, codec=codec, batch_bytes=batch_bytes, idempotent=idempotent)
    values = payloads(size)
    ensure_topic(bootstrap, timeout, topic, partitions)
    with (
        Cluster(bootstrap, timeout=timeout) as cluster,
        Progress(f"produce {topic}", records, "records") as progress,
    ):
        meter = Meter(progress)
        began = time.perf_counter()
        with BatchWriter(cluster, meter.note, settings) as writer:
            for number in range(records):
                if rate is not None:
                    _keep_pace(writer, began + number / rate)
                at = time.perf_counter()
                meter.opened(writer.send(topic, None, values[number % _VARIANTS]), at)
        seconds = time.perf_counter() - began
    through = Throughput(meter.records, meter.size_bytes, seconds)
    errors = (
        [] if meter.error is None else [f"{counted(meter.failed, 'record')} not delivered: {meter.error}"]
    )
    data = {
        "topic": topic,
        "failed": meter.failed,
        **through.shape(),
        "latency": latencies(meter.seconds).shape(),
    }
    return Report(data, [Fields(summary(through, latencies(meter.seconds)))], errors)


def _keep_pace(writer: BatchWriter, due: float) -> None:
    """Wait until it is time for the next record; what is buffered goes out before, not after."""
    wait = due - time.perf_counter()
    if wait > 0:
        writer.flush()
        time.sleep(max(0.0, due - time.perf_counter()))


def payloads(size: int) -> list[bytes]:
    """Values of `size` bytes each, the same in every run."""
    chance = random.Random(42)
    letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _"
    return [bytes(chance.choices(letters, k=size)) for _ in range(_VARIANTS)]


def ensure_topic(bootstrap: str, timeout: float, topic: str, partitions: int) -> None:
    """Create a topic unless it is there, and wait until it can be used."""
    with open_admin(bootstrap, timeout) as admin:
        try:
            admin.create_topic(topic, partitions)
        except Refused as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            admin.wait_for_topics([topic])


def summary(through: Throughput, measured: Latencies) -> list[tuple[str, str]]:
    """The lines that all of `perf` ends with."""
    return [
        ("records", f"{through.records:,}"),
        ("time", f"{through.seconds:.2f} s"),
        ("rate", f"{through.records_per_second:,.0f} records/s"),
        ("throughput", f"{through.megabytes_per_second:,.1f} MB/s"),
        ("latency", latency_text(measured)),
    ]


def latency_text(measured: Latencies) -> str:
    """Quantiles on one line."""
    return (
        f"p50 {measured.p50:.2f} ms, p95 {measured.p95:.2f} ms, "
        f"p99 {measured.p99:.2f} ms, max {measured.max:.2f} ms"
    )
