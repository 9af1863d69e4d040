"""`everlog perf consume`."""

import time
from array import array
from collections.abc import Iterable

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.connect import open_admin
from everlog.cli.measure import Throughput, latencies
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Fields, Report
from everlog.cli.perf_produce import summary
from everlog.cli.progress import Progress
from everlog.cli.ranges import RangeReader, open_reader, places_of, resolve_ranges
from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.offset_spec import parse_offset_spec
from everlog.model.errors import ConfigError
from everlog.model.ids import Timestamp

EXAMPLES = """
$ everlog perf consume perf-test
$ everlog perf consume perf-test --records 500000 --raw --fetch-bytes 4194304
"""


@command("consume", examples=EXAMPLES)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-n",
    "--records",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after so many.  [default: all there are]",
)
@click.option(
    "-o", "--offset", default="start", show_default=True, help="Where to begin, as in `everlog consume`."
)
@click.option("--raw", is_flag=True, help="Leave batches unopened: measures the broker more than the client.")
@click.option(
    "--fetch-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    default=1048576,
    show_default=True,
    help="The most of one partition in an answer.",
)
@bootstrap_option
def consume(
    *,
    topic: str,
    records: int | None,
    offset: str,
    raw: bool,
    fetch_bytes: int,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Measure how fast records are read, by this client in one process, up to what is the end now.

    Bytes are those of batches as they travel. A latency is the wait for the next records, of which some
    were fetched ahead.
    """
    try:
        spec = parse_offset_spec(offset, Timestamp(int(time.time() * 1000)))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    waits = array("d")
    read = 0
    with open_admin(bootstrap, timeout) as admin:
        places = places_of(admin, topic, None)
        ranges = resolve_ranges(admin, places, spec, read_committed=False, stop_at_end=True)
    there = sum((wanted.end or 0) - wanted.start for wanted in ranges.values())
    wanted_count = max(0, there if records is None else min(there, records))
    with (
        open_reader(bootstrap, timeout, max_partition_fetch_bytes=fetch_bytes) as consumer,
        Progress(f"consume {topic}", wanted_count, "records") as progress,
    ):
        began = time.perf_counter()
        reader = RangeReader(consumer, ranges)
        while not reader.finished and read < wanted_count:
            asked = time.perf_counter()
            count = _count(reader.take_chunks()) if raw else len(reader.poll())
            waits.append(time.perf_counter() - asked)
            read += count
            progress.step(count)
        seconds = time.perf_counter() - began
        size = consumer.metrics()["bytes_fetched"]
    through = Throughput(read, size, seconds)
    data = {"topic": topic, "raw": raw, **through.shape(), "latency": latencies(waits).shape()}
    return Report(data, [Fields(summary(through, latencies(waits)))])


def _count(chunks: Iterable[Chunk]) -> int:
    return sum(batch.count for chunk in chunks for batch in chunk.batches)
