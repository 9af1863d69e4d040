"""`everlog perf latency`: one record at a time, from its sending to its acknowledgement and to a reader."""

import time
from array import array

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.connect import open_producer
from everlog.cli.measure import latencies
from everlog.cli.options import acks_option, bootstrap_option
from everlog.cli.output import Fields, Report
from everlog.cli.perf_produce import ensure_topic, latency_text, payloads
from everlog.cli.progress import Progress
from everlog.cli.ranges import open_reader
from everlog.client.sync.consumer import Consumer
from everlog.client.sync.producer import Producer
from everlog.model.topics import TopicPartition

EXAMPLES = """
$ everlog perf latency perf-test
$ everlog perf latency perf-test --count 10000 --rate 1000 --acks 1 --json
"""


@command("latency", examples=EXAMPLES)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    default=2000,
    show_default=True,
    help="How many records.",
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
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    metavar="N",
    help="Records a second.  [default: each after the one before]",
)
@click.option(
    "--warm-up",
    type=click.IntRange(min=0),
    metavar="N",
    default=100,
    show_default=True,
    help="Not counted, at first.",
)
@acks_option
@bootstrap_option
def latency(
    *,
    topic: str,
    count: int,
    size: int,
    rate: int | None,
    warm_up: int,
    acks: int,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Measure latency, one record in a request at a time.

    A reader waits in a fetch of its own when a record is sent. Acknowledged is the time until the broker's
    answer to the producer; end to end the time until the reader has the record.
    """
    values = payloads(size)
    acked, seen = array("d"), array("d")
    ensure_topic(bootstrap, timeout, topic, 1)
    producer = open_producer(bootstrap, timeout, acks=acks, enable_idempotence=False, linger_ms=0)
    with producer, open_reader(bootstrap, timeout, fetch_max_wait_ms=5000) as consumer:
        probe = _Probe(producer, consumer, topic)
        with Progress(f"latency {topic}", count, "records") as progress:
            began = time.perf_counter()
            for number in range(warm_up + count):
                if rate is not None:
                    time.sleep(max(0.0, began + number / rate - time.perf_counter()))
                times = probe.one(values[number % len(values)])
                if number >= warm_up:
                    acked.append(times[0])
                    seen.append(times[1])
                    progress.step(1)
    data = {
        "topic": topic,
        "acknowledged": latencies(acked).shape(),
        "end_to_end": latencies(seen).shape(),
    }
    facts = [
        ("records", f"{count:,}"),
        ("acknowledged", latency_text(latencies(acked))),
        ("end to end", latency_text(latencies(seen))),
    ]
    return Report(data, [Fields(facts)])


class _Probe:
    """A writer and a reader on partition 0, each with a connection of its own."""

    def __init__(self, producer: Producer, consumer: Consumer, topic: str) -> None:
        self._topic = topic
        self._producer = producer
        self._consumer = consumer
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_end(place)
        consumer.position(place)  # The end as it is now, not as it will be.
        consumer.poll(0)

    def one(self, value: bytes) -> tuple[float, float]:
        """Send one record and wait until the reader has it; the two latencies in seconds."""
        began = time.perf_counter()
        self._producer.send(self._topic, value, partition=0).result()
        acked_at = time.perf_counter()
        while not self._consumer.poll():
            pass
        return acked_at - began, time.perf_counter() - began
