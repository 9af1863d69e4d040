"""Those who had records deleted, and wait until every replica that is alive has let go of them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from everlog.broker.replicas import Replica
from everlog.metadata.image import PartitionImage
from everlog.model.errors import ErrorCode
from everlog.model.ids import BrokerId, Instant, Offset

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

Done = Callable[[ErrorCode, Offset], None]
"""Gets the low watermark: the first offset that some replica still has."""


class _Wait(NamedTuple):
    offset: Offset
    deadline: Instant
    done: Done


class LowWatermarks:
    """All waits of a broker, by partition."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._waits: dict[Replica, list[_Wait]] = {}

    def wait(self, replica: Replica, offset: Offset, deadline: Instant, done: Done) -> None:
        """Call `done` once no replica that is alive has anything before `offset`, which may be now."""
        self._waits.setdefault(replica, []).append(_Wait(offset, deadline, done))
        self._broker.alarm.ring_by(deadline)
        self.moved(replica)

    def moved(self, replica: Replica) -> None:
        """A replica has said where it begins: tell those who have waited for that."""
        waits = self._waits.get(replica)
        if not waits:
            return
        low = self.low_watermark(replica)
        self._tell(replica, [one for one in waits if one.offset <= low], ErrorCode.NONE)

    def fail(self, replica: Replica, code: ErrorCode) -> None:
        """The partition leads here no more."""
        self._tell(replica, list(self._waits.get(replica, ())), code)

    def tick(self, now: Instant) -> None:
        """Tell those whose time is up; see who is alive."""
        for replica in list(self._waits):
            self.moved(replica)
            waits = self._waits.get(replica, [])
            self._tell(replica, [one for one in waits if one.deadline <= now], ErrorCode.REQUEST_TIMED_OUT)
        deadlines = [one.deadline for waits in self._waits.values() for one in waits]
        if deadlines:
            self._broker.alarm.ring_by(min(deadlines))

    def low_watermark(self, replica: Replica) -> Offset:
        """The first offset that a replica which is alive still has, as far as it is known here."""
        low = replica.opened().start_offset
        partition = self._partition(replica)
        for broker in () if partition is None else partition.replicas:
            known = self._broker.image.brokers.get(BrokerId(broker))
            if broker == self._broker.node_id or known is None or known.fenced:
                continue
            followed = replica.followers.get(broker)
            low = min(low, Offset(0) if followed is None else followed.log_start)
        return low

    def _partition(self, replica: Replica) -> PartitionImage | None:
        topic = self._broker.image.topics.get(replica.name.topic)
        if topic is None or replica.name.partition >= len(topic.partitions):
            return None
        return topic.partitions[replica.name.partition]

    def _tell(self, replica: Replica, told: list[_Wait], code: ErrorCode) -> None:
        if not told:
            return
        left = [one for one in self._waits[replica] if one not in told]
        if left:
            self._waits[replica] = left
        else:
            del self._waits[replica]
        low = self.low_watermark(replica) if code is ErrorCode.NONE else Offset(-1)
        for one in told:
            one.done(code, low)
