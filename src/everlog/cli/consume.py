"""`everlog consume`: records by partition, offset, time or range, as text or JSON."""

import sys
import time

import click

from everlog.cli.command import bare_command, command_name, json_option
from everlog.cli.completers import complete_groups, complete_topics
from everlog.cli.connect import open_admin
from everlog.cli.consume_group import Wanted, check_group_usage, consume_as_member
from everlog.cli.options import bootstrap_option
from everlog.cli.output import envelope
from everlog.cli.ranges import RangeReader, open_reader, places_of, resolve_ranges
from everlog.cli.record_format import DEFAULT_FORMAT, Formatter, compile_format
from everlog.cli.record_lines import plain_record, record_shape
from everlog.client.core.consumer.offset_spec import parse_offset_spec
from everlog.model.errors import ConfigError
from everlog.model.ids import Timestamp
from everlog.model.topics import TopicPartition

EXAMPLES = """
$ everlog consume orders                                  # what comes from now on
$ everlog consume orders --exit-at-end                    # all there is
$ everlog consume orders -o -10:end -p 0                  # the last ten of partition 0
$ everlog consume orders -o @-1h --format '%T %k %v\\n'    # from an hour ago, with time and key
$ everlog consume orders -o @2026-01-31T08:00:30m --json  # half an hour of them, as JSON
$ everlog consume orders --group billing -o start         # a share of them, from where the group is
"""


@bare_command("consume", examples=EXAMPLES)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-p", "--partition", "partitions", multiple=True, metavar="N[,N…]", help="Only these; repeatable."
)
@click.option(
    "-o",
    "--offset",
    default=None,
    metavar="SPEC",
    help="start, end, N, +N (after the start), -N (before the end), N:M, @TIME or @TIME:TIME."
    "  [default: end, or start with --exit-at-end]",
)
@click.option(
    "--format", "form", default=DEFAULT_FORMAT, show_default=True, help="How to print a record; see above."
)
@click.option("-n", "--count", type=click.IntRange(min=1), metavar="N", help="Stop after so many records.")
@click.option(
    "-e/-F",
    "--exit-at-end/--follow",
    "exit_at_end",
    default=False,
    help="Stop at what is the end now, or wait for more.  [default: --follow]",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether to see open and aborted transactions.",
)
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Read as a member of this group, and commit its offsets.",
)
@json_option
@bootstrap_option
def consume(
    *,
    topic: str,
    partitions: tuple[str, ...],
    offset: str | None,
    form: str,
    count: int | None,
    exit_at_end: bool,
    isolation: str,
    group: str | None,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> int:
    """Read records of a topic and print them.

    Offsets: an end is exclusive; a range with an end stops there. TIME is milliseconds, seconds, ISO 8601
    (UTC unless it says otherwise), or -1h30m for so long ago; the second TIME may be a duration.

    Formats: %v value, %k key, %o offset, %p partition, %t topic, %T timestamp, %D time in ISO 8601,
    %h headers, %V and %K bytes of value and key, %%; \\n \\t \\r \\0 \\\\ \\xHH.

    With --json each record is a line of JSON that `produce --json` can read.

    With --group the partitions are shared with the group's other members, and each is read from where the
    group is in it; --offset, start or end, is for those where it has not been. What has been printed is
    committed every few seconds, before partitions go to other members, and in the end.
    """
    if group is not None:
        check_group_usage(partitions, offset)
    try:
        # Whoever stops at the end wants what there is; whoever waits for more wants what comes.
        offset = offset or ("start" if exit_at_end else "end")
        spec = parse_offset_spec(offset, Timestamp(int(time.time() * 1000)))
        write = _json_writer(command_name()) if as_json else compile_format(form)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    wanted = _partitions(partitions)
    read_committed = isolation == "read_committed"
    if group is not None:
        try:
            chosen = Wanted(topic, offset == "start", count, exit_at_end, read_committed)
            consume_as_member(bootstrap, timeout, group, chosen, write)
        except KeyboardInterrupt:
            pass  # The group was left on the way here.
        return 0
    with open_admin(bootstrap, timeout) as admin:
        places = places_of(admin, topic, wanted)
        ranges = resolve_ranges(admin, places, spec, read_committed=read_committed, stop_at_end=exit_at_end)
    with open_reader(bootstrap, timeout, read_committed=read_committed) as consumer:
        try:
            _copy(RangeReader(consumer, ranges), write, count)
        except KeyboardInterrupt:
            pass  # The way to end what would go on for ever.
    return 0


def _copy(reader: RangeReader, write: Formatter, count: int | None) -> None:
    out = sys.stdout.buffer
    left = -1 if count is None else count
    while not reader.finished and left != 0:
        for record in reader.poll():
            place = TopicPartition(record.topic, record.partition)
            out.write(write(place, plain_record(record)))
            left -= 1
            if left == 0:
                break
        out.flush()


def _json_writer(command: str) -> Formatter:
    return lambda place, record: envelope(command, record_shape(place, record)).encode() + b"\n"


def _partitions(texts: tuple[str, ...]) -> list[int] | None:
    numbers: list[int] = []
    for text in texts:
        for part in text.split(","):
            if not part.strip().isdecimal():
                raise click.UsageError(
                    f"--partition {text!r} cannot be read: expected numbers such as 0 or 0,2"
                )
            numbers.append(int(part))
    return sorted(set(numbers)) or None
