"""`everlog produce`: lines to records."""

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.connect import check_reachable, open_producer
from everlog.cli.lines import lines_from
from everlog.cli.options import acks_option, bootstrap_option, codec_option
from everlog.cli.output import Block, Line, Report, Table
from everlog.cli.record_lines import LineReader, read_json_record, text_reader
from everlog.cli.shapes import counted
from everlog.client.core.consumer.offset_spec import AtTime, parse_offset_spec
from everlog.client.core.producer.delivery import RecordMetadata
from everlog.client.core.producer.settings import ACKS_ALL
from everlog.client.sync.producer import Producer
from everlog.model.errors import ConfigError, EverlogError
from everlog.model.ids import Timestamp
from everlog.records.compression import Codec

EXAMPLES = """
$ echo hello | everlog produce greetings --create
$ everlog produce orders --key-separator : --header source=shop < orders.txt
$ everlog produce orders --file orders.txt --codec zstd --acks all
$ everlog consume orders --offset :end --json | everlog produce orders-copy --json
"""


@dataclass(slots=True)
class Tally:
    """What became of the records."""

    records: int = 0
    first_offset: dict[int, int] = field(default_factory=dict[int, int])
    last_offset: dict[int, int] = field(default_factory=dict[int, int])
    by_partition: Counter[int] = field(default_factory=Counter[int])
    failed: int = 0
    error: EverlogError | None = None
    """The first of them."""

    def note(self, found: RecordMetadata | None, error: EverlogError | None) -> None:
        """Count one record; called on the network thread, and read after a flush."""
        if found is None:
            self.failed += 1
            self.error = self.error or error
            return
        self.records += 1
        self.by_partition[found.partition] += 1
        if found.offset >= 0:
            self.first_offset.setdefault(found.partition, found.offset)
            self.last_offset[found.partition] = found.offset


@command("produce", examples=EXAMPLES)
@click.argument("topic", shell_complete=complete_topics)
@click.option("-k", "--key-separator", metavar="TEXT", help="What divides key and value in a line.")
@click.option(
    "-p", "--partition", type=click.IntRange(min=0), metavar="N", help="Send all to this partition."
)
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="KEY=VALUE", help="For every record; repeatable."
)
@click.option("--timestamp", metavar="TIME", help="For every record: ms, or ISO 8601.  [default: now]")
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    help="Read lines from here, not stdin.",
)
@click.option(
    "--input",
    "input_form",
    type=click.Choice(["text", "json"]),
    help="What lines are.  [default: json with --json, else text]",
)
@click.option("--tombstones", is_flag=True, help="An empty value is null: it deletes the key when compacted.")
@click.option(
    "--batch-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    default=16384,
    show_default=True,
    help="How large a batch is when it is sent at once; it grows while it waits for its turn.",
)
@click.option("--create", is_flag=True, help="Let the broker create the topic if it is missing.")
@codec_option
@acks_option
@bootstrap_option
@click.pass_context
def produce(
    ctx: click.Context,
    *,
    topic: str,
    key_separator: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    timestamp: str | None,
    path: str | None,
    input_form: str | None,
    tombstones: bool,
    batch_bytes: int,
    create: bool,
    codec: Codec,
    acks: int,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Write records to a topic, one a line, from stdin or a file.

    A line is a value; with --key-separator a key and a value; as JSON an object with key, value, headers,
    partition and timestamp, where bytes that are no text are {"base64": "…"}. What has been read is sent
    as soon as the input pauses. With --acks all, no retry writes a record twice or out of order. With --json
    lines are JSON and so is the summary.
    """
    as_json = input_form == "json" or (input_form is None and bool(ctx.params.get("as_json")))
    separator = None if key_separator is None else key_separator.encode()
    reader = read_json_record if as_json else text_reader(separator, empty_is_null=tombstones)
    defaults = _Defaults(partition, _headers(headers), None if timestamp is None else _time(timestamp))
    tally = Tally()
    problem: EverlogError | None = None
    check_reachable(bootstrap, timeout)
    producer = open_producer(
        bootstrap,
        timeout,
        acks=acks,
        # It costs next to nothing and keeps the order of lines through retries, so it is on where it can be.
        enable_idempotence=acks == ACKS_ALL,
        compression_type=codec.name.lower(),
        batch_size=batch_bytes,
        allow_auto_create_topics=create,
    )
    with producer, _input(path) as descriptor:
        try:
            _pump(producer, tally, topic, descriptor, reader, defaults)
        except ConfigError as error:
            problem = error  # Lines before the bad one are good, and are delivered.
        producer.flush()
        size_bytes = producer.metrics()["bytes_sent"]
    return _report(topic, tally, size_bytes, problem)


@dataclass(frozen=True, slots=True)
class _Defaults:
    """What a record has unless its line says otherwise."""

    partition: int | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None


def _pump(
    producer: Producer, tally: Tally, topic: str, descriptor: int, reader: LineReader, defaults: _Defaults
) -> None:
    number = 0
    for lines, quiet in lines_from(descriptor):
        for line in lines:
            number += 1
            record = reader(line, number)
            producer.send(
                topic,
                record.value,
                record.key,
                headers=(*defaults.headers, *record.headers),
                partition=defaults.partition if defaults.partition is not None else record.partition,
                timestamp=defaults.timestamp if defaults.timestamp is not None else record.timestamp,
                on_delivery=tally.note,
            )
        if quiet:
            producer.flush()


def _report(topic: str, tally: Tally, size_bytes: int, problem: EverlogError | None) -> Report:
    rows = [
        (partition, count, tally.first_offset.get(partition), tally.last_offset.get(partition))
        for partition, count in sorted(tally.by_partition.items())
    ]
    data = {
        "topic": topic,
        "records": tally.records,
        "bytes": size_bytes,
        "failed": tally.failed,
        "partitions": [
            {"partition": partition, "records": count, "first_offset": first, "last_offset": last}
            for partition, count, first, last in rows
        ],
    }
    blocks: list[Block] = [Line(f"produced {counted(tally.records, 'record')} to {topic}")]
    if rows:
        blocks.append(Table(("PARTITION", "RECORDS", "FIRST", "LAST"), rows))
    errors = [str(problem)] if problem is not None else []
    if tally.failed:
        errors.append(f"{counted(tally.failed, 'record')} not delivered: {tally.error}")
    return Report(data, blocks, errors)


@contextlib.contextmanager
def _input(path: str | None) -> Generator[int]:
    if path is None:
        yield sys.stdin.fileno()
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _headers(pairs: tuple[str, ...]) -> tuple[tuple[str, bytes | None], ...]:
    read: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--header {pair!r} cannot be read: expected KEY=VALUE")
        read.append((name, value.encode()))
    return tuple(read)


def _time(text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        start = parse_offset_spec(f"@{text}", Timestamp(0)).start
    except ConfigError:
        start = None
    if not isinstance(start, AtTime) or text.startswith("-"):
        raise click.UsageError(f"--timestamp {text!r} cannot be read: expected milliseconds or ISO 8601")
    return start.timestamp
