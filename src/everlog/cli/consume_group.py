"""`everlog consume --group`: records as a member of a group, which shares the partitions and the offsets."""

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

import click

from everlog.cli.connect import check_reachable, client_settings, limit_ms_of
from everlog.cli.record_format import Formatter
from everlog.cli.record_lines import plain_record
from everlog.client.core.group.types import OffsetAndMetadata, RebalanceListener
from everlog.client.sync.consumer import Consumer
from everlog.model.errors import EverlogError, Refused
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord

COMMIT_INTERVAL_S = 5.0
POLL_S = 0.5
MAX_POLL_INTERVAL_MS = 60_000
"""For how long others may have to wait for us when our output is stuck."""


def check_group_usage(partitions: tuple[str, ...], offset: str | None) -> None:
    """Refuse options that a member of a group cannot have: the group decides on both."""
    if partitions:
        raise click.UsageError("--partition does not go with --group: the group shares out the partitions")
    if offset not in (None, "start", "end"):
        raise click.UsageError(
            f"--offset {offset!r} does not go with --group: expected start or end, for partitions without a "
            "committed offset; `everlog group reset-offsets` moves the others"
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read, and for how long."""

    topic: str
    from_start: bool
    count: int | None
    exit_at_end: bool
    read_committed: bool


def consume_as_member(
    bootstrap: str, timeout: float, group_id: str, wanted: Wanted, write: Formatter
) -> None:
    """Print records until there are enough, the end is reached, or KeyboardInterrupt; then leave."""
    check_reachable(bootstrap, timeout)
    consumer = Consumer(
        bootstrap,
        group_id=group_id,
        auto_offset_reset="earliest" if wanted.from_start else "latest",
        isolation_level="read_committed" if wanted.read_committed else "read_uncommitted",
        allow_auto_create_topics=False,
        enable_auto_commit=False,
        max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
        default_api_timeout_ms=limit_ms_of(timeout),
        **client_settings(timeout),
    )
    # A service manager's wish to end is as good as Ctrl-C: without a farewell the group would wait for us.
    before = signal.signal(signal.SIGTERM, _end_once)
    try:
        with consumer:
            consumer.partitions_for(wanted.topic, timeout=timeout)
            _Copy(consumer, wanted, write).run()
    finally:
        if signal.getsignal(signal.SIGTERM) is _end_once:
            signal.signal(signal.SIGTERM, before)


def _end_once(number: int, frame: FrameType | None) -> None:
    """As Ctrl-C; a second SIGTERM, which `timeout` sends to our process group, must not disturb the end."""
    signal.signal(number, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


class _Copy(RebalanceListener):
    """Records on their way to standard output; what has got there is committed."""

    def __init__(self, consumer: Consumer, wanted: Wanted, write: Formatter) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._write = write
        self._ends: dict[TopicPartition, int] | None = None
        """Where what is assigned ended when it was; None until something was."""
        self._printed: dict[TopicPartition, OffsetAndMetadata] = {}
        """Behind the last record of each partition that has left our buffer and is not committed."""

    def run(self) -> None:
        """Copy until it is time to stop, then commit."""
        self._consumer.subscribe([self._wanted.topic], listener=self)
        left = self._wanted.count
        commit_at = time.monotonic() + COMMIT_INTERVAL_S
        try:
            while left != 0 and not self._is_at_end():
                records = self._consumer.poll(POLL_S, max_records=left)
                self._print(records)
                left = None if left is None else left - len(records)
                if time.monotonic() >= commit_at:
                    self._commit()
                    commit_at = time.monotonic() + COMMIT_INTERVAL_S
        except BaseException:
            # Records of the last poll may have been interrupted on their way; what came before them is done.
            with suppress(EverlogError):
                self._consumer.commit(self._printed)
            raise
        self._commit()

    def on_assigned(self, places: Sequence[TopicPartition]) -> None:
        """Remember where they end."""
        ends = self._consumer.end_offsets(*places) if places and self._wanted.exit_at_end else {}
        self._ends = {**(self._ends or {}), **ends}

    def on_revoked(self, places: Sequence[TopicPartition]) -> None:
        """Whoever gets them next shall not read again what we have printed."""
        self._commit()
        self._forget(places)

    def on_lost(self, places: Sequence[TopicPartition]) -> None:
        """Others read them already."""
        self._forget(places)

    def _forget(self, places: Sequence[TopicPartition]) -> None:
        for place in places:
            self._printed.pop(place, None)
            if self._ends is not None:
                self._ends.pop(place, None)

    def _is_at_end(self) -> bool:
        if not self._wanted.exit_at_end or self._ends is None:
            return False
        return all(self._consumer.position(place) >= end for place, end in self._ends.items())

    def _print(self, records: Sequence[ConsumerRecord]) -> None:
        out = sys.stdout.buffer
        for record in records:
            place = TopicPartition(record.topic, record.partition)
            out.write(self._write(place, plain_record(record)))
        # What is counted as consumed must have left our buffer.
        out.flush()
        for record in records:
            self._printed[TopicPartition(record.topic, record.partition)] = OffsetAndMetadata(
                record.offset + 1, leader_epoch=record.leader_epoch
            )

    def _commit(self) -> None:
        """Commit the positions; all before them has been printed, and what cannot be seen was passed over."""
        try:
            self._consumer.commit()
        except Refused:
            return  # The group has gone on without us: they will be read again.
        self._printed.clear()
