"""`everlog perf consume`."""

import time
from array import array

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.measure import Throughput, latencies
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Fields, Report
from everlog.cli.perf_produce import summary
from everlog.cli.progress import Progress
from everlog.client.core.fetch_plan import Chunk, FetchLimits
from everlog.client.core.offset_spec import parse_offset_spec
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.offsets import ranges_of
from everlog.client.sync.record_reader import RecordReader
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

    Bytes are those of batches as they travel. A latency is the wait for one answer.
    """
    try:
        spec = parse_offset_spec(offset, Timestamp(int(time.time() * 1000)))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    limits = FetchLimits(partition_max_bytes=fetch_bytes)
    waits = array("d")
    read = size = 0
    with Cluster(bootstrap, timeout=timeout) as cluster:
        cluster.topic(topic)
        places = list(cluster.view.places(topic))
        ranges = ranges_of(cluster, places, spec, read_committed=False, stop_at_end=True)
        there = sum((wanted.end or 0) - wanted.start for wanted in ranges.values())
        wanted_count = max(0, there if records is None else min(there, records))
        reader = RecordReader(cluster, ranges, limits=limits)
        began = time.perf_counter()
        with Progress(f"consume {topic}", wanted_count, "records") as progress:
            while not reader.finished and read < wanted_count:
                asked = time.perf_counter()
                chunks = reader.poll()
                waits.append(time.perf_counter() - asked)
                for chunk in chunks:
                    count = _count(chunk, raw=raw)
                    read += count
                    size += chunk.size_bytes
                    progress.step(count, chunk.size_bytes)
        seconds = time.perf_counter() - began
        reader.close()
    through = Throughput(read, size, seconds)
    data = {"topic": topic, "raw": raw, **through.shape(), "latency": latencies(waits).shape()}
    return Report(data, [Fields(summary(through, latencies(waits)))])


def _count(chunk: Chunk, *, raw: bool) -> int:
    if raw:
        return sum(batch.count for batch in chunk.batches)
    return sum(1 for _ in chunk.records())
