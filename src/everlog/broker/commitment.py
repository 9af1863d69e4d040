"""When a coordinator's write counts: enough replicas take it, and all that are in sync have it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from everlog.broker.handlers.produce import check_enough_in_sync
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
    if not replica.leads or epoch not in (None, replica.leader_epoch):
        raise Refused(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{replica.name} does not lead on broker {broker.node_id}"
        )
    if replica.directory in broker.housekeeping.without_room:
        raise StorageError(f"{replica.directory} has no room for more records")
    check_enough_in_sync(replica)


def when_committed(broker: "Broker", replica: Replica, end: Offset, done: Done) -> None:
    """Call `done` once all below `end` is committed, which may be now, or with why it may never be.

    Where the topic asks for fsync that is once it is synced as well. Refused says that the partition leads
    here no more: what was written may be in effect with the next leader, or not.
    """

    def reached(code: ErrorCode) -> None:
        if code in _COMMITTED:
            done(None)
        elif code is ErrorCode.KAFKA_STORAGE_ERROR:
            done(StorageError(f"{replica.name} cannot be synced"))
        else:
            done(Refused(code, f"{replica.name} stopped leading here before {end} was committed"))

    broker.replication.when_committed(replica, end, reached)
