"""When a coordinator's write counts: enough replicas take it, it is synced where that is asked for, and the
high watermark has passed it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from everlog.broker.neighbours import check_led_here, commitment
from everlog.broker.replicas import Replica
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Offset

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

Done = Callable[[Refused | StorageError | None], None]

_COMMITTED = (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""With the second the high watermark is there as well, only fewer replicas are in sync by now."""


def check_writable(broker: "Broker", replica: Replica, epoch: int | None = None) -> None:
    """Refuse a write before it is made: led elsewhere, no room, or too few replicas in sync.

    `epoch` is the leader epoch that the write belongs to, where it belongs to one.
    """
    known = check_led_here(broker, replica, epoch)
    if replica.directory in broker.housekeeping.without_room:
        raise StorageError(f"{replica.directory} has no room for more records")
    if len(known.isr) < replica.min_insync:
        raise Refused(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{replica.name} has {len(known.isr)} replicas in sync, "
            f"min.insync.replicas is {replica.min_insync}",
        )


def note_append(broker: "Broker", replica: Replica, size: int, *, wait_for_sync: bool) -> None:
    """Tell those who wait for records of a partition that it has more of them."""
    followed = commitment(broker)
    if followed is not None:
        followed.appended(replica, size, wait_for_sync)
    elif replica.watchers:
        broker.parked.appended(replica, size)


def when_committed(broker: "Broker", replica: Replica, end: Offset, done: Done, *, synced: bool) -> None:
    """Call `done` once all below `end` is committed, which may be now, or with why it may never be.

    `synced` is whether it has to be on this broker's disk too. Refused says that the partition leads here no
    more: what was written may be in effect with the next leader, or not.
    """
    followed = commitment(broker)
    if followed is None:
        _when_on_disk(broker, replica, end, done, synced=synced)
        return

    def reached(code: ErrorCode) -> None:
        if code in _COMMITTED:
            done(None)
        elif code is ErrorCode.KAFKA_STORAGE_ERROR:
            done(_not_synced(replica))
        else:
            done(Refused(code, f"{replica.name} stopped leading here before {end} was committed"))

    followed.when_committed(replica, end, reached)


def _when_on_disk(broker: "Broker", replica: Replica, end: Offset, done: Done, *, synced: bool) -> None:
    """What a broker alone has written is committed, once it is synced where that is asked for."""
    log = replica.opened()
    if not synced or end <= log.recovery_point:
        done(None)
        return

    def on_disk(durable: bool) -> None:
        done(None if durable else _not_synced(replica))

    broker.group_commit.wait(log, end, log.sync_due_at, on_disk)


def _not_synced(replica: Replica) -> StorageError:
    return StorageError(f"{replica.name} cannot be synced")
