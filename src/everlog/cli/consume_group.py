"""`everlog consume --group`: records as a member of a group, which shares the partitions and the offsets."""

import signal
import sys

import click

from everlog.cli.record_format import Formatter
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.group_reader import GroupReader
from everlog.model.topics import TopicPartition


def check_group_usage(partitions: tuple[str, ...], offset: str | None) -> None:
    """Refuse options that a member of a group cannot have: the group decides on both."""
    if partitions:
        raise click.UsageError("--partition does not go with --group: the group shares out the partitions")
    if offset not in (None, "start", "end"):
        raise click.UsageError(
            f"--offset {offset!r} does not go with --group: expected start or end, for partitions without a "
            "committed offset; `everlog group reset-offsets` moves the others"
        )


def consume_as_member(
    cluster: Cluster,
    group_id: str,
    topic: str,
    write: Formatter,
    *,
    from_start: bool,
    count: int | None,
    exit_at_end: bool,
    read_committed: bool,
) -> None:
    """Print records until there are `count`, the end is reached, or KeyboardInterrupt; then leave."""
    cluster.topic(topic)
    reader = GroupReader(
        cluster,
        group_id,
        [topic],
        from_start=from_start,
        stop_at_end=exit_at_end,
        read_committed=read_committed,
    )
    # A service manager's wish to end is as good as Ctrl-C: without a farewell the group would wait for us.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with reader:
            left = count
            while not reader.finished and left != 0:
                left = _copy_once(reader, write, left)
    finally:
        signal.signal(signal.SIGTERM, before)


def _copy_once(reader: GroupReader, write: Formatter, left: int | None) -> int | None:
    """Print what one poll brings, at most `left` records, and return how many are left then."""
    out = sys.stdout.buffer
    unread: dict[TopicPartition, int] = {}
    for chunk in reader.poll():
        if left == 0:
            unread[chunk.place] = chunk.start
            continue
        for record in chunk.records():
            out.write(write(chunk.place, record))
            if left is not None:
                left -= 1
                if left == 0:
                    unread[chunk.place] = record.offset + 1
                    break
    # What is counted as consumed must have left our buffer.
    out.flush()
    reader.rewind(unread)
    return left
