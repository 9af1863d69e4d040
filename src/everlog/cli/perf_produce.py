"""`everlog perf produce`."""

import random
import time
from array import array
from collections.abc import Sequence
from functools import partial

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.connect import open_admin, open_producer
from everlog.cli.measure import Latencies, Throughput, latencies
from everlog.cli.options import acks_option, bootstrap_option, codec_option
from everlog.cli.output import Fields, Report
from everlog.cli.progress import Progress
from everlog.cli.shapes import counted
from everlog.client.core.producer.delivery import RecordMetadata
from everlog.client.sync.producer import Producer
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.records.compression import Codec

EXAMPLES = """
$ everlog perf produce perf-test
$ everlog perf produce perf-test --records 1000000 --size 1000 --batch-bytes 65536 --acks 1 --codec lz4
$ everlog perf produce perf-test --rate 10000 --json
"""

_VARIANTS = 512
"""Different payloads in turn, so that a codec has work to do and their making costs nothing."""


_SAMPLED = 16
"""One record in so many is timed: timing each would measure the timing."""


class Meter:
    """Times some of the records, from `send` to the acknowledgement, and shows how far it is."""

    def __init__(self, producer: Producer, progress: Progress, size: int) -> None:
        self._producer = producer
        self._progress = progress
        self._size = size
        self._shown = 0
        self.seconds = array("d")
        self.error: EverlogError | None = None

    def note(self, began: float, found: RecordMetadata | None, error: EverlogError | None) -> None:
        """Take in what became of a record that was sent at `began`; on the network thread."""
        if found is None:
            self.error = error
        else:
            self.seconds.append(time.perf_counter() - began)

    def show(self) -> None:
        """Draw what was delivered since the last time."""
        delivered = self._producer.metrics()["records_delivered"]
        news, self._shown = delivered - self._shown, delivered
        self._progress.step(news, news * self._size)


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
    help="How large a batch is when it is sent at once; it grows while it waits for its turn.",
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

    A latency is that of a record, from its sending to its acknowledgement; one in 16 is timed. The topic is
    created if it is missing, and its records stay.
    """
    if idempotent and acks != -1:
        raise click.UsageError("--idempotent needs --acks all: else a retry cannot be told from a loss")
    values = payloads(size)
    ensure_topic(bootstrap, timeout, topic, partitions)
    producer = open_producer(
        bootstrap,
        timeout,
        acks=acks,
        enable_idempotence=idempotent,
        compression_type=codec.name.lower(),
        batch_size=batch_bytes,
    )
    with producer, Progress(f"produce {topic}", records, "records") as progress:
        meter = Meter(producer, progress, size)
        began = time.perf_counter()
        _send_all(producer, meter, topic, values, records, rate)
        producer.flush()
        seconds = time.perf_counter() - began
        meter.show()
        counted_by_producer = producer.metrics()
    delivered, failed = counted_by_producer["records_delivered"], counted_by_producer["records_failed"]
    through = Throughput(delivered, delivered * size, seconds)
    errors = [f"{counted(failed, 'record')} not delivered: {meter.error or 'see above'}"] if failed else []
    data = {
        "topic": topic,
        "failed": failed,
        **through.shape(),
        "latency": latencies(meter.seconds).shape(),
    }
    return Report(data, [Fields(summary(through, latencies(meter.seconds)))], errors)


def _send_all(
    producer: Producer, meter: Meter, topic: str, values: Sequence[bytes], records: int, rate: int | None
) -> None:
    began = time.perf_counter()
    for number in range(records):
        if rate is not None and (wait := began + number / rate - time.perf_counter()) > 0:
            time.sleep(wait)
        value = values[number % _VARIANTS]
        if number % _SAMPLED:
            producer.send(topic, value)
            continue
        producer.send(topic, value, on_delivery=partial(meter.note, time.perf_counter()))
        if not number % (_SAMPLED * 64):
            meter.show()


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
